"""tools/gpu-check without a GPU: what it prepares trains on the emulation as it does on the processor, and what it leaves however
it ends."""

import json
import math
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys

import pytest

import emulation
import pipeline
from pipeline import await_true, load

TOOLS = pipeline.SOURCE / "tools" / "bench"


def test_shows_the_first_errors_of_a_build(tmp_path):
    tools = load(TOOLS / "gpu_programs.py")
    tools.logs = tmp_path / "logs"
    noise = "yes 'warning: nothing' | head -n 500"
    with pytest.raises(RuntimeError, match="Attention.cu:7: error: no such thing") as raised:
        tools.run(["sh", "-c", f"echo 'FAILED: Attention.o'; echo 'Attention.cu:7: error: no such thing'; {noise}; exit 1"])
    assert len(str(raised.value)) < 20000
    assert (tools.logs / "sh.log").read_text().count("\nwarning: nothing") == 500 and tools.warned() == {"sh": ["warning: nothing"]}


def test_graphs_that_are_refused_fail(tmp_path, monkeypatch):
    """And the warning stands in the results, whatever it came from."""
    tools = load(pipeline.SOURCE / "tools" / "gpu-check")
    monkeypatch.setattr(tools, "HERE", tmp_path)
    monkeypatch.setattr(tools.PROGRAMS, "warnings", {})
    checks = tools.CHECKS
    warning = "warning: tasks run kernel by kernel, which is slower: aCall: not permitted"

    def train(case, *options, **_):
        (log := tmp_path / "log").write_text('{"loss": 0.5, "seconds": 1}\n' * 2)
        tools.run(["sh", "-c", "true" if options else f"echo '{warning}' >&2"])
        return log

    monkeypatch.setattr(checks, "train", train)
    with pytest.raises(RuntimeError, match="aCall: not permitted"):
        checks.check_graphs({"project": "sh", "steps": 2}, 60)
    results = tools.Results(1)
    results.end()
    assert results_of(tmp_path)["warnings"] == {"sh": [warning]}
    assert checks.check_graphs({"project": "another", "steps": 2}, 60) == "2 equal losses"
    with pytest.raises(RuntimeError, match="2 losses, expected 3"):
        checks.check_graphs({"project": "another", "steps": 3}, 60)


@pytest.mark.parametrize("options,is_ninja", [([], True), (["-G", "Unix Makefiles"], False), (["-GUnix Makefiles"], False)])
def test_builds_by_ninja_where_nothing_else_is_told(tmp_path, monkeypatch, options, is_ninja):
    tools, commands = load(pipeline.SOURCE / "tools" / "gpu-check"), []
    monkeypatch.setattr(tools, "HERE", tmp_path)
    monkeypatch.setattr(tools, "ask_driver", lambda _: ["9.0"])
    monkeypatch.setattr(tools, "run", lambda command, limit: commands.append(command))
    monkeypatch.setattr(tools.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.delenv("CMAKE_GENERATOR", raising=False)
    tools.configure(options, 60)
    assert (commands[-1][-2:] == ["-G", "Ninja"]) == is_ninja and "-DCMAKE_CUDA_ARCHITECTURES=90-real" in commands[-1]
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "CMakeCache.txt").write_text("")
    tools.configure(options, 60)
    assert "Ninja" not in commands[-1]


def test_says_once_what_cmake_says_of_each_program():
    text = "CMake Error in CMakeLists.txt:\n  no GPU was detected.\n\n\n\n\n\n\n" * 50 + "CMake Error at a.cmake:3:\n  no library\n"
    found = load(TOOLS / "gpu_programs.py").causes(text)
    assert found.count("no GPU was detected") == 1 and "a.cmake:3" in found, found


def test_tells_rows_of_this_run_alone(tmp_path, monkeypatch, capsys):
    """With their own date, device and sources; what an earlier run failed at is no failure of this one."""
    tools = load(pipeline.SOURCE / "tools" / "gpu-check")
    monkeypatch.setattr(tools, "HERE", tmp_path)
    earlier = {"error": "an old error", "date": "2000-01-01", "device": "an old card", "driver": "1", "source": "old"}
    (tmp_path / "results.json").write_text(json.dumps({"benchmark": {"vgg16-fp16": {"pdc": earlier}}}))
    (tmp_path / "source").write_text("0123")
    done = {"seconds": 0.5, "rate": 2, "unit": "images/s", "memory_mb": None, "share_of_peak": None}

    def exit_code(*reports):
        monkeypatch.setattr(tools.BENCH, "measure", lambda *words, **_: [words[3](*report) for report in reports])
        results = tools.Results(1)
        tools.benchmark(results)
        return results.exit_code()

    assert exit_code(("gpt2-bf16", "pdc", done), ("gpt2-bf16", "PyTorch eager", {"missing": "No module"})) == 0
    printed = capsys.readouterr().out
    assert "vgg16" not in printed and "gpt2-bf16" in printed
    found = results_of(tmp_path)["benchmark"]
    assert found["vgg16-fp16"]["pdc"] == earlier
    assert found["gpt2-bf16"]["pdc"]["source"] == "0123" and found["gpt2-bf16"]["pdc"]["date"] > "2025"
    assert exit_code(("gpt2-bf16", "pdc", done), ("vgg16-fp16", "pdc", None)) == 3
    assert exit_code(("gpt2-bf16", "pdc", {"error": "exited with 1"}), ("vgg16-fp16", "pdc", None)) == 1
    found = results_of(tmp_path)["benchmark"]
    tools.stopped.set()  # what ends now has not failed
    assert exit_code(("gpt2-bf16", "pdc", {"error": "exited with -9"})) == 0 and results_of(tmp_path)["benchmark"] == found


