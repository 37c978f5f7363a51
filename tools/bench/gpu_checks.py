"""What tools/gpu-check asks of each program on the GPU's machine: the CPU's losses and updates, the same bits, memory, NCCL."""
import functools
import json
import math
import os
import pathlib
import shutil
import socket
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))

import gpu_programs
import gpu_rows
from gpu_programs import Skipped, run

FOLDER = HERE.parent  # of the prepared projects
# Relative, of a loss, and of what all updates together have changed of a tensor; steps of a product's factors are 2^-24, 2^-11, 2^-8 and
# 2^-11. A gradient that is lost makes 1 of the latter.
LOSSES = {"fp32": 2e-4, "tf32": 3e-3, "bf16": 1e-2, "fp16": 6e-3}
UPDATES = {"fp32": 0.1, "tf32": 0.3, "bf16": 0.6, "fp16": 0.4}
# What is not of an update: weights are f32, and each update rounds them. And gradients that vanish, as those of a bias before a
# normalisation, leave what rounding does: a part of what the tensor in the middle is changed by.
ROUNDING, VANISHING = 2e-7, 0.05


def records_of(log):
    records = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
    return [record for record in records if {"loss", "seconds"} <= record.keys()]


def losses(log):
    return [record["loss"] for record in records_of(log)]


def weights_of(network):
    """Those that the CPU's training began with."""
    weights = FOLDER / "build" / f"{network}.safetensors"
    weights.parent.mkdir(exist_ok=True)
    if not weights.exists():
        gpu_rows.draw_weights(weights, json.loads((FOLDER / network / "weights.json").read_text()))
    return weights


def command_of(case, *options):
    return [FOLDER / "build" / case["project"], *gpu_rows.given(FOLDER / case["network"], case["inputs"]), "--weights",
            weights_of(case["network"]), "--seed", 1, *options]


def train(case, *options, steps=None, limit=200, log=None):
    """`log`: a name beside that of the case, which may run meanwhile."""
    log = FOLDER / "build" / f"{log or case['project']}.jsonl"
    log.unlink(missing_ok=True)
    run(command_of(case, "--steps", case["steps"] if steps is None else steps, "--log", log, "--timeout", 60, *options), limit,
        cwd=FOLDER / case["project"])
    return log


def expect_losses(case, log):
    expected, found = losses(FOLDER / case["reference"]), losses(log)
    if len(expected) != len(found) or not expected:
        raise RuntimeError(f"{len(found)} losses, expected {len(expected)}")
    off = [abs(a - b) / max(abs(a), 1e-6) for a, b in zip(expected, found)]
    if not all(one <= LOSSES[case["precision"]] for one in off):
        raise RuntimeError(f"losses differ by {max(off):.2g} of the CPU's: {found} and {expected}")
    return max(off)


def distance(a, b):
    return math.dist(a, b) if len(a) == len(b) else math.inf


def expect_updates(case, saved):
    """Of some numbers of each weight; returns the most of what is allowed that one is off."""
    expected = json.loads((FOLDER / case["reference"]).with_suffix(".weights").read_text())
    begun, found = gpu_rows.some_of(weights_of(case["network"]), expected), gpu_rows.some_of(saved, expected)
    updates = {name: distance(begun[name], numbers) for name, numbers in expected.items()}
    middle = statistics.median(updates[name] / math.sqrt(len(numbers)) for name, numbers in expected.items())
    parts, wrong = [], []
    for name, numbers in expected.items():
        off = distance(numbers, found.get(name, []))
        update = math.hypot(updates[name], VANISHING * middle * math.sqrt(len(numbers)))
        allowed = UPDATES[case["precision"]] * update + case["steps"] * ROUNDING * math.hypot(*begun[name])
        parts.append(off / allowed)
        if not off <= allowed:
            wrong.append(f"weight {name}, changed by {updates[name]:.2g}, is {off:.2g} off the CPU's")
    if wrong:
        raise RuntimeError("; ".join(wrong[:8]) + (f"; and {len(wrong) - 8} more of {len(expected)}" if len(wrong) > 8 else ""))
    return max(parts)


def check(case, limit=200):
    """Losses and weights."""
    shutil.rmtree(saved := FOLDER / "build" / f"{case['project']}.saved", ignore_errors=True)
    worst = expect_losses(case, train(case, "--save", saved, limit=limit))
    part = expect_updates(case, max(saved.glob("step-*")))
    shutil.rmtree(saved)
    return f"losses are {worst:.2g} off, updates {part:.2g} of what is allowed"


