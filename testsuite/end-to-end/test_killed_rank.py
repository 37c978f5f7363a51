"""A rank that dies ends the run on all ranks, with a report."""

import os
import pathlib
import signal
import subprocess
import time

import pipeline


def children_named(name):
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if name in entry.read_bytes().decode(errors="replace").split("\0")[0]:
                found.append(int(entry.parent.name))
        except OSError:
            pass
    return found


def is_rank(process, rank):
    try:
        return f"OMPI_COMM_WORLD_RANK={rank}".encode() in pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def test_killed_rank(models, tmp_path):
    project = pipeline.compile_model(models("mlp"), tmp_path / "project", "--minibatch", 8, "--microbatches", 2, "--stages",
                                     "1-1", workers=2)
    images, labels = pipeline.draw_images(tmp_path, 64, (784,), 10)
    data = ["--data", f"input={images}", "--data", f"labels={labels}"]
    pipeline.run(pipeline.BIN / "pdc-run", project, "--transport", "mpi", *data, "--steps", 1)
    process = subprocess.Popen([pipeline.BIN / "pdc-run", project, "--transport", "mpi", *data, "--steps", "100000000"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.time() + 60
    binary = str(project)
    while time.time() < deadline and not (victims := [p for p in children_named(binary) if is_rank(p, 1)]):
        time.sleep(0.1)
    time.sleep(1)
    os.kill(victims[0], signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1, output[-3000:]
    assert "rank 1" in output, output[-3000:]
    assert not children_named(binary)
