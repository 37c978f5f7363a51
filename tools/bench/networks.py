"""The networks that tools/bench/run trains, by pdc and by PyTorch, and their data."""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import export  # noqa: E402

TRANSFORMER = ["--layers", "4", "--width", "256", "--heads", "4", "--vocabulary", "4096", "--sequence", "128"]
# By name: script in tools/models and its options; samples per step; steps of a round.
NETWORKS = {
    "lenet5": (["lenet5"], 64, 200),
    "mlp": (["mlp", "--hidden", "2048", "2048", "2048"], 64, 40),
    "resnet18": (["resnet18"], 32, 12),
    "vgg11": (["vgg11"], 32, 20),
    "resnet50": (["vision", "--network", "resnet50", "--size", "96", "--classes", "100"], 8, 12),
    "efficientnet": (["vision", "--network", "efficientnet_b0", "--size", "96", "--classes", "100", "--dropout", "0"], 8, 20),
    "unet": (["unet", "--size", "64", "--width", "16"], 4, 20),
    "gpt2": (["gpt2", *TRANSFORMER], 8, 12),
    "bert": (["bert", *TRANSFORMER], 8, 12),
    "lstm": (["lstm", "--layers", "2", "--width", "256", "--vocabulary", "4096", "--sequence", "32"], 32, 12),
}
IMAGES = {"lenet5": (1, 28, 28), "mlp": (784,), "resnet18": (3, 32, 32), "vgg11": (3, 32, 32)}  # of ten classes


class Network:
    """As PyTorch trains it; the seed of its weights is 1."""

    def __init__(self, name):
        self.script, self.batch, self.steps = NETWORKS[name]
        self.module = __import__(self.script[0])
        self.has_loss = "loss" in getattr(self.module, "OUTPUTS", {})

    def build(self):
        torch.manual_seed(1)
        if hasattr(self.module, "build"):
            return self.module.build(self.options())
        if self.script[0] == "mlp":
            return self.module.mlp(list(map(int, self.script[2:])))
        return (self.module.LeNet5 if self.script[0] == "lenet5" else self.module.network)()

    def options(self):
        return export.options_of(self.module, ["unused.onnx", *self.script[1:]])

    def draw(self, count):
        """By the name of an input, labels included."""
        torch.manual_seed(2)
        if hasattr(self.module, "examples"):
            return self.module.examples(self.options(), count)
        return {"input": torch.randn(count, *IMAGES[self.script[0]]), "labels": torch.randint(0, 10, (count,))}

    def loss(self, network, examples):
        if self.has_loss:
            return network(*examples.values())
        scores = network(*(value for name, value in examples.items() if name != "labels"))
        if scores.dim() == 3:  # of each position of a sequence
            scores = scores.transpose(1, 2)
        return torch.nn.functional.cross_entropy(scores, examples["labels"])