def check_graphs(case, limit):
    """Tasks as CUDA graphs and kernel by kernel: the same bits."""
    graphs, kernels = (losses(train(case, *options, limit=limit, log="graphs")) for options in ((), ("--no-graphs",)))
    if refused := [line for line in gpu_programs.warned().get(case["project"], []) if "kernel by kernel" in line]:
        raise RuntimeError(refused[0])
    if len(graphs) != case["steps"]:
        raise RuntimeError(f"{len(graphs)} losses, expected {case['steps']}")
    if graphs != kernels:
        raise RuntimeError(f"losses are {graphs} as graphs and {kernels} kernel by kernel")
    return f"{len(graphs)} equal losses"


def check_tuning(case, limit):
    """With kernels that are measured: the CPU's losses, and another run's bits."""
    shutil.rmtree(kept := FOLDER / "build" / "kernels", ignore_errors=True)
    worst = expect_losses(case, log := train(case, "--tune", kept, limit=limit, log="tuned"))
    first, again = losses(log), losses(train(case, "--tune", kept, limit=limit, log="tuned"))
    if first != again:
        raise RuntimeError(f"losses are {first} with kernels that were just measured and {again} with those that were kept")
    return worst


def speed(case, *options, steps=200, limit=200):
    """Samples per second of the second half."""
    seconds = [record["seconds"] for record in records_of(train(case, *options, steps=steps, limit=limit))][steps // 2:]
    return case["samples"] * len(seconds) / sum(seconds)


def sanitize(tool, case, limit):
    """A tool of compute-sanitizer's over two steps. All tensors of a program lie in one piece of memory, beyond which accesses are seen."""
    if not (sanitizer := shutil.which("compute-sanitizer")):
        raise Skipped("no compute-sanitizer")
    # Errors that calls return are the program's to judge: where there is no room to read ahead, it does without. Kernels that are not
    # launched are not worth instrumenting.
    try:
        run([sanitizer, "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "3", *command_of(case, "--steps", 2, "--timeout", 60)],
            limit, cwd=FOLDER / case["project"], env={**os.environ, "CUDA_MODULE_LOADING": "LAZY"})
    except gpu_programs.Failure as error:  # of some virtual machines it takes no device
        if "Device not supported" in error.printed:
            raise Skipped("compute-sanitizer does not support this device") from error
        raise
    return "no error"


def check_attention(element, part, limit):
    """The library's plans with the kernels here, on this device and at the sizes of networks. The library compiles some hundred."""
    return run([FOLDER / "build" / "attention_check", element, f"--{part}"], limit).strip()


def check_products(limit):
    """What the library computes beside products with the kernels here, and what both take."""
    return "; ".join(run([FOLDER / "build" / "product_check"], limit).strip().splitlines())


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def check_nccl(case, limit):
    """A process per rank on one GPU: different host ids let NCCL take them for two machines."""
    (log := FOLDER / "build" / f"{case['project']}-nccl.jsonl").unlink(missing_ok=True)
    ranks, port = case["ranks"], free_port()

    def start(rank):
        environment = {**os.environ, "NCCL_DEBUG": "VERSION", "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": "0",
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NCCL_HOSTID": f"host{rank}",
                       "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket"}
        # Each loads the kernels of all libraries, beside the others, before it answers.
        command = command_of(case, "--transport", "nccl", "--steps", case["steps"], "--timeout", 180, *(["--log", log] if rank == 0 else []))
        run(command, limit, env=environment)

    with ThreadPoolExecutor(ranks) as pool:
        ended = [pool.submit(start, rank) for rank in range(ranks)]
    if failures := [f"rank {rank}: {one.exception()}" for rank, one in enumerate(ended) if one.exception()]:
        raise RuntimeError("\n".join(failures))
    return expect_losses(case, log)


def checks_of(cases):
    """What to attempt and within how many seconds, by names: body(limit). The longest begin."""
    by_name = {case["project"]: case for case in cases}
    found = {f"attention in {element}, {part} ones": (functools.partial(check_attention, element, part), 240)
             for element in ("bf16", "fp16") for part in ("even", "odd")}
    for tool, name in (("memcheck", "lenet5-1-1f1b"), ("memcheck", "gpt2-2-1f1b-bf16"), ("racecheck", "lenet5-1-1f1b")):
        if name in by_name:
            found[f"{tool}, {name}"] = (functools.partial(sanitize, tool, by_name[name]), 200)
    found["graphs"] = (functools.partial(check_graphs, by_name["lenet5-2-1f1b"]), 120)
    for case in cases:
        if case["replicated"] or case["project"] == "lenet5-2-1f1b":
            found[f"nccl, {case['ranks']} processes on one GPU, {case['project']}"] = (functools.partial(check_nccl, case), 300)
    for case in cases:
        found[case["project"]] = (functools.partial(check, case), 120)
    found["measured kernels"] = (functools.partial(check_tuning, by_name["lenet5-2-1f1b"]), 120)
    return found