def test_tells_the_causes_of_both_ranks(tmp_path, monkeypatch):
    tools = load(TOOLS / "gpu_checks.py")
    monkeypatch.setattr(tools, "FOLDER", tmp_path)
    (tmp_path / "build").mkdir()
    monkeypatch.setattr(tools, "command_of", lambda *_: ["sh", "-c", "echo the cause of $RANK; exit 1"])
    with pytest.raises(RuntimeError) as raised:
        tools.check_nccl({"project": "none", "reference": "none", "steps": 6, "ranks": 2}, 60)
    assert "the cause of 0" in str(raised.value) and "the cause of 1" in str(raised.value)


def reading(place):
    return json.loads(place.read_text())


@emulation.on_host
@pytest.mark.parametrize("network,precision", [("lenet5", "fp32"), ("gpt2", "fp32"), ("bert", "bf16"), ("gru", "fp32"), ("unet", "fp16")])
def test_checks_with_the_updates_of_the_processor(network, precision, tmp_path, monkeypatch):
    """The losses and updates of the CPU, whose weights were drawn on another machine; a weight that is not trained is told."""
    tools, folder, chosen = load(TOOLS / "gpu_cases.py"), tmp_path / "prepared", network
    monkeypatch.setattr(tools, "NETWORKS", [network for network in tools.NETWORKS if network[0] == chosen])
    monkeypatch.setattr(tools, "SPLITS", dict.fromkeys(tools.SPLITS, [(1, "1f1b", precision)]))
    monkeypatch.setattr(tools, "REPLICAS", [])
    tools.prepare(folder, ["none of the rows"])
    assert (folder / "CMakeLists.txt").read_text().count("add_executable") == 3
    assert (folder / "testsuite" / "cuda" / "AttentionCheckMain.cpp").exists()
    (folder / "build").mkdir()
    project = f"{network}-1-1f1b" + ("" if precision == "fp32" else f"-{precision}")
    emulation.build_for_host(folder / project).rename(folder / "build" / project)
    there = load(folder / "bench" / "gpu_checks.py")
    case, = reading(folder / "cases.json")
    assert there.check(case, 1200).startswith("losses are ")
    if network == "lenet5":
        assert there.check_tuning(case, 200) < 1e-4 and (folder / "build" / "kernels" / "rank-0.json").exists()
    losses = there.losses(folder / case["reference"])
    assert len(losses) == 6 and losses[-1] < losses[0] < 7
    expected = (folder / case["reference"]).with_suffix(".weights")
    whole = reading(expected)
    assert whole.keys() == {name for name, shape in reading(folder / network / "weights.json").items() if shape}  # constants have none
    begun = there.gpu_rows.some_of(there.weights_of(network), whole)
    moved = {name: math.dist(whole[name], begun[name]) / math.sqrt(len(whole[name])) for name in whole}
    # Others have gradients that vanish, as that of a bias before a normalisation.
    trained = [name for name in whole if moved[name] > 0.1 * statistics.median(moved.values()) and
               math.dist(whole[name], begun[name]) > 3e-6 * math.hypot(*begun[name])]
    assert len(trained) > 0.8 * len(whole)
    there.train(case, "--save", there.FOLDER / "build" / "saved")
    saved = max((there.FOLDER / "build" / "saved").glob("step-*"))
    for name in trained:
        expected.write_text(json.dumps({**whole, name: begun[name]}))
        with pytest.raises(RuntimeError, match=f"weight {re.escape(name)}, changed by 0"):
            there.expect_updates(case, saved)


