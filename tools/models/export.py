"""Writes a PyTorch network as an ONNX training graph: the one call that all scripts here share.

What matters for pdc: the network in training mode, constants left alone (folding would merge
BatchNormalization into convolutions), and a first dimension by name so that pdc may choose the size
of a microbatch.

A network of several sizes is a module with `configure(parser)`, which adds them to a command line,
`build(options)`, which makes the network, `examples(options, count)`, which draws its inputs, and
`OUTPUTS`. Where the loss is not in the network, the examples hold `labels` too.
"""
import argparse
import contextlib
import unittest.mock

import torch


def export(network, input_shape, path, opset=17):
    """`input_shape` is that of one sample; values are called input and output."""
    export_inputs(network, {"input": torch.randn(2, *input_shape)}, {"output": True}, path, opset)


def export_inputs(network, examples, outputs, path, opset=17, with_weights=True):
    """`examples` holds a tensor of two samples per input name; `outputs` says of each output whether
    its first dimension counts samples."""
    network.train()
    batched = [*examples, *(name for name, counts in outputs.items() if counts)]
    torch.onnx.export(
        network,
        tuple(examples.values()),
        str(path),
        export_params=with_weights,
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
        opset_version=opset,
        input_names=list(examples),
        output_names=list(outputs),
        dynamic_axes={name: {0: "batch"} for name in batched},
    )


@contextlib.contextmanager
def weights_of_one_number():
    """Layers made in here have weights that take the memory of one number, whatever their shape, and are exported
    without the last inference of shapes, which gives them memory, and without gradients, for which tracing would keep
    all that layers compute."""
    empty = torch.empty

    def without_memory(*shape, **options):
        return empty(*shape, **{**options, "device": "meta"})

    with torch.no_grad(), unittest.mock.patch.object(torch, "empty", without_memory), \
            unittest.mock.patch.object(torch._C, "_jit_pass_onnx_graph_shape_type_inference", lambda *_: None):
        yield


def give_numbers(network):
    """Each weight without memory becomes one repeated number: 1 for the scale of a normalisation, 0 for a bias."""
    for layer in network.modules():
        for name, weight in list(layer.named_parameters(recurse=False)):
            if weight.is_meta:
                number = 0.0 if "bias" in name else 1.0 if weight.dim() == 1 else 0.02
                filled = torch.nn.Parameter(torch.tensor(number).expand(weight.shape))
                filled.clone = lambda filled=filled, **_: filled  # tracing clones all weights, and would give them memory
                setattr(layer, name, filled)


def fill_weights(network, inputs, path):
    """Of what the file at `path` names but does not hold: weights become ConstantOfShape, buffers are stored."""
    import onnx  # not there where these networks are only trained with PyTorch
    import onnx.numpy_helper
    model = onnx.load(path)
    tensors = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    fills = []
    for value in [value for value in model.graph.input if value.name not in inputs]:
        model.graph.input.remove(value)
        tensor = tensors[value.name].detach()
        if any(tensor.stride()) or tensor.numel() == 1:
            model.graph.initializer.append(onnx.numpy_helper.from_array(tensor.numpy(), value.name))
            continue
        shape = torch.tensor(tensor.shape, dtype=torch.int64).numpy()
        number = tensor.reshape(-1)[:1].numpy()
        model.graph.initializer.append(onnx.numpy_helper.from_array(shape, value.name + ".shape"))
        fills.append(onnx.helper.make_node("ConstantOfShape", [value.name + ".shape"], [value.name], value.name + "/fill",
                                           value=onnx.numpy_helper.from_array(number)))
    nodes = [*fills, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, path)


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


def options_of(module, words=None):
    """What the words of a command line say to a module with `configure`."""
    parser = arguments(module.__doc__)
    parser.add_argument("--without-weights", action="store_true",
                        help="each weight is one repeated number (ConstantOfShape): a small file of any network")
    module.configure(parser)
    return parser.parse_args(words)


def add_sizes(parser, **sizes):
    """An option of a command line for each, with this default."""
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=type(value), default=value, help=f"(default {value})")


def draw_tokens(count, length, vocabulary):
    """Tokens, and for each the one that comes next."""
    tokens = torch.randint(0, vocabulary, (count, length + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def draw_translations(options, count):
    """The `examples` of a network that translates."""
    source = torch.randint(0, options.vocabulary, (count, options.sequence))
    target, labels = draw_tokens(count, options.sequence, options.vocabulary)
    return {"source": source, "target": target, "labels": labels}


def main_of(module):
    """The command line of a module with `configure`, `build`, `examples` and `OUTPUTS`."""
    options = options_of(module)
    torch.manual_seed(options.seed)
    with weights_of_one_number() if options.without_weights else contextlib.nullcontext():
        network = module.build(options)
        if options.without_weights:
            give_numbers(network)
        examples = module.examples(options, 2)
        if "loss" not in module.OUTPUTS:
            del examples["labels"]
        export_inputs(network, examples, module.OUTPUTS, options.path, options.opset, not options.without_weights)
    if options.without_weights:
        fill_weights(network, examples, options.path)
