"""The forms in which a training graph comes give the training that the command line gives a forward graph."""

import json
import re

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import ort_artifacts
import pipeline

TRAINING = "ai.onnx.preview.training"


def add_training_info(model, loss, parameters, nodes, states, updates):
    """training_info of one Gradient, `nodes` that read its outputs NAME_gradient, and their states."""
    values = {"rate": numpy.float32(0.125), "count": numpy.int64(0), "one": numpy.int64(1), **states}
    gradient = helper.make_node("Gradient", parameters, [f"{name}_gradient" for name in parameters], domain=TRAINING,
                                xs=parameters, y=loss.output[0])
    count = helper.make_node("Add", ["count", "one"], ["count_new"])
    outputs = [helper.make_empty_tensor_value_info(name) for name in ["count_new", *updates.values()]]
    batch = model.graph.input[0].type.tensor_type.shape.dim[0]
    labels = helper.make_tensor_value_info("labels", TensorProto.INT64, [batch.dim_param or batch.dim_value])
    tensors = [numpy_helper.from_array(numpy.asarray(value), name) for name, value in values.items()]
    algorithm = helper.make_graph([loss, gradient, *nodes, count], "training", [labels], outputs, tensors)
    info = helper.make_training_info(algorithm, [(variable, value) for variable, value in updates.items()] + [("count", "count_new")], None, None)
    model.training_info.append(info)
    model.opset_import.append(helper.make_opsetid(TRAINING, 1))
    return model


def momentum(names, **attributes):
    """One Momentum node for all weights, and the bindings of what it makes."""
    node = helper.make_node("Momentum", ["rate", "count", *names, *(f"{name}_gradient" for name in names), *(f"{name}_v" for name in names)],
                            [f"{name}_new" for name in names] + [f"{name}_v_new" for name in names], domain=TRAINING,
                            **attributes)
    return node, {**{name: f"{name}_new" for name in names}, **{f"{name}_v": f"{name}_v_new" for name in names}}


def train_as_options_say(tmp_path, model, options):
    """A model that says itself how it is trained, bit for bit as tiny.onnx with options; returns losses and weights."""
    images, labels = pipeline.draw_images(tmp_path, 48, (784,), 10)
    trained = {}
    for name, file, given in (("file", model, []), ("options", pipeline.MODELS / "tiny.onnx", options)):
        project = pipeline.compile_model(file, tmp_path / name, *given, "--exact", "--minibatch", 16, "--microbatches", 2,
                                         "--stages", "1-1", workers=2)
        result = pipeline.train(project, tmp_path / f"{name}-run", data=[f"input={images}", f"labels={labels}"], steps=3)
        pipeline.expect_same_bits(result, trained, "tiny")
    return trained["tiny"]


def refuse_settings(model, says):
    """What the file says of the optimizer is refused where it stands."""
    result = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 2, "--device", "cpu", "--minibatch", 16, check=False)
    assert result.returncode == 1
    assert f"error: {says}, expected at least 0 and below 1; give --optimizer, as in adamw,lr=0.001\n" in result.stderr


def test_training_info_is_the_command_line(tmp_path):
    forward = onnx.load(pipeline.MODELS / "tiny.onnx")
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in forward.graph.initializer}
    node, updates = momentum(list(weights), alpha=0.9, beta=0.75, norm_coefficient=0.01, mode="standard")
    loss = helper.make_node("SoftmaxCrossEntropyLoss", ["output", "labels"], ["loss"])
    states = {f"{name}_v": numpy.zeros_like(value) for name, value in weights.items()}
    onnx.save(add_training_info(forward, loss, list(weights), [node], states, updates), tmp_path / "tiny.onnx")
    options = ["--optimizer", "momentum,lr=0.125,momentum=0.9,dampening=0.25,weight_decay=0.01"]
    train_as_options_say(tmp_path, tmp_path / "tiny.onnx", options)
    next(attribute for attribute in node.attribute if attribute.name == "alpha").f = 2
    next(other for other in forward.training_info[0].algorithm.node if other.op_type == "Momentum").CopyFrom(node)
    onnx.save(forward, tmp_path / "tiny.onnx")
    refuse_settings(tmp_path / "tiny.onnx", "tiny.onnx: training_info: setting 'momentum' of optimizer 'momentum' is 2")


