"""Models whose numbers are of other widths than f32, against PyTorch."""

import onnx
import pytest
import torch
from onnx import TensorProto

from test_control_flow import BATCH, check_step


class Narrow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.hidden, self.leave = torch.nn.Embedding(20, 16), torch.nn.Linear(64, 12), torch.nn.Linear(12, 10)
        self.register_buffer("waves", torch.linspace(-1, 1, 12).cos())

    def forward(self, words):
        return self.leave(torch.relu(self.hidden(self.rows(words).flatten(1))) * self.waves)


@pytest.mark.parametrize("width", [torch.float64, torch.bfloat16])
def test_other_widths(width, tmp_path):
    """What a file holds in other widths is f32: weights begin at its numbers, and are trained."""
    torch.manual_seed(1)
    net, inputs = Narrow().to(width).train(), {"words": torch.randint(0, 20, (BATCH, 4))}
    torch.onnx.export(net, tuple(inputs.values()), str(tmp_path / "narrow.onnx"), opset_version=17,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=["words"],
                      output_names=["scores"], dynamic_axes={"words": {0: "batch"}})
    kinds = {tensor.data_type for tensor in onnx.load(tmp_path / "narrow.onnx").graph.initializer}
    assert kinds == {TensorProto.DOUBLE if width == torch.float64 else TensorProto.BFLOAT16}
    check_step(net.double(), tmp_path / "narrow.onnx", inputs, tmp_path)


def test_weights_of_a_mebibyte(tmp_path):
    """Each begins at its own numbers, also behind one that is large."""
    torch.manual_seed(2)
    net = torch.nn.Sequential(torch.nn.Linear(40, 4000), torch.nn.Tanh(), torch.nn.Linear(4000, 10)).double().train()
    inputs = {"x": torch.randn(BATCH, 40, dtype=torch.float64)}
    torch.onnx.export(net, tuple(inputs.values()), str(tmp_path / "wide.onnx"), opset_version=17, input_names=["x"],
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, output_names=["scores"],
                      dynamic_axes={"x": {0: "batch"}})
    check_step(net, tmp_path / "wide.onnx", inputs, tmp_path)
