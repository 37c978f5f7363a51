"""The benchmark of tools/gpu-check on the emulation of a GPU: what is prepared holds neither weights nor data, and trains with
those that the GPU's machine draws."""

import importlib.util
import json
import math

import numpy

import pipeline
import test_cuda

TOOLS = pipeline.SOURCE / "tools" / "bench"


def load(folder):
    spec = importlib.util.spec_from_file_location("gpu_rows", folder / "gpu_rows.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@test_cuda.on_host
def test_rows_train_with_what_is_drawn(tmp_path):
    """An untrained model of V words guesses each with 1 / V: the first loss is log V, but for its small weights."""
    folder, work, binaries = tmp_path / "bench", tmp_path / "work", tmp_path / "build"
    tools = load(TOOLS)
    words = {name: ([32], tools.tokens(512)) for name in ("input", "labels")}
    tiny = {"gpt2": (["gpt2"], words, tools.transformer(3, 64, 512, 32), ("tokens", 32), 4, tools.ADAM)}
    assert tools.prepare(folder, pipeline.SOURCE, pipeline.BIN, [("gpt2", "bf16")], tiny) == ["gpt2-bf16"]
    assert not list(folder.rglob("weights.safetensors")) and not list(folder.glob("*.onnx"))
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 1e6
    binaries.mkdir()
    test_cuda.build_for_host(folder / "gpt2-bf16").rename(binaries / "gpt2-bf16")
    found = {}
    bench = load(folder)
    bench.measure(binaries, work, "NVIDIA H200", lambda *report: found.setdefault(report[0], {}).update({report[1]: report[2]}),
                  steps=2)
    result = found["gpt2-bf16"]["pdc"]
    assert isinstance(result, dict), result
    assert math.isclose(result["rate"], 4 * 32 / result["seconds"]) and result["unit"] == "tokens/s"
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
    tools.draw_weights(tmp_path / "weights.safetensors", {"matrix": [300, 400], "scale": [64], "bias": [64]})
    header = tools.header_of(tmp_path / "weights.safetensors")
    assert header["scale"] == {"dtype": "F32", "shape": [64], "data_offsets": [480000, 480256]}
    text = (tmp_path / "weights.safetensors").read_bytes()
    values = numpy.frombuffer(text[-480512:], numpy.float32)
    assert abs(values[:120000].std() - 0.02) < 1e-3 and abs(values[120000:120064].mean() - 1) < 0.02


def test_says_what_failed_and_what_there_was_no_time_for(tmp_path):
    tools = load(TOOLS)
    assert tools.cell("exited with 1") == "failed" and tools.cell(None) == "not measured"
    done = {"seconds": 0.5, "rate": 3079.4, "unit": "images/s", "memory_mb": 70123, "share_of_peak": 0.0766}
    assert tools.cell(done) == "3,079 images/s, 7.7 %, 70,123 MB"
    assert tools.peak_of("NVIDIA H200", "tf32") == 495 and tools.peak_of("a card of tomorrow", "bf16") is None
    (tmp_path / "gpu_rows.py").write_text((TOOLS / "gpu_rows.py").read_text())
    (tmp_path / "spec.json").write_text(json.dumps({"gpt2-bf16": {"network": "gpt2", "precision": "bf16"}}))
    reports = []
    load(tmp_path).measure(tmp_path, tmp_path, "NVIDIA H200", lambda *report: reports.append(report), ends=0)
    assert reports[0] == ("gpt2-bf16", "pdc", None)
