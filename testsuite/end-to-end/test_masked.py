"""What is put at the places of a mask, which only data tell, against PyTorch."""

import onnx
import torch

from test_control_flow import BATCH, check_step

IMAGE = 9


class Images(torch.nn.Module):
    """Rows of images stand where their tokens are, as in models of vision and language."""

    def __init__(self):
        super().__init__()
        self.words, self.rows, self.leave = torch.nn.Embedding(10, 8), torch.nn.Linear(6, 8), torch.nn.Linear(8, 10)

    def forward(self, words, images):
        found = self.words(words)
        places = (words == IMAGE).unsqueeze(-1).expand_as(found)
        return self.leave(torch.tanh(found.masked_scatter(places, self.rows(images))).sum(1))


def test_images_among_words(tmp_path):
    torch.manual_seed(1)
    words = torch.randint(0, IMAGE, (BATCH, 6))
    for line in words:
        line[torch.randperm(6)[:2]] = IMAGE
    net, inputs = Images().train(), {"words": words, "images": torch.randn(BATCH, 2, 6)}
    torch.onnx.export(net, tuple(inputs.values()), str(tmp_path / "images.onnx"), opset_version=17,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=list(inputs),
                      output_names=["scores"], dynamic_axes={name: {0: "batch"} for name in inputs})
    assert "NonZero" in [node.op_type for node in onnx.load(tmp_path / "images.onnx").graph.node]
    check_step(net, tmp_path / "images.onnx", inputs, tmp_path)