CMAKE = """#!/bin/sh
if [ "$1" = -S ]; then
  mkdir -p "$4" && echo CMAKE_GENERATOR:INTERNAL=Ninja > "$4/CMakeCache.txt" && echo "$@" > "$4/configured"
else
  for name in lenet5-1-1f1b lenet5-2-1f1b attention_check product_check; do
    printf '#!/bin/sh\\ncd %s\\nsleep 1000 & echo $$ $! > new.$$ && mv new.$$ started.$$\\nwait\\n' "$2" > "$2/$name" && chmod +x "$2/$name"
  done
  echo "$@" > "$2/built"
fi
"""


@pytest.fixture
def waiting(tmp_path):
    """A prepared folder whose programs never end, and the environment of a machine that has neither a GPU nor CMake."""
    folder, path = tmp_path / "prepared", tmp_path / "path"
    projects = ["lenet5-1-1f1b", "lenet5-2-1f1b"]
    for place in (folder / "bench", folder / "lenet5", path, *(folder / project for project in projects)):
        place.mkdir(parents=True)
    shutil.copy(pipeline.SOURCE / "tools" / "gpu-check", folder)
    for module in ("gpu_checks.py", "gpu_programs.py", "gpu_rows.py"):
        shutil.copy(TOOLS / module, folder / "bench")
    (folder / "bench" / "spec.json").write_text("{}")
    (folder / "lenet5" / "weights.json").write_text(json.dumps({"w": [2]}))
    (folder / "cases.json").write_text(json.dumps([{"project": project, "network": "lenet5", "inputs": [], "precision": "fp32",
                                                    "steps": 6, "ranks": int(project[7]), "replicated": False, "reference": "lenet5/none.jsonl",
                                                    "samples": 1} for project in projects]))
    (path / "cmake").write_text(CMAKE)
    (path / "cmake").chmod(0o755)
    (tmp_path / "wheels" / "nvidia" / "cudnn" / "include").mkdir(parents=True)
    return folder, os.environ | {"PATH": f"{path}:/usr/bin:/bin", "PYTHONPATH": str(tmp_path / "wheels")}


def has_ended(process):
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def started(folder):
    """By each program, itself and what it has started in turn."""
    return [[int(process) for process in file.read_text().split()] for file in (folder / "build").glob("started.*")]


def all_have_ended(folder):
    return all(has_ended(process) for processes in started(folder) for process in processes)


def results_of(folder):
    return json.loads((folder / "results.json").read_text())


def test_killed_it_leaves_what_it_has_found(waiting):
    """And nothing that it has started, which knows nothing of a launcher's process around it; the wheels of its Python are told to
    CMake, which goes on where a program fails."""
    folder, environment = waiting
    environment |= {"PMIX_RANK": "0", "SLURM_NTASKS": "1", "OTHERS": "kept"}
    check = subprocess.Popen([sys.executable, folder / "gpu-check", "-DMORE=1"], env=environment, stdout=subprocess.DEVNULL)
    try:
        await_true(lambda: len(started(folder)) >= 3)
        for program, _ in started(folder):
            with open(f"/proc/{program}/environ", encoding="utf-8") as told:
                names = {variable.split("=", 1)[0] for variable in told.read().split("\0")}
            assert "OTHERS" in names and not names & {"PMIX_RANK", "SLURM_NTASKS"}
        await_true(lambda: "lenet5-1-1f1b" in results_of(folder)["running"])
    finally:
        check.terminate()
    assert check.wait(timeout=60) == 128 + 15
    found = results_of(folder)
    assert [(result["name"], result["outcome"]) for result in found["results"]][:2] == [("configure", "passed"), ("build", "passed")]
    assert "lenet5-1-1f1b" in found["running"] and found["results"][0]["device"].startswith("unknown")
    assert "lenet5-1-1f1b" not in {result["name"] for result in found["results"]}
    await_true(lambda: all_have_ended(folder))
    configured = (folder / "build" / "configured").read_text()
    assert "-DMORE=1" in configured and "wheels/nvidia/cudnn" in configured
    assert (folder / "build" / "built").read_text().endswith("-- -k 0\n")


