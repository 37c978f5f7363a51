"""Text files that are cut off, damaged or of something else: each command says one error and exits with 1."""

import json
import random
import shutil

import pytest

import pipeline

TINY = pipeline.MODELS / "tiny.onnx"
WORKERS = ["--device", "cpu", "--minibatch", 8, "--microbatches", 2]


def pdc(*options):
    return lambda path, folder: [pipeline.BIN / "pdc", TINY, *WORKERS, "-o", folder / "project",
                                 *(path if option is None else option for option in options)]


COMMANDS = {
    "topology": pdc("--topology", None),
    "stages": pdc("--gpus", 2, "--stages", None),
    "rows": pdc("--gpus", 2, "--schedule", None),
    "profile": lambda path, folder: [pipeline.BIN / "pdc-plan", path, "--workers", 2],
    "pipedream": lambda path, folder: [pipeline.BIN / "pdc-plan", path, "--workers", 2],
    "plan": lambda path, folder: [pipeline.BIN / "pdc-run", planned(path, folder), "--build-only"],
}


def planned(path, folder):
    (folder / "project").mkdir(exist_ok=True)
    shutil.copy(path, folder / "project" / "plan.json")
    (folder / "project" / "CMakeLists.txt").touch()
    return folder / "project"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A file of each kind that is good."""
    folder = tmp_path_factory.mktemp("whole")
    project = pipeline.compile_model(TINY, folder / "tiny", *WORKERS[2:], "--stages", "1-1", workers=2)
    rows = "stages 0 1\nmicrobatches 2\nrank 0: 0F0 0F1 0B0 0B1 allreduce 0U1\nrank 1: 1F0 1B0 1F1 1B1 allreduce 1U1\n"
    costs = "forward_compute_time=1.5, backward_compute_time=2.5, activation_size=8.0, parameter_size=16.0"
    return {
        "topology": '{"levels": [{"workers": 2, "bandwidth": 8e9, "latency": 5e-6}], "memory": 17179869184, "device": "cpu"}',
        "stages": (project / "plan.json").read_text(),
        "rows": rows,
        "profile": json.dumps({
            "model": "two.onnx", "device": "cpu", "threads": 1, "microbatch_size": 4,
            "units": [{"name": name, "nodes": [name], "forward_seconds": 0.5, "backward_input_seconds": 1} for name in "ab"],
            "values": [{"name": "x", "producer": 0, "consumers": [1], "bytes": 64, "gradient": True}]}),
        "pipedream": f"node1 -- A -- {costs}\nnode2 -- B -- {costs}\n\tnode1 -- node2\n",
        "plan": (project / "plan.json").read_text(),
    }


def damages(text, seed):
    draw = random.Random(seed)
    cut = text[:draw.randrange(1, len(text) // 2)].encode()
    flipped = bytearray(text, "utf-8")
    for _ in range(1 + len(flipped) // 100):
        flipped[draw.randrange(len(flipped))] = draw.randrange(256)
    return {"cut": cut, "flipped": bytes(flipped), "drawn": draw.randbytes(200), "empty": b""}


@pytest.mark.parametrize("kind", COMMANDS)
def test_one_error(kind, whole, tmp_path):
    path = tmp_path / "file"
    path.write_text(whole[kind])
    if kind != "plan":  # of which more than the file would be needed
        pipeline.run(*COMMANDS[kind](path, tmp_path))
    for seed in range(2):
        for name, content in damages(whole[kind], seed).items():
            path.write_bytes(content)
            result = pipeline.run(*COMMANDS[kind](path, tmp_path), check=False)
            assert result.returncode == 1 or name == "flipped" and result.returncode == 0, (name, seed, result)
            assert result.stderr.count("error: ") == result.returncode, (name, seed, result.stderr)
