"""The benchmark of tools/gpu-check on the emulation of a GPU: what is prepared holds no weights, and trains with those that are drawn
there; what is read of the device and told of a row."""

import json
import math
import os
import subprocess
import sys

import numpy

import emulation
import pipeline
import safetensors
from pipeline import await_true, load

TOOLS = pipeline.SOURCE / "tools" / "bench"


@emulation.on_host
def test_rows_train_with_what_is_drawn(tmp_path):
    """An untrained model of V words guesses each with 1 / V: the first loss is log V, but for its small weights."""
    folder, work, binaries = tmp_path / "bench", tmp_path / "work", tmp_path / "build"
    tools = load(TOOLS / "gpu_rows.py")
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
    bench = load(folder / "gpu_rows.py")
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
    tools = load(TOOLS / "gpu_rows.py")
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
    folder, tools = tmp_path / "bench", load(TOOLS / "gpu_rows.py")
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
    tools = load(TOOLS / "gpu_rows.py")
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert tools.torch_lacks("gpt2", "cpu") == {}
    assert "nowhere" in tools.torch_lacks("gpt2", "nowhere")["error"]
    (tmp_path / "torchvision.py").write_text("import missing_of_tests\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert tools.torch_lacks("vision", "cpu") == {"missing": "ModuleNotFoundError: No module named 'missing_of_tests'"}
    assert tools.torch_lacks("gpt2", "cpu") == {}


def test_reads_memory_with_one_process(tmp_path, monkeypatch):
    """The most beyond what was used before, and the clock in the middle; unknown where nothing can be read."""
    tools, reader = load(TOOLS / "gpu_programs.py"), tmp_path / "nvidia-smi"
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


def test_says_what_failed_and_what_there_was_no_time_for(tmp_path):
    tools = load(TOOLS / "gpu_rows.py")
    assert tools.cell({"error": "exited with 1"}) == "failed" and tools.cell(None) == "not measured"
    assert tools.cell({"missing": "No module"}) == "not measured (No module)"
    done = {"seconds": 0.5, "rate": 3079.4, "unit": "images/s", "memory_mb": 70123, "share_of_peak": 0.0766}
    assert tools.cell(done) == "3,079 images/s, 7.7 %, 70,123 MB"
    assert tools.cell({**done, "memory_mb": None}) == "3,079 images/s, 7.7 %, memory unknown"
    assert tools.peak_of("NVIDIA H200", "tf32") == 495 and tools.peak_of("NVIDIA H200", "fp32") is None and tools.peak_of("a card of tomorrow", "bf16") is None
    (tmp_path / "gpu_rows.py").write_text((TOOLS / "gpu_rows.py").read_text())
    (tmp_path / "spec.json").write_text(json.dumps({"gpt2-bf16": {"network": "gpt2", "script": ["gpt2"], "precision": "bf16"}}))
    reports = []
    load(tmp_path / "gpu_rows.py").measure(tmp_path, tmp_path, "NVIDIA H200", lambda *report: reports.append(report), ends=0)
    assert reports[0] == ("gpt2-bf16", "pdc", None)
