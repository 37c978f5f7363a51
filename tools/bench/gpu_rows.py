"""The benchmark of tools/gpu-check: networks of full size on one GPU, by pdc's programs and by PyTorch.

On the build machine `prepare` writes the sources of each row's program. Neither weights nor data travel: `spec.json`
says their shapes, and the GPU's machine draws them, with nothing but Python's own library. There `measure` trains
with the program and, where PyTorch is, with gpu_torch.py, eagerly and compiled, in the same run.
"""
import array
import functools
import hashlib
import importlib.util
import json
import math
import os
import pathlib
import random
import shutil
import statistics
import struct
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))

import gpu_programs
from gpu_programs import run

STEPS, FIRST = 40, 10  # the first ones measure and load kernels and record graphs
# Dense, in TFLOP/s, of the data sheets; by a part of the name that nvidia-smi gives.
SXM = {"bf16": 989, "fp16": 989, "tf32": 495}
PEAKS = {"H200 NVL": {"bf16": 835, "fp16": 835, "tf32": 418}, "H200": SXM, "H100 80GB HBM3": SXM,
         "H100 PCIe": {"bf16": 756, "fp16": 756, "tf32": 378}, "A100": {"bf16": 312, "fp16": 312, "tf32": 156}}


def transformer(layers, width, vocabulary, sequence, head=0):
    """Multiply-adds of a forward pass per sequence: 12 width^2 of a layer's weights, both products of its attention, scores
    behind the diagonal included, and the output matrix."""
    return sequence * (layers * (12 * width ** 2 + 2 * width * sequence) + width * vocabulary + head)


def tokens(count):
    return {"kind": "integers", "below": count}


IMAGES = {"input": ([3, 224, 224], {"kind": "normal"}), "labels": ([], tokens(1000))}
MOMENTUM, ADAM = "momentum,lr=0.01,momentum=0.9", "adamw,lr=1e-4"
# Of what is drawn here, at 0.01 and at 0.001 too, a VGG's losses become NaN within some steps.
SLOW_MOMENTUM = "momentum,lr=1e-5,momentum=0.9"
# Script and options in tools/models; inputs, by name the shape of a sample and what is drawn; multiply-adds of a sample's
# forward pass; what is counted, and how many of it a sample has; samples in a batch; optimizer.
NETWORKS = {
    "resnet50": (["vision", "--network", "resnet50"], IMAGES, 4.09e9, ("images", 1), 256, MOMENTUM),
    "vgg16": (["vision", "--network", "vgg16", "--dropout", "0"], IMAGES, 15.47e9, ("images", 1), 128, SLOW_MOMENTUM),
    "gpt2": (["gpt2", "--layers", "12", "--width", "768", "--heads", "12", "--vocabulary", "50257", "--sequence", "1024"],
             {"input": ([1024], tokens(50257)), "labels": ([1024], tokens(50257))},
             transformer(12, 768, 50257, 1024), ("tokens", 1024), 16, ADAM),
    "bert-large": (["bert", "--layers", "24", "--width", "1024", "--heads", "16", "--vocabulary", "30522", "--sequence", "384"],
                   {"tokens": ([384], tokens(30522)), "segments": ([384], tokens(2)),
                    "attention": ([384], {"kind": "integers", "from": 1, "below": 2}), "labels": ([384], tokens(30522))},
                   transformer(24, 1024, 30522, 384, 1024 ** 2), ("sequences", 1), 32, ADAM),
    "lstm": (["lstm", "--layers", "2", "--width", "1024", "--vocabulary", "10000", "--sequence", "32"],
             {"input": ([32], tokens(10000)), "labels": ([32], tokens(10000))},
             32 * (2 * 8 * 1024 ** 2 + 1024 * 10000), ("tokens", 32), 128, ADAM),
}
# The first ones are what a short run is for.
ROWS = [("resnet50", "fp16"), ("gpt2", "bf16"), ("bert-large", "bf16"), ("resnet50", "tf32"), ("vgg16", "fp16"),
        ("lstm", "tf32")]


