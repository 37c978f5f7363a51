"""Trains a network of networks.py with PyTorch and prints a JSON line per step: {"step", "seconds"}.

Started by tools/bench/run, once per measurement; with WORLD_SIZE 2 the same under
DistributedDataParallel over gloo, each process with its part of every batch. The data is that of
pdc's side, in the order of its files, and stays in memory as it does there.
"""
import argparse
import json
import os
import pathlib
import time

import numpy
import torch

from networks import NETWORKS, Network


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("data", type=pathlib.Path, help="folder with NAME.npy of each input")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    network = Network(options.network)
    net = network.build().train()
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    if world > 1:
        torch.distributed.init_process_group("gloo")
        # gloo has no messages of bool, as masks are; each process has made the same.
        masks = [name for name, buffer in net.named_buffers() if buffer.dtype == torch.bool]
        torch.nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, masks)
        net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    data = {name: torch.from_numpy(numpy.load(options.data / f"{name}.npy")) for name in network.draw(1)}
    samples, part = len(data["labels"]), network.batch // world
    for step in range(options.steps):
        start = time.perf_counter()
        at = step * network.batch % samples + rank * part
        optimizer.zero_grad(set_to_none=True)
        loss = network.loss(net, {name: values[at:at + part] for name, values in data.items()})
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
