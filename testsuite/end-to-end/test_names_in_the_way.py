"""Names of a model that pdc needs for something of its own, or that no option could say."""

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
