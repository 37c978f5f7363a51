"""Names of a model that pdc needs for something of its own, or that no option could say."""

import numpy
import onnx
import onnx.parser
import pytest

import pipeline
from test_refusals import refused


@pytest.mark.parametrize("words, says", [
    ({"second": "w/momentum"}, "'w/momentum': this name is needed for something of pdc's own; rename the tensor"),
    ({"second": "w/gradient"}, "'w/gradient': this name is needed for something of pdc's own; rename the tensor"),
    ({"x": "pdc.x"}, "input 'pdc.x': no data could be given to it by that name"), ({"x": "in=put"}, "input 'in=put': no data could be given")])
def test_names(words, says, tmp_path):
    network = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        net (float[batch, 4] x) => (float[batch, 4] y)
          <float[4, 4] w = {1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4}, float[4, 4] second = {1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4}> {
            h = MatMul(x, w)
            y = MatMul(h, second) }""")
    for tensor in [*network.graph.initializer, *network.graph.input]:
        tensor.name = words.get(tensor.name, tensor.name)
    for node in network.graph.node:
        node.input[:] = [words.get(name, name) for name in node.input]
    onnx.save(network, tmp_path / "net.onnx")
    refused(pipeline.BIN / "pdc", tmp_path / "net.onnx", "--gpus", 1, "--device", "cpu", "--minibatch", 2, "--optimizer",
            "momentum,lr=0.1,momentum=0.9", "-o", tmp_path / "project", says=[says])


@pytest.mark.parametrize("name", ["power", "sine", "logarithm", "knownPower", "broadcast", "strided", "into", "outsideRow"])
def test_names_of_functions(name, tmp_path):
    """What loops call, as the name of what they compute: from one tensor to the next, and repeated."""
    network = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        net (float[batch, 4] x) => (float loss)
          <float[4, 4] w = {{1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4}}, float[1] e = {{1.5}}, float[4] half = {{0.5,0.5,0.5,0.5}}> {{
            h = MatMul(x, w)
            square = Mul(h, h)
            {name} = Pow(square, e)
            more = Mul({name}, half)
            sum = Add(more, square)
            root = Sqrt(sum)
            waves = Sin(root)
            logs = Log(sum)
            both = Add(waves, logs)
            loss = ReduceMean <keepdims = 0> (both) }}""")
    onnx.save(network, tmp_path / "net.onnx")
    project = pipeline.compile_model(tmp_path / "net.onnx", tmp_path / "project", "--minibatch", 2, "--loss", "output", "--train", "*")
    numpy.save(tmp_path / "x.npy", numpy.linspace(0.1, 0.8, 8, dtype=numpy.float32).reshape(2, 4))
    assert numpy.isfinite(pipeline.train(project, tmp_path / "run", data=[f"x={tmp_path / 'x.npy'}"], steps=1).losses).all()
