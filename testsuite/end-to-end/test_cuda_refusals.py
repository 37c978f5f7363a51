"""What kernels of a GPU cannot refuse, on the emulation: it makes the loss no number, and that is refused."""

import numpy
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import pipeline
from emulation import emit, on_host, train_on_host


@on_host
@pytest.mark.parametrize("schedule", ["1f1b", "pipedream"])
def test_labels_outside_their_range(schedule, models, tmp_path):
    """They stop no kernel: the loss is no number, and nothing is saved that has heard of it."""
    project = emit(models("lenet5"), tmp_path / "cuda", "--minibatch", 8, "--microbatches", 2 if schedule == "1f1b" else 1,
                   "--schedule", schedule, "--stages", "1-1", workers=2)
    images, labels = pipeline.draw_images(tmp_path, 8, (1, 28, 28), 10)
    numbers = numpy.load(labels)
    numbers[5] = 10
    numpy.save(labels, numbers)
    with pytest.raises(AssertionError, match="(?s)step 1: the loss is nan .*a label or an index outside its range") as error:
        train_on_host(project, tmp_path / "run", data=[f"input={images}", f"labels={labels}"], steps=1)
    assert "exited with 1" in str(error.value) and not list((tmp_path / "run" / "checkpoints").glob("step-*"))


PLACES = {"put": """flat = Reshape(h, whole)
                    ones = Constant<value = float[4, 1] {1.0, 1.0, 1.0, 1.0}>()
                    found = ScatterElements<axis = 1>(flat, place, ones)""",
          "mapped": """map = Constant<value = int64[5] {3, 1, 2, 6, 0}>()
                       word = Gather(map, place)
                       line = Gather(table, word)
                       rows = Reshape(line, row)
                       found = Add(h, rows)"""}


@on_host
@pytest.mark.parametrize("found", PLACES)
def test_places_outside(found, tmp_path):
    """What is put at a place outside, or found by what a table has there, makes the loss no number."""
    network = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        net (float[batch, 5] x, int64[batch, 1] place) => (float loss) {
            h = MatMul(x, weight)
            whole = Constant<value = int64[2] {4, 5}>()
            row = Constant<value = int64[2] {4, 5}>()
            """ + PLACES[found] + """
            square = Mul(found, found)
            loss = ReduceMean<keepdims = 0>(square) }""")
    generator = numpy.random.default_rng(1)
    network.graph.initializer.extend(numpy_helper.from_array(generator.standard_normal(shape).astype("float32"), name)
                                     for name, shape in (("weight", (5, 5)), ("table", (7, 5))))
    onnx.save(network, tmp_path / "net.onnx")
    numpy.save(tmp_path / "x.npy", generator.standard_normal((4, 5)).astype("float32"))
    project = emit(tmp_path / "net.onnx", tmp_path / "cuda", "--minibatch", 4, "--microbatches", 1)
    data = [f"x={tmp_path / 'x.npy'}", f"place={tmp_path / 'place.npy'}"]
    for place in (1, -6, 5):
        numpy.save(tmp_path / "place.npy", numpy.array([[0], [4], [place], [2]]))
        if place == 1:
            assert numpy.isfinite(train_on_host(project, tmp_path / str(place), data=data, steps=1).losses[0])
            continue
        with pytest.raises(AssertionError, match="(?s)step 1: the loss is nan .*an index outside its range"):
            train_on_host(project, tmp_path / str(place), data=data, steps=1)
