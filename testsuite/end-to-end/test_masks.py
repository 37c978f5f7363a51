"""Masks that a file holds as tables: attention knows what they hide, and nobody trains them."""

import re

import torch

import long_masks
import masks
import pipeline
from test_pytorch import check_gradients

SHAPE = (6, 16)


def test_gradients_are_pytorchs(models, tmp_path):
    torch.manual_seed(1)
    check_gradients(masks.Masked(), models("masks"), SHAPE, 6, False, tmp_path, 2)


def test_attention_is_causal(models):
    """It reads no mask, and so none is in memory."""
    graph = pipeline.run(pipeline.BIN / "pdc", models("masks"), "--gpus", 1, "--minibatch", 6, "--stop-after", "graph").stdout
    assert "@layers.0.bias" not in graph and "@layers.1.bias" not in graph
    attentions = re.findall(r'pdc.node "SoftmaxAttention" "[^"]*"\(([^)]*)\) {([^}]*)}', graph.split("@evaluate")[0])
    assert [(operands.count("%"), "is_causal = 1" in attributes) for operands, attributes in attentions] == [(1, True)] * 2


def test_gradients_of_long_masks_are_pytorchs(models, tmp_path):
    torch.manual_seed(1)
    check_gradients(long_masks.LongMasks(), models("long_masks"), (long_masks.ROWS, 4), 2, False, tmp_path, 1)


def test_long_masks_are_known(models):
    """Whatever the number of samples; no mask is made for each of them, and that of both windows is one."""
    graph = pipeline.run(pipeline.BIN / "pdc", models("long_masks"), "--gpus", 1, "--minibatch", 5, "--stop-after", "graph").stdout
    attentions = re.findall(r'pdc.node "SoftmaxAttention" "[^"]*"\(([^)]*)\) {([^}]*)}', graph.split("@evaluate")[0])
    assert [(operands.count("%"), "is_causal = 1" in attributes) for operands, attributes in attentions] == [(1, True), (4, True), (4, True)]
    square = f"{long_masks.ROWS}x{long_masks.ROWS}"
    assert f"tensor<5x1x{square}x" not in graph and f"tensor<{square}xf32>" in graph
    assert len(re.findall(rf"pdc.memory .* tensor<(?:1x1x)?{square}xi1>", graph)) == 1
