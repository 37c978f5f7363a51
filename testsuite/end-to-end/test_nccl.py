"""NCCL's transport, by processes on an emulation of it (testsuite/cuda/HostNccl.cpp): the bits of the ranks as threads, its calls
proven, and which communicators a plan takes."""

import os
import re
import shutil
import subprocess

import numpy
import pytest

import pipeline
from emulation import build_for_host, emit, on_host


def emit_for_nccl(model, folder, *options, workers, arrangement):
    """A project that pdc-run takes as built; its program runs on the host."""
    project = emit(model, folder, *options, workers=workers)
    arrange(project, arrangement)
    program = build_for_host(project)
    (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(host NONE)\n"
                                            "add_custom_target(all_stages)\n")
    pipeline.run(pipeline.BIN / "pdc-run", project, "--build-only")
    shutil.copy(program, project / "build" / "all_stages")
    return project


def arrange(project, arrangement):
    """The communicators that the planner takes where those of pairs stall."""
    for source in project.glob("stage_*.cpp"):
        name = {"pairs": "cuda::support", "edges": "cuda::supportOfEdges"}[arrangement]
        source.write_text(source.read_text().replace("cuda::support,", f"{name},"))


@on_host
@pytest.mark.parametrize("stages,schedule,arrangement", [("1-1-1", "1f1b", "pairs"), ("2-1", "pipedream", "edges"), ("3-1", "1f1b", "edges"),
                                                         ("1-2-1", "1f1b", "pairs")])
def test_trains_over_nccl(stages, schedule, arrangement, models, tmp_path):
    """The transport itself, on an emulation whose sends end when they are received and whose streams run at drawn times: the
    bits of the ranks as threads. Its calls are recorded and proven."""
    replicas = [int(count) for count in stages.split("-")]
    project = emit_for_nccl(models("mlp", "--hidden", 64, 32, 16), tmp_path / "cuda", "--schedule", schedule, "--stages", stages,
                            "--minibatch", 16 * replicas[0], *([] if schedule == "pipedream" else ["--microbatches", 4]),
                            workers=sum(replicas), arrangement=arrangement)
    images, labels = pipeline.draw_images(tmp_path, 64 * replicas[0], (784,), 10)
    data = [f"input={images}", f"labels={labels}"]
    record = tmp_path / "record.txt"
    threads = pipeline.train(project, tmp_path / "threads", data=data, steps=4)
    processes = pipeline.train(project, tmp_path / "processes", "--record", record, data=data, steps=4, transport="nccl")
    assert processes.losses == threads.losses
    expected = threads.weights()
    for name, value in processes.weights().items():
        assert numpy.array_equal(value, expected[name]), name
    expect_calls_proven(project, record.read_text(), tmp_path)
    if schedule == "pipedream":
        expect_report_of_lost_messages(project, data, workers=3)
        expect_refusal_of_old_drivers(project, data)


@on_host
def test_sums_hold_up_no_message(models, tmp_path):
    """Where sums of replicas began within the backward pass, the library's order of the calls had its gradient wait for them, and
    them for a replica that waited for that gradient."""
    project = emit_for_nccl(models("mlp", "--hidden", 64, 32, 16, 8), tmp_path / "cuda", "--schedule", "interleaved", "--stages", "1-2",
                            "--minibatch", 48, "--microbatches", 3, workers=3, arrangement="edges")
    images, labels = pipeline.draw_images(tmp_path, 192, (784,), 10)
    data = [f"input={images}", f"labels={labels}"]
    threads = pipeline.train(project, tmp_path / "threads", data=data, steps=4)
    processes = pipeline.train(project, tmp_path / "processes", "--timeout", 60, data=data, steps=4, transport="nccl")
    assert processes.losses == threads.losses


