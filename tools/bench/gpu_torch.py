"""Trains a row of gpu_rows.py with PyTorch on one GPU and prints a JSON line per step: {"loss", "seconds"}.

As one would write it for speed: channels-last images, autocast to 16 bits or TF32, PyTorch's own fused attention and GELU,
fused optimizers, each batch copied from pinned memory beside the step before it. `compile` is torch.compile, max-autotune.
"""
import argparse
import json
import pathlib
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "models"))


def fused_attention(attention, x, hidden=None):
    """models/transformer.py's Attention by one call."""
    batch, length, width = x.shape
    query, key, value = (part.view(batch, length, attention.heads, width // attention.heads).transpose(1, 2)
                         for part in attention.inputs(x).split(width, dim=2))
    mask = None if hidden is None else hidden.to(query.dtype)
    mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=attention.causal)
    return attention.output(mixed.transpose(1, 2).reshape(batch, length, width))


def network_of(script):
    """As the script's command line says."""
    import export
    import transformer
    transformer.Attention.forward = fused_attention
    transformer.GeluTanh.forward = lambda _, x: torch.nn.functional.gelu(x, approximate="tanh")
    module = __import__(script[0])
    return module.build(export.options_of(module, ["unused.onnx", *script[1:]]))


def batch_of(spec, device):
    drawn = {}
    for name, (shape, what) in spec["inputs"].items():
        size = [spec["batch"], *shape]
        drawn[name] = (torch.randn(size, device="cpu") if what["kind"] == "normal" else
                       torch.randint(what.get("from", 0), what["below"], size, device="cpu"))
        if len(shape) == 3:
            drawn[name] = drawn[name].to(memory_format=torch.channels_last)
        if device == "cuda":
            drawn[name] = drawn[name].pin_memory()
    return drawn


class Batches:
    """What was drawn, again and again, on the device; each is copied on a stream of its own while the step before it runs."""

    def __init__(self, drawn, device):
        self.drawn, self.device = drawn, device
        self.stream = torch.cuda.Stream() if device == "cuda" else None
        self.copy()

    def copy(self):
        if self.stream:
            with torch.cuda.stream(self.stream):
                self.following = {name: value.to(self.device, non_blocking=True) for name, value in self.drawn.items()}
        else:
            self.following = self.drawn

    def take(self):
        batch = self.following
        if self.stream:
            torch.cuda.current_stream().wait_stream(self.stream)
            for value in batch.values():  # its memory is free once the step, too, is done with it
                value.record_stream(torch.cuda.current_stream())
        self.copy()
        return batch


def optimizer_of(network, text, device):
    kind, *settings = text.split(",")
    numbers = {key: float(value) for key, value in (setting.split("=") for setting in settings)}
    fused = {"fused": True} if device == "cuda" else {}
    if kind == "momentum":
        return torch.optim.SGD(network.parameters(), lr=numbers["lr"], momentum=numbers["momentum"], **fused)
    return torch.optim.AdamW(network.parameters(), lr=numbers["lr"], **fused)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row")
    parser.add_argument("how", choices=["eager", "compile"])
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it without a GPU")
    options = parser.parse_args()
    spec = json.loads((HERE / "spec.json").read_text())[options.row]
    device, precision = options.device, spec["precision"]
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    if device != "cpu":
        torch.set_default_device(device)  # the networks make positions as they go
    network = network_of(spec["script"]).train()
    if any(len(shape) == 3 for shape, _ in spec["inputs"].values()):
        network = network.to(memory_format=torch.channels_last)
    optimizer = optimizer_of(network, spec["optimizer"], device)
    scaler = torch.cuda.amp.GradScaler(enabled=precision == "fp16" and device == "cuda")
    narrow = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)

    def forward(batch):
        with torch.autocast(device, dtype=narrow, enabled=narrow is not None):
            if spec["script"][0] == "bert":
                return network(*batch.values())
            scores = network(batch["input"])
            return torch.nn.functional.cross_entropy(scores.float().flatten(0, -2), batch["labels"].flatten())

    if options.how == "compile":
        forward = torch.compile(forward, mode="max-autotune")
    batches = Batches(batch_of(spec, device), device)
    begin, before = time.perf_counter(), None
    for step in range(options.steps + 1):
        if step < options.steps:
            loss = forward(batches.take())
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        # One step late, when the next one lies before the device.
        if before is not None:
            value, now = before.item(), time.perf_counter()
            print(json.dumps({"loss": value, "seconds": now - begin}), flush=True)
            begin = now
        before = loss.detach().clone()


if __name__ == "__main__":
    main()
