"""What ends a run from outside loses nothing: signals, a second run with the same folder, files that cannot be written."""

import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time

import pytest

import pipeline
from test_going_on import compile_model, draw
from test_refusals import refused

ENDLESS = 10_000_000


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Of two stages, and what it is trained on."""
    folder = tmp_path_factory.mktemp("interrupted")
    data = draw(folder)[3]
    made = compile_model(folder, "project", "--stages", "1-1", workers=2)
    pipeline.run(pipeline.BIN / "pdc-run", made, "--build-only")
    return made, [f"--data={entry}" for entry in data]


def start(project, work, *options, hangup=signal.SIG_DFL):
    """A run that goes on until it is ended; returns behind its first step. `hangup` is what it inherits for SIGHUP."""
    made, data = project
    work.mkdir(exist_ok=True)
    log = work / "log.jsonl"
    run = subprocess.Popen([pipeline.BIN / "pdc-run", made, *data, "--steps", str(ENDLESS), "--save", work / "checkpoints", "--log", log,
                            *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           preexec_fn=lambda: signal.signal(signal.SIGHUP, hangup))
    while run.poll() is None and not (log.exists() and log.stat().st_size):
        time.sleep(0.05)
    return run


@pytest.mark.parametrize("transport", ["local", "mpi"])
@pytest.mark.parametrize("sent,code", [(signal.SIGHUP, 128 + signal.SIGHUP), (signal.SIGUSR2, 128 + signal.SIGTERM)])
def test_signals_save(sent, code, transport, project, tmp_path):
    """A closed terminal; what a batch system warns with."""
    run = start(project, tmp_path, "--transport", transport)
    run.send_signal(sent)
    said = run.communicate(timeout=120)[0]
    assert run.returncode == code, said
    assert "asked to end" in said and f"saved {tmp_path}/checkpoints/step-" in said


def test_nohup_stays(project, tmp_path):
    run = start(project, tmp_path, hangup=signal.SIG_IGN)
    run.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert run.poll() is None
    run.terminate()
    run.communicate(timeout=120)


def test_runs_do_not_share_a_folder(project, tmp_path):
    made, data = project
    run = start(project, tmp_path)
    refused(pipeline.BIN / "pdc-run", made, *data, "--steps", 1, "--save", tmp_path / "checkpoints",
            says=[f"--save {tmp_path}/checkpoints: another run saves there; give another folder, or end that run first"])
    run.terminate()
    assert run.wait(120) == 128 + signal.SIGTERM
    again = pipeline.run(pipeline.BIN / "pdc-run", made, *data, "--steps", 1, "--save", tmp_path / "checkpoints")
    assert "step-000001" in again.stdout
    assert not (tmp_path / "checkpoints/.lock").exists()


def test_a_log_is_kept(project, tmp_path):
    """Where the steps behind a checkpoint cannot be taken out of it."""
    made, data = project
    command = [pipeline.BIN / "pdc-run", made, *data, "--save", tmp_path / "checkpoints", "--log", tmp_path / "log.jsonl"]
    pipeline.run(*command, "--steps", 6, "--save-every", 2)
    before = (tmp_path / "log.jsonl").read_text()
    (tmp_path / "log.jsonl.part" / "in the way").mkdir(parents=True)
    resumed = [*command, "--steps", 6, "--resume", tmp_path / "checkpoints/step-000002"]
    refused(*resumed, says=[f"--log {tmp_path}/log.jsonl: its steps behind 2, which this run tells anew, cannot be taken out"])
    assert (tmp_path / "log.jsonl").read_text() == before

    # A link stays one.
    pipeline.run("rm", "-r", tmp_path / "log.jsonl.part")
    (tmp_path / "log.jsonl").rename(tmp_path / "elsewhere.jsonl")
    (tmp_path / "log.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    pipeline.run(*resumed)
    assert (tmp_path / "log.jsonl").is_symlink()
    steps = [record["step"] for record in pipeline.read_log(tmp_path / "elsewhere.jsonl") if {"loss", "seconds"} <= record.keys()]
    assert steps == [1, 2, 3, 4, 5, 6]


def test_files_are_not_written_over(project, tmp_path):
    made, data = project
    command = [pipeline.BIN / "pdc-run", made, *data, "--steps", 1]
    plan = (made / "plan.json").read_bytes()
    refused(*command, "--trace", made / "plan.json", says=["would be written over", "which is read"])
    refused(*command, "--log", made / "weights.safetensors", says=["would be written over", "which is read"])
    refused(*command, "--log", tmp_path / "one", "--trace", tmp_path / "." / "one", says=["is what --trace writes, too; give each a file of its own"])
    assert (made / "plan.json").read_bytes() == plan


def test_pipes_keep_no_run_waiting(project, tmp_path):
    made, data = project
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [pipeline.BIN / "pdc-run", made, *data, "--steps", 2]
    refused(*command, "--log", pipe, says=[f"--log {pipe}: is a pipe that no program reads; start its reader first, or give a file"])
    refused(*command, "--weights", pipe, says=[f"{pipe}: cannot be read: not a file"])
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        time.sleep(0.5)
        pipeline.run(*command, "--log", pipe)
        said = reader.communicate(timeout=30)[0]
    assert [json.loads(line)["step"] for line in said.splitlines()][:2] == [1, 2]


def test_a_broken_checkpoint_is_named(project, tmp_path):
    """Its weight, and what to do, which is not what a broken model asks for."""
    made, data = project
    command = [pipeline.BIN / "pdc-run", made, *data, "--steps", 2]
    pipeline.run(*command, "--save", tmp_path / "saved")
    part = sorted((tmp_path / "saved/step-000002").glob("model-*"))[0]
    content = bytearray(part.read_bytes())
    begin = 8 + int.from_bytes(content[:8], "little")
    name, tensor = next((name, entry) for name, entry in json.loads(content[8:begin]).items() if name != "__metadata__")
    at = begin + tensor["data_offsets"][0] + 4
    content[at:at + 4] = struct.pack("<f", float("nan"))
    part.write_bytes(content)
    refused(*command, "--resume", tmp_path / "saved",
            says=[f"{part}: tensor '{name}' holds at element 1 nan or infinity", "; resume from another checkpoint of this model"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user of its own, whose processes are counted")
def test_threads_that_cannot_be_had(project):
    made, data = project
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for source in (made / "build" / "all_stages", made / "weights.safetensors", *(entry.split("=")[2] for entry in data)):
            shutil.copy(source, folder)
        local = [f"--data={entry.split('=')[1]}={os.path.basename(entry.split('=')[2])}" for entry in data]
        limited = f"ulimit -u 2; exec ./all_stages {' '.join(local)} --transport local --steps 1"
        result = pipeline.run("setpriv", "--reuid=61234", "--regid=61234", "--clear-groups", "--inh-caps=-all", "bash", "-c", limited,
                              check=False, cwd=folder)
    assert result.returncode == 1, result.stderr
    assert "error: cannot start a thread for rank 1 of 2: " in result.stderr and "terminate called" not in result.stderr


def test_says_what_is_not_installed(project, tmp_path):
    made, data = project
    copy = tmp_path / "copy"
    pipeline.run("cp", "-r", made, copy)
    pipeline.run("rm", "-r", copy / "build")
    command = [pipeline.BIN / "pdc-run", copy, *data, "--steps", 1]
    result = pipeline.run(*command, check=False, env=os.environ | {"PATH": str(tmp_path)})
    assert result.returncode == 1 and "error: cmake is not installed, and the stage sources need it" in result.stderr
