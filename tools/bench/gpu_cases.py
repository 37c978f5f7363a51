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


def words(**vocabularies):
    return {name: ([32], gpu_rows.tokens(size)) for name, size in vocabularies.items()}


# Name, script of tools/models with its options, inputs as in gpu_rows.NETWORKS, samples per microbatch, optimizer. The padding of
# bert is drawn.
NETWORKS = [
    ("lenet5", ["lenet5"], images(1, 28, 28), 8, "momentum,lr=0.05,momentum=0.9,weight_decay=1e-3"),
    ("fashion", ["fashion"], images(1, 28, 28), 8, "adam,lr=1e-3"),
    ("resnet18", ["resnet18"], images(3, 32, 32), 4, "momentum,lr=0.05,momentum=0.9"),
    ("vgg11", ["vgg11"], images(3, 32, 32), 4, "sgd,lr=0.01"),
    ("gpt2", ["gpt2", "--dropout", "0.1"], words(input=512, labels=512), 4, "momentum,lr=0.05,momentum=0.9"),
    ("bert", ["bert"], words(tokens=512, segments=2, attention=2, labels=512), 4, "momentum,lr=0.05,momentum=0.9"),
]
# Stages, schedule and precision.
SPLITS = [(1, "1f1b", "fp32"), (2, "1f1b", "fp32"), (2, "gpipe", "fp32"), (4, "1f1b", "fp32"), (4, "zb-h1", "fp32"),
          (2, "pipedream", "fp32"), (1, "1f1b", "tf32"), (1, "1f1b", "bf16"), (2, "1f1b", "bf16"),
          (1, "1f1b", "fp16")]
# With replicas, over NCCL alone, for LeNet: ranks of each stage, schedule, microbatches. Sums of interleaved stages beside messages
# that other replicas wait for; a communicator for each directed edge.
REPLICAS = [("1-2", "interleaved", 3), ("2-1", "1f1b", 4)]
SPLITS_OF_WORDS = [(1, "1f1b", "fp32"), (2, "1f1b", "fp32"), (1, "1f1b", "bf16"), (2, "1f1b", "bf16"), (1, "1f1b", "fp16")]


def reference_of(network, stages, schedule, microbatches):
    """Asynchronous schedules are compared with the CPU's of the same depth, others with one stage's."""
    if schedule == "pipedream":
        return network, stages, schedule
    return network, 1, "1f1b" if microbatches == MICROBATCHES else f"1f1b-{microbatches}"


def train_on_cpu(folder, model, reference, inputs, options):
    """Leaves the losses in folder/NETWORK and, where they are small, the weights."""
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
    saved = max((cpu / "saved").glob("step-*"))
    if sum(path.stat().st_size for path in saved.iterdir()) < 2e6:  # of larger ones the losses have to do
        shutil.copytree(saved, data / stem)
    shutil.rmtree(cpu)


def prepare_network(folder, name, script, inputs, size, optimizer):
    """Writes a project for each split; returns what cases.json says of them."""
    model, data, cases = folder / f"{name}.onnx", folder / name, []
    data.mkdir()
    gpu_programs.run(["/usr/bin/python3", SOURCES / "tools" / "models" / f"{script[0]}.py", model, *script[1:]])
    for tensor, (shape, what) in inputs.items():
        gpu_rows.draw_data(data / f"{tensor}.npy", [size * MICROBATCHES * 3, *shape], what)
    splits = [(stages, schedule, precision, MICROBATCHES)
              for stages, schedule, precision in (SPLITS_OF_WORDS if script[0] in ("gpt2", "bert") else SPLITS)]
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