def by_numpy(rule, steps, images, labels, weights):
    """Softmax regression, with the update of each weight by `rule(count, x, g, states)`."""
    states = {name: [numpy.zeros_like(value)] * 2 for name, value in weights.items()}
    for count in range(steps):
        x, y = images[4 * count:4 * count + 4], labels[4 * count:4 * count + 4]
        scores = x @ weights["w"] + weights["b"]
        chances = numpy.exp(scores - scores.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        error = (chances - numpy.eye(3)[y]) / 4
        gradients = {"w": x.T @ error, "b": error.sum(0)}
        for name, gradient in gradients.items():
            weights[name], states[name] = rule(count, weights[name], gradient, states[name])
    return weights


def adam(t, x, g, states):
    """The pseudo code of ONNX's Adam, alpha 0.8, beta 0.9, norm_coefficient_post 0.1."""
    v, h = 0.8 * states[0] + 0.2 * g, 0.9 * states[1] + 0.1 * g * g
    rate = 0.125 * numpy.sqrt(1 - 0.9 ** t) / (1 - 0.8 ** t) if t > 0 else 0.125
    return 0.9 * (x - rate * v / (numpy.sqrt(h) + 1e-2)), [v, h]


def adagrad(t, x, g, states):
    h = states[0] + g * g
    return x - 0.125 / (1 + t * 0.5) * g / (numpy.sqrt(h) + 1e-2), [h, h]


def nesterov(t, x, g, states):
    v = 0.9 * states[0] + (0.5 if t > 0 else 1) * g
    return x - 0.125 * (g + 0.9 * v), [v, v]


RULES = {"Adam": (adam, 2, {"alpha": 0.8, "beta": 0.9, "epsilon": 1e-2, "norm_coefficient_post": 0.1}),
         "Adagrad": (adagrad, 1, {"epsilon": 1e-2, "decay_factor": 0.5}),
         "Momentum": (nesterov, 1, {"alpha": 0.9, "beta": 0.5, "norm_coefficient": 0.0, "mode": "nesterov"})}


@pytest.mark.parametrize("op", RULES)
def test_updates_by_the_letter(op, tmp_path):
    """ONNX's own formulas in numpy; the weights come from the initialization graph."""
    rule, count, attributes = RULES[op]
    generator = numpy.random.default_rng(1)
    weights = {"w": generator.standard_normal((5, 3)), "b": generator.standard_normal(3)}
    zeros = {name: numpy.zeros(value.shape, numpy.float32) for name, value in weights.items()}
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["scores"])], "linear",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 5])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [4, 3])],
                              [numpy_helper.from_array(value, name) for name, value in zeros.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    nodes, states, updates = [], {}, {}
    for name in weights:
        kept = [f"{name}_state{i}" for i in range(count)]
        made = [f"{name}_new", *(f"{state}_new" for state in kept)]
        nodes.append(helper.make_node(op, ["rate", "count", name, f"{name}_gradient", *kept], made, domain=TRAINING, **attributes))
        states.update({state: zeros[name] for state in kept})
        updates.update(zip([name, *kept], made))
    loss = helper.make_node("SoftmaxCrossEntropyLoss", ["scores", "labels"], ["loss"])
    add_training_info(model, loss, list(weights), nodes, states, updates)
    first = [helper.make_node("Constant", [], [f"{name}_first"], value=numpy_helper.from_array(value.astype(numpy.float32)))
             for name, value in weights.items()]
    outputs = [helper.make_empty_tensor_value_info(node.output[0]) for node in first]
    model.training_info[0].initialization.CopyFrom(helper.make_graph(first, "first", [], outputs))
    for name in weights:
        model.training_info[0].initialization_binding.add(key=name, value=f"{name}_first")
    onnx.save(model, tmp_path / "linear.onnx")
    images, labels = generator.standard_normal((12, 5)).astype(numpy.float32), generator.integers(0, 3, 12)
    numpy.save(tmp_path / "x.npy", images)
    numpy.save(tmp_path / "labels.npy", labels)
    project = pipeline.compile_model(tmp_path / "linear.onnx", tmp_path / "project")
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=[f"x={tmp_path}/x.npy", f"labels={tmp_path}/labels.npy"],
                            steps=3)
    expected = by_numpy(rule, 3, images.astype(numpy.float64), labels, weights)
    for name, value in result.weights().items():
        if name in expected:
            numpy.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_gradient_within_a_loss(tmp_path):
    """Outside training_info a Gradient is a value like others: here of a loss that punishes steep places, by PyTorch."""
    generator = numpy.random.default_rng(1)
    weight, x = (generator.standard_normal(shape).astype(numpy.float32) for shape in ((5, 3), (8, 5)))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Mul", ["h", "h"], ["squares"]),
             helper.make_node("ReduceSum", ["squares"], ["y"], keepdims=0),
             helper.make_node("Gradient", ["x"], ["slope"], domain=TRAINING, xs=["x"], y="y"),
             helper.make_node("Mul", ["slope", "slope"], ["steep"]), helper.make_node("ReduceMean", ["steep"], ["loss"], keepdims=0)]
    graph = helper.make_graph(nodes, "steep", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 5])],
                              [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid(TRAINING, 1)], ir_version=8),
              tmp_path / "steep.onnx")
    numpy.save(tmp_path / "x.npy", x)
    project = pipeline.compile_model(tmp_path / "steep.onnx", tmp_path / "project", "--minibatch", 8, "--microbatches", 1,
                                     "--loss", "output:loss", "--optimizer", "sgd,lr=0.01")
    result = pipeline.train(project, tmp_path / "run", data=[f"x={tmp_path}/x.npy"], steps=1)
    w, inputs = torch.tensor(weight, requires_grad=True), torch.tensor(x, requires_grad=True)
    slope, = torch.autograd.grad(((inputs @ w) ** 2).sum(), inputs, create_graph=True)
    loss = (slope ** 2).mean()
    loss.backward()
    assert result.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    numpy.testing.assert_allclose((weight - result.weights()["w"]) / 0.01, w.grad.numpy(), rtol=1e-3, atol=1e-2)


