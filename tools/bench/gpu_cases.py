"""The cases of tools/gpu-check, as the build machine prepares them: small networks, how each is split, and the CPU's losses."""
import json
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))

import gpu_programs
import gpu_project
import gpu_rows

SOURCES = HERE.parents[1]
PDC = SOURCES / "build" / "bin"
STEPS = 6
MICROBATCHES = 4


def images(*shape):
    return {"input": (shape, {"kind": "normal"}), "labels": ((), gpu_rows.tokens(10))}


def words(length=32, **vocabularies):
    return {name: ([length], gpu_rows.tokens(size)) for name, size in vocabularies.items()}


SMALL = ["--layers", "2", "--width", "64", "--vocabulary", "128", "--sequence", "12"]
# Stages, schedule and precision: of the first networks, of those of words, and of those that are here for their operators. Gradients of
# deep convolutions nearly cancel out: bf16 leaves those of a U-Net half off.
SPLITS = {
    "full": [(1, "1f1b", "fp32"), (2, "1f1b", "fp32"), (2, "gpipe", "fp32"), (4, "1f1b", "fp32"), (4, "zb-h1", "fp32"),
             (2, "pipedream", "fp32"), (1, "1f1b", "tf32"), (1, "1f1b", "bf16"), (2, "1f1b", "bf16"), (1, "1f1b", "fp16")],
    "words": [(1, "1f1b", "fp32"), (2, "1f1b", "fp32"), (1, "1f1b", "bf16"), (2, "1f1b", "bf16"), (1, "1f1b", "fp16")],
    "operators": [(1, "1f1b", "fp32"), (1, "1f1b", "bf16")],
    "convolutions": [(1, "1f1b", "fp32"), (1, "1f1b", "fp16")],
}
MOMENTUM, SLOW, ADAM = "momentum,lr=0.05,momentum=0.9", "momentum,lr=0.005,momentum=0.9", "adamw,lr=1e-3"
# Name, script of tools/models with its options, inputs as in gpu_rows.NETWORKS, samples per microbatch, optimizer, splits. The
# padding of bert is drawn.
NETWORKS = [
    ("lenet5", ["lenet5"], images(1, 28, 28), 8, f"{MOMENTUM},weight_decay=1e-3", "full"),
    ("fashion", ["fashion"], images(1, 28, 28), 8, "adam,lr=1e-3", "full"),
    # At ten times the rate its losses are 7 within the six steps, and those of weights that differ by a rounding part by 5e-3.
    ("resnet18", ["resnet18"], images(3, 32, 32), 4, SLOW, "full"),
    ("vgg11", ["vgg11"], images(3, 32, 32), 4, "sgd,lr=0.01", "full"),
    ("gpt2", ["gpt2", "--dropout", "0.1"], words(input=512, labels=512), 4, MOMENTUM, "words"),
    ("bert", ["bert"], words(tokens=512, segments=2, attention=2, labels=512), 4, ADAM, "words"),
    # Recurrent cells, transposed convolutions, depthwise ones, rotated heads in groups, trained masks.
    ("lstm", ["lstm", *SMALL], words(12, input=128, labels=128), 4, ADAM, "operators"),
    ("gru", ["lstm", "--cell", "GRU", *SMALL], words(12, input=128, labels=128), 4, ADAM, "operators"),
    ("unet", ["unet", "--up", "transposed", "--size", "32", "--width", "8"],
     {"input": ([3, 32, 32], {"kind": "normal"}), "labels": ([32, 32], gpu_rows.tokens(2))}, 4, SLOW, "convolutions"),
    ("efficientnet", ["vision", "--network", "efficientnet_b0", "--narrow", "4", "--size", "64", "--classes", "10", "--dropout", "0",
                      "--epsilon", "0.01"], images(3, 64, 64), 4, SLOW, "convolutions"),
    ("llama", ["llama", *SMALL, "--heads", "4", "--groups", "2", "--hidden", "96"], words(12, input=128, labels=128), 4,
     ADAM, "operators"),
    ("t5", ["t5", *SMALL, "--heads", "4", "--hidden", "96"], words(12, source=128, target=128, labels=128), 4, ADAM, "operators"),
]
# With replicas, over NCCL alone, for LeNet: ranks of each stage, schedule, microbatches. Sums of interleaved stages beside messages
# that other replicas wait for; a communicator for each directed edge.
REPLICAS = [("1-2", "interleaved", 3), ("2-1", "1f1b", 4)]


