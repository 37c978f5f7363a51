"""The proofs of a schedule hold for the rows that built programs hold, and for what they have issued."""

import re

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pipeline

STEPS = 3


def prove(project, *files, check=True):
    return pipeline.run(pipeline.BIN / "pdc-prove", project / "plan.json", *files, check=check)


def refused(project, folder, text):
    """What refuses rows that were changed."""
    (folder / "broken.txt").write_text(text)
    result = prove(project, folder / "broken.txt", check=False)
    assert result.returncode == 1 and result.stderr.startswith("error: rows: "), result.stderr
    return result.stderr


@pytest.mark.parametrize("schedule,stages,size,microbatches,transport", [
    ("zb-v", "1-1", 32, 4, "local"), ("1f1b", "2-1", 32, 2, "mpi"), ("pipedream", "1-1-1", 8, 1, "local"),
    ("pipedream --vertical-sync", "1-1", 8, 1, "local"), ("2bw", "1-1", 16, 2, "local")])
def test_rows_and_records(schedule, stages, size, microbatches, transport, models, tmp_path):
    is_asynchronous = schedule not in ("zb-v", "1f1b")
    batch = [] if microbatches == 1 else ["--microbatches", microbatches]
    project = pipeline.compile_model(models("mlp", "--hidden", 64, 32, 16), tmp_path / "project", "--schedule", *schedule.split(),
                                     "--stages", stages, "--minibatch", size, *batch,
                                     workers=sum(map(int, stages.split("-"))))
    # The last minibatch is a microbatch short.
    is_short = not is_asynchronous
    images, labels = pipeline.draw_images(tmp_path, size * STEPS - 8 * is_short, (784,), 10)
    rows, record = tmp_path / "rows.txt", tmp_path / "record.txt"
    pipeline.train(project, tmp_path / "run", "--record", record, data=[f"input={images}", f"labels={labels}"], steps=STEPS,
                   transport=transport)
    held = pipeline.run(pipeline.BIN / "pdc-run", project, "--check").stdout
    rows.write_text(held)
    proven = prove(project, rows, record).stdout.splitlines()
    assert proven[0].startswith("rows: proven")
    assert len(proven) == 1 + (1 if is_asynchronous else STEPS)
    assert proven[-1].endswith(", 3 of 4 microbatches") == is_short

    # A message less, another slot, a microbatch twice.
    sends = re.findall(r"    send .*\n", held)
    assert "stands still" in refused(project, tmp_path, held.replace(sends[0], "", 1))
    several = re.search(r"slots 0 1( \d+)* of", held)[0]
    refused(project, tmp_path, held.replace(several, "slots" + " 0" * (len(several.split()) - 2) + " of"))
    (tmp_path / "damaged.txt").write_text("rank 0 of 2\n  stage 0: slots many\n")
    damaged = prove(project, tmp_path / "damaged.txt", check=False)
    assert damaged.returncode == 1 and "damaged.txt:2: expected a number, found 'many'" in damaged.stderr
    first, second = (f"    run 0F{number}\n" for number in (0, 1))
    refused(project, tmp_path, held.replace(second, first, 1))


def test_names_with_quotes(tmp_path):
    """Names of tensors may hold what stands around them."""
    layer = lambda x, y, w: helper.make_node("MatMul", [x, w], [y], f"it's '{w}' to 1")
    weights = [numpy_helper.from_array(numpy.ones((6, 6), numpy.float32), name) for name in ("first", "second")]
    graph = helper.make_graph([layer("x", "h", "first"), layer("h", "y", "second")], "quotes",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 6])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "quotes.onnx")
    project = pipeline.compile_model(tmp_path / "quotes.onnx", tmp_path / "project", "--stages", "1-1", "--minibatch", 8, workers=2)
    images, labels = pipeline.draw_images(tmp_path, 8, (6,), 6)
    record = tmp_path / "record.txt"
    pipeline.train(project, tmp_path / "run", "--record", record, data=[f"x={images}", f"labels={labels}"], steps=1)
    assert "it's" in record.read_text()
    assert prove(project, record).stdout == "step 1: proven, 2 ranks\n"