def expect_calls_proven(project, record, folder):
    """As they were recorded; not with a call less, two calls swapped or one by another communicator."""
    def prove(text):
        (folder / "calls.txt").write_text(text)
        return pipeline.run(pipeline.BIN / "pdc-prove", project / "plan.json", folder / "calls.txt", check=False)

    proven = prove(record)
    assert proven.returncode == 0 and "calls of " in proven.stdout, proven.stderr
    lines = record.splitlines(keepends=True)
    last = max(int(line.split()[1]) for line in lines)
    calls = [i for i, line in enumerate(lines) if line.startswith(f"rank {last} step") and " call " in line and "'" in line]
    sends, receives = ([i for i in calls if f" {kind} 1" in lines[i] or f" {kind} 2" in lines[i]] for kind in ("send", "receive"))
    def communicator_of(line):
        return line.split(" on ")[1].split()[0]

    communicator, first = communicator_of(lines[sends[1]]), receives[0]
    second = next(i for i in receives[1:] if communicator_of(lines[i]) == communicator_of(lines[first]))
    swapped = lines.copy()
    swapped[first], swapped[second] = lines[second], lines[first]
    broken = {"less": lines[:sends[1]] + lines[sends[1] + 1:], "swapped": swapped,
              "communicator": [line.replace(f"on {communicator}", "on 0-9") if i == sends[1] else line
                               for i, line in enumerate(lines)]}
    # A send before what it sends is computed.
    early = lines[:sends[0]] + lines[sends[0] + 1:]
    broken["early"] = early[:receives[0]] + [lines[sends[0]]] + early[receives[0]:]
    for name, text in broken.items():
        refused = prove("".join(text))
        assert refused.returncode == 1 and refused.stderr.startswith("error: "), name


def expect_refusal_of_old_drivers(project, data):
    """Before CUDA 12.3 NCCL runs the messages of several communicators one after the other, which nobody has proven. What CUDA's
    environment must not be is told once."""
    refused = pipeline.run(pipeline.BIN / "pdc-run", project, "--transport", "nccl", "--steps", 1,
                           *[word for entry in data for word in ("--data", entry)], check=False,
                           env=os.environ | {"HOST_CUDA_VERSION": "12020", "CUDA_MODULE_LOADING": "LAZY"})
    assert refused.returncode == 1
    assert refused.stderr.count("warning: CUDA_MODULE_LOADING is LAZY, ") == 1, refused.stderr
    assert "CUDA 12.2 of the driver runs the messages of several communicators one after the other" in refused.stderr


def expect_report_of_lost_messages(project, data, workers):
    """Messages that NCCL never ends are reported as on the CPU. Here a launcher of one's own has started the ranks."""
    command = [pipeline.BIN / "pdc-run", project, "--transport", "nccl", "--timeout", "2", "--steps", "1000"]
    command += [word for entry in data for word in ("--data", entry)]
    place = {"WORLD_SIZE": str(workers), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(pipeline.free_port())}
    ranks = [subprocess.Popen(command, env=os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(workers - 1)]
    lossy = os.environ | place | {"RANK": str(workers - 1), "LOCAL_RANK": str(workers - 1), "HOST_NCCL_LOSES": "20"}
    ranks.append(subprocess.Popen(command, env=lossy, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    errors = [rank.communicate(timeout=60)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [1] * workers
    assert "error: nothing moves: rank" in errors[0] and "2 s (--timeout)" in errors[0], errors
    assert all(f"\n  rank {rank} " in errors[0] for rank in range(workers)), errors


@pytest.mark.parametrize("schedule,workers,support,text", [
    ("1f1b", 3, "cuda::support,", r"communicators +2  one per pair of ranks.*about 80 MiB"),
    ("interleaved", 4, "cuda::supportOfEdges,", r"communicators +8  one per directed edge.*one per pair: without proof")],
    ids=["pairs", "edges"])
def test_arranges_communicators(schedule, workers, support, text, models, tmp_path):
    """A chain is proven with a communicator per pair of ranks; a ring of ranks with several stages is not."""
    project = emit(models("mlp", "--hidden", *[16] * 8), tmp_path, "--schedule", schedule, "--stages",
                   "-".join(["1"] * workers), "--minibatch", 8, "--microbatches", 8, workers=workers)
    assert re.search(text, (project / "plan.txt").read_text()), (project / "plan.txt").read_text()
    assert f".device = &{support}" in (project / "stage_0.cpp").read_text()