def stages_of(project):
    """Which forward nodes of the file each stage has."""
    stages = json.loads((project / "plan.json").read_text())["stages"]
    return [{node for node in stage["nodes"] if node in ("/fc1/Gemm", "/relu1/Relu", "/fc2/Gemm")} for stage in stages]


def test_annotated_stages(tmp_path):
    """A partition by hand, written as annotations of the file and read from them."""
    by_hand = {"/fc1/Gemm": 0, "/relu1/Relu": 0, "/fc2/Gemm": 1}
    (tmp_path / "stages.json").write_text(json.dumps(by_hand))
    model, annotated = pipeline.MODELS / "tiny.onnx", tmp_path / "first" / "annotated.onnx"
    first = pipeline.compile_model(model, tmp_path / "first", "--minibatch", 8, "--microbatches", 2, "--stages",
                                   tmp_path / "stages.json", "--annotated", annotated, workers=2)
    again = pipeline.compile_model(annotated, tmp_path / "again", "--minibatch", 8, "--microbatches", 2, workers=2)
    assert stages_of(first) == stages_of(again) == [{"/fc1/Gemm", "/relu1/Relu"}, {"/fc2/Gemm"}]
    onnx.checker.check_graph(onnx.load(annotated).graph)
    result = pipeline.run(pipeline.BIN / "pdc", annotated, "--gpus", 3, "--device", "cpu", "--minibatch", 8, check=False)
    assert result.returncode == 1 and "annotated.onnx: its pipeline_stage annotations: stages: 2 stages are named, expected one for each of 3 workers" in result.stderr
    # Two configurations of as many devices: the second is pdc's own beside a renamed one.
    annotated.write_bytes(annotated.read_bytes().replace(b"\x0a\x03pdc", b"\x0a\x03two"))
    pipeline.compile_model(annotated, tmp_path / "both", "--minibatch", 8, "--microbatches", 2, "--annotated", annotated, workers=2)
    result = pipeline.run(pipeline.BIN / "pdc", annotated, "--gpus", 2, "--device", "cpu", "--minibatch", 8, check=False)
    assert result.returncode == 1 and "are both of 2 devices; say which stages are wanted with --stages" in result.stderr


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 2)
        self.last = torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.last(self.layers(x).mean(1))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_annotated_attention(tmp_path):
    """What has become one node, and that one other nodes, has its stage in the file under a name that the file has."""
    model = tmp_path / "encoder.onnx"
    torch.onnx.export(Encoder().train(), torch.randn(2, 6, 16), model, training=torch.onnx.TrainingMode.TRAINING, opset_version=14,
                      do_constant_folding=False, input_names=["x"], output_names=["y"])
    options = ["--loss", "mse:y", "--minibatch", 4, "--microbatches", 2]
    whole = pipeline.compile_model(model, tmp_path / "whole", *options)
    nodes = pipeline.nodes_of(whole)
    attentions = re.findall(r'pdc.node "SoftmaxAttention" "([^"]*)"', pipeline.run(
        pipeline.BIN / "pdc", model, *options, "--gpus", 1, "--device", "cpu", "--stop-after", "graph").stdout.split("@evaluate")[0])
    assert len(attentions) == 2 and set(attentions) <= {node.name for node in onnx.load(model).graph.node}
    for number, attention in enumerate(attentions):
        for first in (nodes.index(attention), nodes.index(attention) + 1):
            folder = tmp_path / f"{number}-{first}"
            cut, annotated = pipeline.write_cut(nodes, first, tmp_path / "cut.json"), tmp_path / "annotated.onnx"
            by_hand = pipeline.compile_model(model, folder / "first", *options, "--stages", cut, "--annotated", annotated, workers=2)
            again = pipeline.compile_model(annotated, folder / "again", *options, workers=2)
            stages = [json.loads((project / "plan.json").read_text())["stages"] for project in (by_hand, again)]
            where = [[attention in stage["nodes"] for stage in plan] for plan in stages]
            assert where[0] == where[1] == [first > nodes.index(attention), first <= nodes.index(attention)]