def reference_of(network, stages, schedule, microbatches):
    """Asynchronous schedules are compared with the CPU's of the same depth, others with one stage's."""
    if schedule == "pipedream":
        return network, stages, schedule
    return network, 1, "1f1b" if microbatches == MICROBATCHES else f"1f1b-{microbatches}"


def train_on_cpu(folder, model, reference, inputs, options):
    """Leaves the losses in folder/NETWORK, and some numbers of each weight."""
    name, stages, _ = reference
    stem = "-".join(map(str, reference))
    cpu, data, weights = folder / "cpu", folder / name, folder / f"{name}.safetensors"
    gpu_programs.run([PDC / "pdc", model, "--gpus", stages, "--device", "cpu", "-o", cpu, *options])
    if not weights.exists():  # drawn here, and again on the GPU's machine
        shapes = gpu_rows.shapes_of(cpu / "weights.safetensors")
        (data / "weights.json").write_text(json.dumps(shapes))
        gpu_rows.draw_weights(weights, shapes)
    gpu_programs.run([PDC / "pdc-run", cpu, *gpu_rows.given(data, inputs), "--weights", weights, "--steps", STEPS, "--seed", 1,
                  "--log", data / f"{stem}.jsonl", "--save", cpu / "saved"])
    found = gpu_rows.some_of(max((cpu / "saved").glob("step-*")), json.loads((data / "weights.json").read_text()))
    (data / f"{stem}.weights").write_text(json.dumps(found))
    shutil.rmtree(cpu)


def prepare_network(folder, name, script, inputs, size, optimizer, kind):
    """Writes a project for each split; returns what cases.json says of them."""
    model, data, cases = folder / f"{name}.onnx", folder / name, []
    data.mkdir()
    gpu_programs.run(["/usr/bin/python3", SOURCES / "tools" / "models" / f"{script[0]}.py", model, *script[1:]])
    for tensor, (shape, what) in inputs.items():
        gpu_rows.draw_data(data / f"{tensor}.npy", [size * MICROBATCHES * 3, *shape], what)
    splits = [(*split, MICROBATCHES) for split in SPLITS[kind]]
    if name == "lenet5":
        splits += [(stages, schedule, "fp32", microbatches) for stages, schedule, microbatches in REPLICAS]
    for stages, schedule, precision, microbatches in splits:
        asynchronous = schedule == "pipedream"
        samples = size * (1 if asynchronous else microbatches)
        options = ["--minibatch", samples, "--optimizer", optimizer, *gpu_rows.loss_of(script)]
        rows = ["--schedule", schedule, *([] if asynchronous else ["--microbatches", microbatches])]
        reference = reference_of(name, stages, schedule, microbatches)
        log = data / ("-".join(map(str, reference)) + ".jsonl")
        if not log.exists():
            train_on_cpu(folder, model, reference, inputs,
                         [*options, *(rows if asynchronous else ["--schedule", "1f1b", "--microbatches", microbatches])])
        project = f"{name}-{stages}-{schedule}" + ("" if precision == "fp32" else f"-{precision}")
        replicated = isinstance(stages, str)
        ranks = sum(map(int, stages.split("-"))) if replicated else stages
        gpu_programs.run([PDC / "pdc", model, "--gpus", ranks, "--precision", precision, "-o", folder / project, *options, *rows,
                      *(["--stages", stages] if replicated else [])])
        (folder / project / "weights.safetensors").unlink()
        cases.append({"project": project, "network": name, "inputs": [*inputs], "precision": precision, "steps": STEPS, "ranks": ranks,
                      "replicated": replicated, "reference": str(log.relative_to(folder)), "samples": samples})
        print("prepared", project)
    model.unlink()
    (folder / f"{name}.safetensors").unlink()
    return cases


def prepare(folder, rows):
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"error: {folder} holds something, expected a folder that is empty or not there; remove it")
    folder.mkdir(parents=True, exist_ok=True)
    gpu_project.copy_sources(folder, SOURCES)
    cases = [case for network in NETWORKS for case in prepare_network(folder, *network)]
    (folder / "cases.json").write_text(json.dumps(cases, indent=1))
    chosen = [row for row in gpu_rows.ROWS if not rows or {row[0], "-".join(row)} & {*rows}]
    programs = gpu_rows.prepare(folder / "bench", SOURCES, PDC, chosen)
    gpu_project.write_project(folder, [case["project"] for case in cases] + [f"bench/{name}" for name in programs])
    shutil.copy(SOURCES / "tools" / "gpu-check", folder)
    (folder / "source").write_text(gpu_rows.hash_of(folder))
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {total / 1e6:.1f} MB")
