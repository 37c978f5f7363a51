"""tools/quickstart as a new user runs it, but shorter and without building pdc anew."""

import json
import pathlib
import re
import shutil

import pytest

import pipeline

IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")


@pytest.fixture
def tree(tmp_path):
    """A clone, as far as the quickstart looks at it."""
    for folder in ("tools", "runtime"):
        shutil.copytree(pipeline.SOURCE / folder, tmp_path / folder)
    return tmp_path


def number(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    assert found, f"{pattern}\n{text}"
    return float(found.group(1).replace(",", ""))


@pytest.mark.skipif(not IMAGES.exists(), reason="dataset-fashion-mnist is not installed")
def test_short(tree):
    steps = 60
    text = pipeline.run(tree / "tools" / "quickstart", "--bin", pipeline.BIN, "--steps", steps, cwd="/").stdout
    assert "plan of fashion.onnx for 2 x cpu, schedule 1f1b, 4 microbatches per update of 32 samples each" in text
    predicted = number(r"^seconds per minibatch +([0-9.]+) ms  bubble included, predicted$", text)
    assert number(r"^a minibatch took ([0-9.]+) ms \(median\), predicted [0-9.]+ ms$", text) > 0
    assert number(r"^a minibatch took [0-9.]+ ms \(median\), predicted ([0-9.]+) ms$", text) == predicted > 0
    # A tenth of the classes is what guessing finds.
    accuracy = number(r"^evaluation: accuracy ([0-9.]+) % of 10,000 samples, loss [0-9.]+$", text)
    assert 50 < accuracy < 100
    assert number(rf"^trained to step {steps} in 0:[0-9]+: loss [0-9.]+, ([0-9,]+) samples/s$", text) > 0
    for name in ("trace", "checkpoint", "log", "plan"):
        path = tree / re.search(rf"^{name}: .*?(\S+)$", text, re.MULTILINE).group(1)
        assert path.exists(), path
    records = pipeline.read_log(tree / "fashion.pdc" / "log.jsonl")
    assert len(pipeline.step_losses(records)) == steps
    plan = json.loads((tree / "fashion.pdc" / "plan.json").read_text())
    assert records[-1]["predicted_step_seconds"] == pytest.approx(plan["seconds_per_minibatch"], rel=0, abs=1e-9)
    assert json.loads((tree / "fashion.pdc" / "measured-trace.json").read_text())["traceEvents"]


@pytest.mark.parametrize("options,says", [
    (["--epoch", "1"], "error: tools/quickstart has no option --epoch\n"),
    (["--stages"], "error: --stages needs a value\n"),
    (["--stages", "1-1"], "error: --stages 1-1: expected their number, as in 2\n"),
])
def test_wrong_usage(options, says, tree):
    result = pipeline.run(tree / "tools" / "quickstart", *options, check=False)
    assert (result.returncode, result.stderr, result.stdout) == (2, says, "")


def test_help(tree):
    text = pipeline.run(tree / "tools" / "quickstart", "--help").stdout
    for option in ("--stages", "--epochs", "--steps", "--schedule", "--transport", "--seed", "--bin"):
        assert option in text