def test_onnx_runtime_artifacts(tmp_path):
    """Gradients in the graph, weights in a checkpoint, the optimizer in a model of its own; one weight is frozen."""
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(pipeline.MODELS / "tiny.onnx").graph.initializer}
    trained = [name for name in weights if name != "fc1.bias"]
    folder = tmp_path / "artifacts"
    folder.mkdir()
    onnx.save(ort_artifacts.training_model(weights, trained), folder / "training_model.onnx")
    onnx.save(ort_artifacts.optimizer_model(alpha=0.8, beta=0.9, epsilon=1e-3, weight_decay=0.02, adam_mode=1, correct_bias=1),
              folder / "optimizer_model.onnx")
    (folder / "checkpoint").write_bytes(ort_artifacts.checkpoint({name: weights[name] for name in trained}, {"fc1.bias": weights["fc1.bias"]}))
    options = ["--optimizer", "adamw,lr=0.001,weight_decay=0.02,beta1=0.8,beta2=0.9,epsilon=1e-3,scaled_epsilon=1,decay_last=1",
               "--freeze", "fc1.bias"]
    _, after = train_as_options_say(tmp_path, folder / "training_model.onnx", options)
    assert not numpy.array_equal(after["fc2.bias"], weights["fc2.bias"])
    onnx.save(ort_artifacts.optimizer_model(alpha=2.0), folder / "optimizer_model.onnx")
    refuse_settings(folder / "training_model.onnx",
                    f"training_model.onnx: {folder}/optimizer_model.onnx: setting 'beta1' of optimizer 'adamw' is 2")
    (folder / "checkpoint").unlink()
    result = pipeline.run(pipeline.BIN / "pdc", folder / "training_model.onnx", "--gpus", 2, "--device", "cpu", "--minibatch", 16, check=False)
    assert result.returncode == 1 and "give --checkpoint FILE" in result.stderr