def given(folder, names):
    """A program's options for what `draw_data` has written."""
    return [word for name in names for word in ("--data", f"{name}={folder}/{name}.npy")]


# On the build machine.


def shapes_of(weights):
    """By the names in a safetensors file of f32."""
    with open(weights, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    if other := [name for name, value in header.items() if value["dtype"] != "F32"]:
        raise RuntimeError(f"{weights}: {other[0]} is {header[other[0]]['dtype']}, and only F32 is drawn")
    return {name: value["shape"] for name, value in header.items()}


def some_of(place, names, most=512):
    """Numbers of f32 tensors by name, evenly spaced and so many at most, of a safetensors file or all of a folder's."""
    found = {}
    for path in [place] if place.is_file() else sorted(place.glob("*.safetensors")):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        for name, value in json.loads(data[8:8 + size]).items():
            if name in names:
                begin, end_of = value["data_offsets"]
                numbers = array.array("f", data[8 + size + begin:8 + size + end_of])
                found[name] = numbers[::-(-len(numbers) // most) or 1].tolist()
    return found


def hash_of(folder):
    """Of the names and contents of all files."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def loss_of(script):
    """Where the network's output is its loss, as an option of pdc."""
    return ["--loss", "output"] if script[0] == "bert" else []


def prepare(folder, sources, pdc, rows=None, networks=None):
    """Writes folder/NAME-PRECISION for each row, without weights; returns the projects' names."""
    networks = networks or NETWORKS
    folder.mkdir(parents=True, exist_ok=True)
    specs = {}
    for name, precision in ROWS if rows is None else rows:
        script, inputs, multiplications, counted, batch, optimizer = networks[name]
        project, model = folder / f"{name}-{precision}", folder / f"{name}.onnx"
        if not model.exists():
            run(["/usr/bin/python3", sources / "tools" / "models" / f"{script[0]}.py", model, *script[1:]])
        run([pdc / "pdc", model, "--gpus", 1, "--precision", precision, "--minibatch", batch, "--microbatches", 1,
             "--optimizer", optimizer, *loss_of(script), "-o", project])
        weights = project / "weights.safetensors"
        specs[project.name] = {
            "network": name, "script": script, "precision": precision, "batch": batch, "optimizer": optimizer,
            "counted": counted, "flops": 6 * multiplications, "inputs": inputs,
            "weights": shapes_of(weights)}
        weights.unlink()
        print("prepared", project.name)
    for model in folder.glob("*.onnx"):
        model.unlink()
    (folder / "spec.json").write_text(json.dumps(specs))
    models = folder / "models"
    models.mkdir(exist_ok=True)
    for script in ("export", "transformer", *sorted({spec["script"][0] for spec in specs.values()})):
        shutil.copy(sources / "tools" / "models" / f"{script}.py", models)
    for script in ("gpu_checks.py", "gpu_programs.py", "gpu_rows.py", "gpu_torch.py"):
        shutil.copy(HERE / script, folder)
    return list(specs)


# On the GPU's machine.


def prefixes():
    """Where pip's wheels of this Python put cuBLAS, cuDNN and NCCL."""
    found = importlib.util.find_spec("nvidia")
    folders = [pathlib.Path(place) for place in (found.submodule_search_locations if found else [])]
    return [str(folder / name) for folder in folders for name in ("cudnn", "nccl", "cu13", "cublas") if (folder / name / "include").is_dir()]


def block_of(what, count, draw):
    """So many numbers of a kind; larger tensors repeat it."""
    if what["kind"] == "normal":
        mean, deviation = what.get("mean", 0.0), what.get("deviation", 1.0)
        return array.array("f", (draw.gauss(mean, deviation) for _ in range(count)))
    return array.array("q", (draw.randrange(what.get("from", 0), what["below"]) for _ in range(count)))


def write_repeated(file, block, count):
    for _ in range(count // max(len(block), 1)):
        file.write(block)
    file.write(block[:count % max(len(block), 1)])


def draw_data(path, shape, what):
    """By the file's name, so that no tensor of a network is another's copy."""
    block = block_of(what, min(math.prod(shape), 1 << 16), random.Random(path.stem))
    kind = {"f": "<f4", "q": "<i8"}[block.typecode]
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        write_repeated(file, block, math.prod(shape))


def draw_weights(path, shapes):
    """Vectors that scale are around one, all others around zero: windows as wide as He et al. have them, the rest 0.02. All
    of the same numbers, but each tensor from another one on, since Python draws slowly."""
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header)
    text += " " * (-len(text) % 8)
    drawn = block_of({"kind": "normal"}, 1 << 16, random.Random(3))
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text.encode())
        for name, shape in shapes.items():
            mean = 1.0 if len(shape) == 1 and "bias" not in name else 0.0
            deviation = math.sqrt(2 / math.prod(shape[1:])) if len(shape) > 2 else 0.02
            count = min(len(drawn), math.prod(shape))
            first = random.Random(name).randrange(len(drawn))
            own = (drawn[first:] + drawn[:first])[:count]
            write_repeated(file, array.array("f", (mean + deviation * value for value in own)), math.prod(shape))


def seconds_of(log, steps):
    """The median of a step's seconds, without the first ones."""
    records = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    seconds = [record["seconds"] for record in records if {"loss", "seconds"} <= record.keys()]
    losses = [record["loss"] for record in records if "loss" in record]
    if len(seconds) != steps or not all(math.isfinite(loss) for loss in losses):
        raise RuntimeError(f"{len(seconds)} steps, expected {steps}; losses {losses[:3]} ... {losses[-3:]}")
    return statistics.median(seconds[min(FIRST, steps // 2):])


def measure_pdc(program, name, spec, work, steps, ends, tunes):
    """Tuned: with the libraries' fastest kernels, which the first step measures, or has when the row is run again."""
    data, log = [], work / f"{name}.jsonl"
    for tensor, (shape, what) in spec["inputs"].items():
        draw_data(work / f"{name}-{tensor}.npy", [2 * spec["batch"], *shape], what)
        data += ["--data", f"{tensor}={work / f'{name}-{tensor}.npy'}"]
    draw_weights(work / f"{name}.safetensors", spec["weights"])
    log.unlink(missing_ok=True)
    try:
        with gpu_programs.Readings() as readings:
            run([program, *data, "--weights", work / f"{name}.safetensors", "--steps", steps, "--seed", 1, "--log", log,
                 "--timeout", 120, *(["--tune", work / f"{name}.tuning"] if tunes else [])], left(ends, 400), cwd=HERE / name)
        return seconds_of(log.read_text(), steps), readings
    finally:
        for path in work.glob(f"{name}*.npy"):
            path.unlink()
        (work / f"{name}.safetensors").unlink(missing_ok=True)


def measure_torch(name, how, work, steps, ends):
    """None where time ends first: to be compiled a network has half of what is left, since the next one is to have its turn. What
    was compiled is kept."""
    caches = {f"{what}_CACHE_DIR": str(work / "compiled" / what.lower()) for what in ("TORCHINDUCTOR", "TRITON")}
    has_end = ends < math.inf
    try:
        with gpu_programs.Readings() as readings:
            text = run([sys.executable, HERE / "gpu_torch.py", name, how, "--steps", steps],
                       left(ends) / 2 if has_end and how == "compile" else left(ends, 900), env={**os.environ, **caches})
    except gpu_programs.OutOfTime:
        if has_end:
            return None
        raise
    return seconds_of(text, steps), readings


def left(ends, most=math.inf):
    """Seconds."""
    return min(most, ends - time.monotonic())


def torch_lacks(script, device="cuda", ends=math.inf):
    """Why PyTorch cannot train a network of this script here: {"missing"}, a module, or {"error"}; {}: it can."""
    modules = "torch, torchvision" if script == "vision" else "torch"
    try:
        run([sys.executable, "-c", f"import {modules}; torch.zeros(1, device='{device}')"], left(ends, 120))
    except Exception as error:  # whatever it is: the others are to run
        last = str(error).strip().splitlines()[-1]
        return {"missing": last} if last.startswith("ModuleNotFoundError") else {"error": f"PyTorch: {error}"}
    return {}


def peak_of(device, precision):
    return next((peaks.get(precision) for part, peaks in PEAKS.items() if part in device), None)


def measured(spec, seconds, readings, peak):
    """What a table says of a step's seconds, and the device's clock meanwhile."""
    unit, count = spec["counted"]
    flops = spec["flops"] * spec["batch"] / seconds
    return {"seconds": seconds, "rate": spec["batch"] * count / seconds, "unit": f"{unit}/s", "memory_mb": readings.memory,
            "clock_mhz": readings.clock, "share_of_peak": flops / (peak * 1e12) if peak else None}


def sides_of(binaries, work, steps, ends):
    """side: measure(name, spec). Where time ends, the last ones are left out: those that first try kernels or compile."""
    def pdc(tunes):
        return lambda name, spec: measure_pdc(binaries / name, name, spec, work, steps, ends, tunes)

    def torch(how):
        return lambda name, _: measure_torch(name, how, work, steps, ends)

    return {"pdc": pdc(False), "PyTorch eager": torch("eager"), "pdc tuned": pdc(True), "PyTorch compile": torch("compile")}


def order_of(sides, names, ends):
    """Row by row, so that a device's heat is the same for all sides; where time ends, side by side."""
    return [(side, name) for name in names for side in sides] if ends == math.inf else [(side, name) for side in sides for name in names]


def chosen_rows(specs, rows):
    """Those named by their network or with their precision; all where none is."""
    known = {name for name in specs} | {spec["network"] for spec in specs.values()}
    if unknown := [row for row in rows if row not in known]:
        raise ValueError(f"no row {unknown[0]}, expected {', '.join(sorted(known))}")
    return [name for name, spec in specs.items() if not rows or {name, spec["network"]} & {*rows}]


def measure(binaries, work, device, report, rows=(), steps=STEPS, ends=math.inf):
    """Calls report(name, side, result) with what `measured` says, {"error"}, or {"missing"}, the module without which PyTorch
    cannot; None for what there is no time for before `ends`."""
    specs = json.loads((HERE / "spec.json").read_text())
    work.mkdir(parents=True, exist_ok=True)
    sides = sides_of(binaries, work, steps, ends)
    lacks = functools.cache(lambda script: torch_lacks(script, ends=ends))
    for side, name in order_of(sides, chosen_rows(specs, rows), ends):
        spec, result = specs[name], None
        if left(ends) > 0 and not (result := {} if side.startswith("pdc") else lacks(spec["script"][0])):
            try:
                found = sides[side](name, spec)
                result = measured(spec, *found, peak_of(device, spec["precision"])) if found else None
            except Exception as error:  # whatever it is: the others are to run
                result = {"error": f"{type(error).__name__}: {error}"} if left(ends) > 0 else None
        report(name, side, result)


def cell(result):
    if not result or "missing" in result:
        return "not measured" + (f" ({result['missing']})" if result else "")
    if "error" in result:
        return "failed"
    memory = "memory unknown" if result["memory_mb"] is None else f"{result['memory_mb']:,} MB"
    share = f", {100 * result['share_of_peak']:.1f} %" if result["share_of_peak"] is not None else ""
    return f"{result['rate']:,.0f} {result['unit']}{share}, {memory}"


def table(results, date, device):
    """Rows of tools/bench/gpu-results.md from {name: {side: result}}."""
    lines = []
    for name, sides in results.items():
        lines.append("| " + " | ".join([date, device, name, *(cell(sides.get(side)) for side in (
            "pdc", "pdc tuned", "PyTorch eager", "PyTorch compile"))]) + " |")
    return "\n".join(lines)