WAITS = """
import ctypes, pipeline
pipeline.load(pipeline.SOURCE / "tools" / "gpu-check").hear_signals()
print("hears", flush=True)
library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
for _ in range(2):
    library.pthread_mutex_lock(mutex)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_hears_signals_while_it_waits(number):
    """Though no step of the main thread ends, as that waits for a lock that it holds, which no signal interrupts."""
    here = pathlib.Path(__file__).parent
    with subprocess.Popen([sys.executable, "-c", WAITS], cwd=here, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "hears\n"
            process.send_signal(number)
            assert process.wait(timeout=60) == 128 + number
        finally:
            process.kill()


def test_ends_with_its_minutes(waiting):
    """What is left is left out, and what runs then is ended."""
    folder, environment = waiting
    done = subprocess.run([sys.executable, folder / "gpu-check", "--minutes", "0.1"], env=environment, capture_output=True, text=True,
                          check=False, timeout=300)
    found = results_of(folder)
    outcomes = {result["name"]: result["outcome"] for result in found["results"]}
    assert outcomes.pop("configure") == "passed", done.stdout + done.stderr
    assert outcomes.pop("build") == "passed"
    assert outcomes.pop("weights of lenet5") == "passed"
    for name in ("memcheck", "racecheck"):  # where there is none, that is soon said
        assert outcomes.pop(f"{name}, lenet5-1-1f1b") in ("skipped", "left out")
    assert set(outcomes.values()) == {"left out"} and {"lenet5-1-1f1b", "graphs", "attention in bf16, even ones", "measured kernels"} <= set(outcomes), outcomes
    assert found["running"] == [] and done.returncode == 3
    assert len(started(folder)) >= 3
    await_true(lambda: all_have_ended(folder))


@pytest.mark.parametrize("option", [[], ["--bench"]])
def test_ends_where_nothing_can_be_built(waiting, option):
    folder, environment = waiting
    (folder.parent / "path" / "cmake").write_text("#!/bin/sh\necho 'CMake Error: no GPU was detected' >&2\nexit 1\n")
    done = subprocess.run([sys.executable, folder / "gpu-check", *option], env=environment, capture_output=True, text=True, check=False,
                          timeout=60)
    assert done.returncode == 1 and "no GPU was detected" in done.stdout and "error: nothing was built" in done.stderr, done.stderr
    assert [(result["name"], result["outcome"]) for result in results_of(folder)["results"]] == [("configure", "failed")]


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "soon"])
def test_refuses_no_minutes(waiting, minutes):
    folder, environment = waiting
    done = subprocess.run([sys.executable, folder / "gpu-check", "--minutes", minutes], env=environment, capture_output=True,
                          text=True, check=False, timeout=60)
    assert done.returncode == 2 and "argument --minutes: " in done.stderr and minutes in done.stderr, done.stderr
    assert not (folder / "results.json").exists()


@pytest.mark.parametrize("option", [[], ["--minutes", "1"]])
def test_refuses_rows_that_are_not_there(waiting, option):
    folder, environment = waiting
    (folder / "bench" / "spec.json").write_text(json.dumps({"gpt2-bf16": {"network": "gpt2"}}))
    done = subprocess.run([sys.executable, folder / "gpu-check", *option, "--bench", "gpt3"], env=environment, capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 2 and "argument --bench: no row gpt3, expected gpt2, gpt2-bf16" in done.stderr, done.stderr
    assert not (folder / "results.json").exists()


def test_keeps_what_was_found_before(tmp_path, monkeypatch):
    """By another run; what is found again takes its place. What cannot be done here is skipped, not passed."""
    tools = load(pipeline.SOURCE / "tools" / "gpu-check")
    monkeypatch.setattr(tools, "HERE", tmp_path)

    def skip(_):
        raise tools.PROGRAMS.Skipped("no such tool")

    first = tools.Results(1)
    first.attempt("a", lambda limit: limit, 7)
    first.attempt("b", skip)
    second = tools.Results(1)
    second.attempt("a", lambda limit: 1 / 0)
    found = {result["name"]: (result["outcome"], result["value"]) for result in results_of(tmp_path)["results"]}
    assert found == {"a": ("failed", "ZeroDivisionError: division by zero"), "b": ("skipped", "no such tool")}
    assert first.results[0]["value"] == 7 and first.exit_code() == 0 and second.exit_code() == 1


def test_ends_what_a_program_has_put_into_groups_of_their_own(tmp_path):
    """As builders do with each of their jobs."""
    tools = load(TOOLS / "gpu_programs.py")
    with pytest.raises(tools.OutOfTime):
        tools.run(["bash", "-c", f"set -m; sleep 1000 & echo $! > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/job; wait"], 2)
    await_true(lambda: has_ended(int((tmp_path / "job").read_text())))


def test_says_why_a_checker_takes_no_device(tmp_path, monkeypatch):
    """Whatever the program says behind it."""
    tools = load(TOOLS / "gpu_checks.py")
    monkeypatch.setattr(tools, "FOLDER", tmp_path)
    monkeypatch.setattr(tools, "command_of", lambda *_: [])
    checker = tmp_path / "compute-sanitizer"
    checker.write_text("#!/bin/sh\necho '========= Error: Device not supported.'\necho 'error: cudaMalloc failed' >&2\nexit 1\n")
    checker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "none").mkdir()
    with pytest.raises(tools.Skipped, match="does not support this device"):
        tools.sanitize("memcheck", {"project": "none"}, 60)
    checker.write_text("#!/bin/sh\necho '========= Invalid __global__ read'\nexit 3\n")
    with pytest.raises(RuntimeError, match="Invalid __global__ read"):
        tools.sanitize("memcheck", {"project": "none"}, 60)