def test_onnx_runtime_checkpoint_of_later_steps(tmp_path):
    """PyTorch trains two steps, pdc goes on from its weights and AdamW's states, and both make the next two."""
    weights = {tensor.name: numpy_helper.to_array(tensor).copy() for tensor in onnx.load(pipeline.MODELS / "tiny.onnx").graph.initializer}
    tensors = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    images, labels = pipeline.draw_images(tmp_path, 16, (784,), 10)
    x, y = torch.tensor(numpy.load(images)), torch.tensor(numpy.load(labels))
    optimizer = torch.optim.AdamW(tensors.values(), lr=0.01, weight_decay=0.1)

    def step(i):
        hidden = torch.relu(x[4 * i:4 * i + 4] @ tensors["fc1.weight"].T + tensors["fc1.bias"])
        loss = torch.nn.functional.cross_entropy(hidden @ tensors["fc2.weight"].T + tensors["fc2.bias"], y[4 * i:4 * i + 4])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    step(0), step(1)
    states = {name: [optimizer.state[tensor][key].numpy() for key in ("exp_avg", "exp_avg_sq")] for name, tensor in tensors.items()}
    (tmp_path / "checkpoint").write_bytes(ort_artifacts.checkpoint({name: tensor.detach().numpy() for name, tensor in tensors.items()},
                                                                   groups=[(2, 0.01, states)]))
    onnx.save(ort_artifacts.training_model(weights, list(weights)), tmp_path / "training_model.onnx")
    onnx.save(ort_artifacts.optimizer_model(alpha=0.9, beta=0.999, epsilon=1e-8, weight_decay=0.1, adam_mode=0, correct_bias=1),
              tmp_path / "optimizer_model.onnx")
    for path in (images, labels):
        numpy.save(path, numpy.load(path)[8:])
    project = pipeline.compile_model(tmp_path / "training_model.onnx", tmp_path / "project", "--minibatch", 4, "--microbatches", 2,
                                     "--stages", "1-1", workers=2)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=[f"input={images}", f"labels={labels}"], steps=2)
    assert result.losses == pytest.approx([step(2), step(3)], rel=1e-5)
    for name, tensor in tensors.items():
        numpy.testing.assert_allclose(result.weights()[name], tensor.detach().numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


class TokenScores(torch.nn.Module):
    """Positions are counted from a mask, and the scores of all tokens are rows, as many language models have them."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(20, 8), torch.nn.Embedding(8, 8)
        self.head = torch.nn.Linear(8, 20)

    def forward(self, ids):
        present = (ids != 3).to(torch.int64)
        x = self.tokens(ids) + self.positions(torch.cumsum(present, 1) * present)
        return torch.tanh(self.head(x.view(-1, 8))) * 4


def test_scores_of_tokens_as_rows(tmp_path):
    torch.manual_seed(1)
    network = TokenScores()
    ids, labels = torch.randint(0, 20, (12, 6)), torch.randint(0, 20, (12, 6))
    torch.onnx.export(network, (ids[:2],), str(tmp_path / "scores.onnx"), training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, opset_version=15, input_names=["ids"], output_names=["scores"],
                      dynamic_axes={"ids": {0: "batch"}, "scores": {0: "rows"}})
    numpy.save(tmp_path / "ids.npy", ids.numpy())
    numpy.save(tmp_path / "labels.npy", labels.numpy())
    project = pipeline.compile_model(tmp_path / "scores.onnx", tmp_path / "project", "--minibatch", 4, "--microbatches", 2,
                                     "--optimizer", "sgd,lr=0.5", "--stages", "1-1", workers=2)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", steps=3,
                            data=[f"ids={tmp_path}/ids.npy", f"labels={tmp_path}/labels.npy"])
    optimizer, losses = torch.optim.SGD(network.parameters(), lr=0.5), []
    for step in range(3):
        rows = slice(4 * step, 4 * step + 4)
        loss = torch.nn.functional.cross_entropy(network(ids[rows]), labels[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert result.losses == pytest.approx(losses, rel=1e-5)
    for name, weight in network.named_parameters():
        numpy.testing.assert_allclose(result.weights()[name], weight.detach().numpy(), rtol=1e-4, atol=1e-5, err_msg=name)
