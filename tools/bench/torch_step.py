"""Trains one of tools/models with PyTorch and prints a JSON line per step: {"step", "seconds"}.

Started by tools/bench/run, once per measurement; with WORLD_SIZE 2 the same under
DistributedDataParallel over gloo, each process with its part of every batch. The data is that of
pdc's side, in the order of its file, and stays in memory as it does there.
"""
import argparse
import json
import os
import pathlib
import sys
import time

import numpy
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))


def network(name):
    import lenet5
    import mlp
    import resnet18
    import vgg11
    return {"lenet5": lenet5.LeNet5, "mlp": lambda: mlp.mlp([2048, 2048, 2048]), "resnet18": resnet18.network,
            "vgg11": vgg11.network}[name]()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("images")
    parser.add_argument("labels")
    parser.add_argument("--batch", type=int, required=True, help="samples per step, of all processes together")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    net = network(options.model).train()
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    if world > 1:
        torch.distributed.init_process_group("gloo")
        net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    images, labels = (torch.from_numpy(numpy.load(path)) for path in (options.images, options.labels))
    part = options.batch // world
    for step in range(options.steps):
        start = time.perf_counter()
        at = step * options.batch % len(labels) + rank * part
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(net(images[at:at + part]), labels[at:at + part])
        loss.backward()
        optimizer.step()
        loss.item()
        if rank == 0:
            print(json.dumps({"step": step, "seconds": time.perf_counter() - start}), flush=True)
    status = pathlib.Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))
    print(json.dumps({"summary": True, "peak_memory_bytes": peak}), flush=True)


if __name__ == "__main__":
    main()
