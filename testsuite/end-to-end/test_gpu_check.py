"""tools/gpu-check on the emulation of a GPU: what is prepared holds no weights, and trains with those that are drawn there."""

import importlib.machinery
import importlib.util
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

import numpy
import pytest

import emulation
import pipeline
import safetensors

TOOLS = pipeline.SOURCE / "tools" / "bench"


def load(folder, name="gpu_rows.py"):
    loader = importlib.machinery.SourceFileLoader("loaded", str(folder / name))
    spec = importlib.util.spec_from_loader("loaded", loader)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@emulation.on_host
def test_rows_train_with_what_is_drawn(tmp_path):
    """An untrained model of V words guesses each with 1 / V: the first loss is log V, but for its small weights."""
    folder, work, binaries = tmp_path / "bench", tmp_path / "work", tmp_path / "build"
    tools = load(TOOLS)
    words = {"input": ([32], tools.tokens(512)), "labels": ([32], tools.tokens(512))}
    tiny = {"gpt2": (["gpt2"], words, tools.transformer(3, 64, 512, 32), ("tokens", 32), 4, tools.ADAM)}
    assert tools.prepare(folder, pipeline.SOURCE, pipeline.BIN, [("gpt2", "bf16")], tiny) == ["gpt2-bf16"]
    assert not list(folder.rglob("weights.safetensors")) and not list(folder.glob("*.onnx"))
    # A weight of one repeated number would be filled by the program, whatever is drawn.
    weights = json.loads((folder / "spec.json").read_text())["gpt2-bf16"]["weights"]
    assert weights["tokens.weight"] == [512, 64] and weights["layers.2.attention.inputs.weight"] == [192, 64], weights
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 1e6
    binaries.mkdir()
    emulation.build_for_host(folder / "gpt2-bf16").rename(binaries / "gpt2-bf16")
    found = {}
    bench = load(folder)
    bench.torch_lacks = lambda script, **_: {"missing": "No module named 'torch'"}
    bench.measure(binaries, work, "NVIDIA H200", lambda *report: found.setdefault(report[0], {}).update({report[1]: report[2]}),
                  steps=2)
    result = found["gpt2-bf16"]["pdc"]
    assert isinstance(result, dict), result
    assert math.isclose(result["rate"], 4 * 32 / result["seconds"]) and result["unit"] == "tokens/s"
    kept = work / "gpt2-bf16.tuning" / "rank-0.json"
    assert found["gpt2-bf16"]["pdc tuned"].keys() == result.keys() and "attention" in kept.read_text()
    # Six floating-point operations for each multiply-add of a forward pass: of its three matrix products in each direction.
    multiplications = 4 * 32 * (3 * (12 * 64 * 64 + 2 * 64 * 32) + 64 * 512)
    assert math.isclose(result["share_of_peak"], 6 * multiplications / result["seconds"] / 989e12)
    losses = [json.loads(line)["loss"] for line in (work / "gpt2-bf16.jsonl").read_text().splitlines() if '"loss"' in line]
    assert math.isclose(losses[0], math.log(512), rel_tol=0.02)
    assert not list(work.glob("*.safetensors")) and not list(work.glob("*.npy"))
    row = bench.table(found, "2000-01-01", "NVIDIA H200")
    assert row.startswith("| 2000-01-01 | NVIDIA H200 | gpt2-bf16 | ") and row.count("not measured") == 2, row


def test_draws_what_numpy_reads(tmp_path):
    tools = load(TOOLS)
    tools.draw_data(tmp_path / "images.npy", [3, 5, 70, 70], {"kind": "normal"})
    images = numpy.load(tmp_path / "images.npy")
    assert images.shape == (3, 5, 70, 70) and images.dtype == numpy.float32
    assert abs(images.mean()) < 0.02 and abs(images.std() - 1) < 0.02
    tools.draw_data(tmp_path / "labels.npy", [100], {"kind": "integers", "below": 7})
    labels = numpy.load(tmp_path / "labels.npy")
    assert labels.shape == (100,) and set(labels) == set(range(7))
    tools.draw_data(tmp_path / "input.npy", [100], {"kind": "integers", "below": 7})
    assert (numpy.load(tmp_path / "input.npy") != labels).any()
    shapes = {"matrix": [300, 400], "scale": [64], "bias": [64], "window": [32, 50, 3, 3]}
    tools.draw_weights(tmp_path / "weights.safetensors", shapes)
    assert tools.shapes_of(tmp_path / "weights.safetensors") == shapes
    tensors = safetensors.load(tmp_path / "weights.safetensors")
    matrix, scale, bias, window = (tensors[name] for name in shapes)
    assert not numpy.allclose(bias, scale - 1)
    assert matrix.shape == (300, 400) and abs(matrix.std() - 0.02) < 1e-3
    assert abs(scale.mean() - 1) < 0.02 and abs(bias.mean()) < 0.02
    assert abs(window.std() - (2 / 450) ** 0.5) < 2e-3


