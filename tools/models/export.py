"""Writes a PyTorch network as an ONNX training graph: the one call that all scripts here share.

What matters for pdc: the network in training mode, constants left alone (folding would merge
BatchNormalization into convolutions), and a first dimension by name so that pdc may choose the size
of a microbatch.
"""
import argparse

import torch


def export(network, input_shape, path, opset=17):
    """`input_shape` is that of one sample; values are called input and output."""
    export_inputs(network, {"input": torch.randn(2, *input_shape)}, {"output": True}, path, opset)


def export_inputs(network, examples, outputs, path, opset=17):
    """`examples` holds a tensor of two samples per input name; `outputs` says of each output whether
    its first dimension counts samples."""
    network.train()
    batched = [*examples, *(name for name, counts in outputs.items() if counts)]
    torch.onnx.export(
        network,
        tuple(examples.values()),
        path,
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
        opset_version=opset,
        input_names=list(examples),
        output_names=list(outputs),
        dynamic_axes={name: {0: "batch"} for name in batched},
    )


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("path", help="the ONNX file to write")
    parser.add_argument("--opset", type=int, default=17, help="9 to 17 (default 17)")
    parser.add_argument("--seed", type=int, default=1, help="of the initial weights (default 1)")
    return parser


def main(build, input_shape, description):
    """The command line of a script whose network has no options of its own."""
    options = arguments(description).parse_args()
    torch.manual_seed(options.seed)
    export(build(), input_shape, options.path, options.opset)