def without_onnx(folder):
    """The environment of a machine where PyTorch is, and onnx is not."""
    (folder / "blocked").mkdir()
    (folder / "blocked" / "onnx.py").write_text("raise ModuleNotFoundError(\"No module named 'onnx'\")\n")
    return os.environ | {"PYTHONPATH": str(folder / "blocked")}


def test_pytorch_trains_a_row_without_onnx(tmp_path):
    """Its first loss is log V, as that of every network which knows nothing yet."""
    folder, tools = tmp_path / "bench", load(TOOLS)
    words = {name: ([6], tools.tokens(128)) for name in ("input", "labels")}
    tiny = {"lstm": (["lstm", "--layers", "1", "--width", "16", "--vocabulary", "128", "--sequence", "6"], words, 1, ("tokens", 6), 4,
                     tools.ADAM)}
    tools.prepare(folder, pipeline.SOURCE, pipeline.BIN, [("lstm", "tf32")], tiny)
    done = subprocess.run(["/usr/bin/python3", folder / "gpu_torch.py", "lstm-tf32", "eager", "--steps", "3", "--device", "cpu"],
                          env=without_onnx(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert tools.seconds_of(done.stdout, 3) > 0
    losses = [json.loads(line)["loss"] for line in done.stdout.splitlines()]
    assert math.isclose(losses[0], math.log(128), rel_tol=0.05) and losses[2] < losses[0]


def test_says_why_pytorch_cannot_train(tmp_path, monkeypatch):
    """A module that is not there is no failure; a PyTorch that cannot use the device is one."""
    tools = load(TOOLS)
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert tools.torch_lacks("gpt2", "cpu") == {}
    assert "nowhere" in tools.torch_lacks("gpt2", "nowhere")["error"]
    (tmp_path / "torchvision.py").write_text("import missing_of_tests\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert tools.torch_lacks("vision", "cpu") == {"missing": "ModuleNotFoundError: No module named 'missing_of_tests'"}
    assert tools.torch_lacks("gpt2", "cpu") == {}


def test_shows_the_first_errors_of_a_build(tmp_path):
    tools = load(TOOLS, "gpu_programs.py")
    tools.logs = tmp_path / "logs"
    noise = "yes 'warning: nothing' | head -n 500"
    with pytest.raises(RuntimeError, match="Attention.cu:7: error: no such thing") as raised:
        tools.run(["sh", "-c", f"echo 'FAILED: Attention.o'; echo 'Attention.cu:7: error: no such thing'; {noise}; exit 1"])
    assert len(str(raised.value)) < 20000
    assert (tools.logs / "sh.log").read_text().count("\nwarning: nothing") == 500 and tools.warned() == {"sh": ["warning: nothing"]}


def test_graphs_that_are_refused_fail(tmp_path, monkeypatch):
    """And the warning stands in the results, whatever it came from."""
    tools = load(pipeline.SOURCE / "tools", "gpu-check")
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
    tools, commands = load(pipeline.SOURCE / "tools", "gpu-check"), []
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
    found = load(TOOLS, "gpu_programs.py").causes(text)
    assert found.count("no GPU was detected") == 1 and "a.cmake:3" in found, found


def test_reads_memory_with_one_process(tmp_path, monkeypatch):
    """The most beyond what was used before, and the clock in the middle; unknown where nothing can be read."""
    tools, reader = load(TOOLS, "gpu_programs.py"), tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for script, most, clock in (("echo 100, 345; echo 350, 1980; echo 200, 1755; touch told; sleep 1000", 250, 1755),
                                ("echo '[N/A], [N/A]'; touch told", None, None)):
        reader.write_text(f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
        reader.chmod(0o755)
        (tmp_path / "told").unlink(missing_ok=True)
        with tools.Readings() as readings:
            await_true((tmp_path / "told").exists)
            await_true(lambda readings=readings, clock=clock: readings.clock == clock)
        assert readings.memory == most and not tools.running
    reader.unlink()
    with tools.Readings() as readings:
        pass
    assert readings.memory is None and readings.clock is None


def test_tells_rows_of_this_run_alone(tmp_path, monkeypatch, capsys):
    """With their own date, device and sources; what an earlier run failed at is no failure of this one."""
    tools = load(pipeline.SOURCE / "tools", "gpu-check")
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
    tools = load(TOOLS, "gpu_checks.py")
    monkeypatch.setattr(tools, "FOLDER", tmp_path)
    (tmp_path / "build").mkdir()
    monkeypatch.setattr(tools, "command_of", lambda *_: ["sh", "-c", "echo the cause of $RANK; exit 1"])
    with pytest.raises(RuntimeError) as raised:
        tools.check_nccl({"project": "none", "reference": "none", "steps": 6, "ranks": 2}, 60)
    assert "the cause of 0" in str(raised.value) and "the cause of 1" in str(raised.value)


def test_says_what_failed_and_what_there_was_no_time_for(tmp_path):
    tools = load(TOOLS)
    assert tools.cell({"error": "exited with 1"}) == "failed" and tools.cell(None) == "not measured"
    assert tools.cell({"missing": "No module"}) == "not measured (No module)"
    done = {"seconds": 0.5, "rate": 3079.4, "unit": "images/s", "memory_mb": 70123, "share_of_peak": 0.0766}
    assert tools.cell(done) == "3,079 images/s, 7.7 %, 70,123 MB"
    assert tools.cell({**done, "memory_mb": None}) == "3,079 images/s, 7.7 %, memory unknown"
    assert tools.peak_of("NVIDIA H200", "tf32") == 495 and tools.peak_of("NVIDIA H200", "fp32") is None and tools.peak_of("a card of tomorrow", "bf16") is None
    (tmp_path / "gpu_rows.py").write_text((TOOLS / "gpu_rows.py").read_text())
    (tmp_path / "spec.json").write_text(json.dumps({"gpt2-bf16": {"network": "gpt2", "script": ["gpt2"], "precision": "bf16"}}))
    reports = []
    load(tmp_path).measure(tmp_path, tmp_path, "NVIDIA H200", lambda *report: reports.append(report), ends=0)
    assert reports[0] == ("gpt2-bf16", "pdc", None)


def reading(place):
    return json.loads(place.read_text())


@emulation.on_host
@pytest.mark.parametrize("network,precision", [("lenet5", "fp32"), ("gpt2", "fp32"), ("bert", "bf16"), ("gru", "fp32"), ("unet", "fp16")])
def test_checks_with_the_updates_of_the_processor(network, precision, tmp_path, monkeypatch):
    """The losses and updates of the CPU, whose weights were drawn on another machine; a weight that is not trained is told."""
    tools, folder, chosen = load(TOOLS, "gpu_cases.py"), tmp_path / "prepared", network
    monkeypatch.setattr(tools, "NETWORKS", [network for network in tools.NETWORKS if network[0] == chosen])
    monkeypatch.setattr(tools, "SPLITS", dict.fromkeys(tools.SPLITS, [(1, "1f1b", precision)]))
    monkeypatch.setattr(tools, "REPLICAS", [])
    tools.prepare(folder, ["none of the rows"])
    assert (folder / "CMakeLists.txt").read_text().count("add_executable") == 3
    assert (folder / "testsuite" / "cuda" / "AttentionCheckMain.cpp").exists()
    (folder / "build").mkdir()
    project = f"{network}-1-1f1b" + ("" if precision == "fp32" else f"-{precision}")
    emulation.build_for_host(folder / project).rename(folder / "build" / project)
    there = load(folder / "bench", "gpu_checks.py")
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


def await_true(condition):
    ends = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


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
