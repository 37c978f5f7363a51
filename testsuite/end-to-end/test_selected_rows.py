"""Rows that data select, as in `scores[labels != -100]`, whose number only data tell, against PyTorch."""

import onnx
import pytest
import torch
from torch.nn import functional

import pipeline
from test_refusals import refused

SAMPLES, LENGTH, WIDTH, WORDS, RATE = 8, 6, 16, 20, 64.0
IGNORED = -100


class Network(torch.nn.Module):
    """A loss of what `loss` makes of hidden rows and words that are not ignored."""

    def __init__(self, loss):
        super().__init__()
        self.words, self.hidden, self.scores = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WORDS)
        self.norm, self.loss = torch.nn.LayerNorm(WIDTH), loss

    def forward(self, words, labels):
        return self.loss(self, torch.tanh(self.hidden(self.words(words))), labels, labels != IGNORED)


def gathered(net, rows, labels, mask):
    likelihoods = functional.log_softmax(net.scores(rows)[mask], -1)
    return -likelihoods.gather(1, labels[mask].unsqueeze(1)).squeeze(1).mean()


def focal(net, rows, labels, mask):
    entropies = functional.cross_entropy(net.scores(rows[mask]), labels[mask], reduction="none")
    return ((1 - torch.exp(-entropies)) ** 2 * entropies).sum() / entropies.shape[0]


def places(net, rows, labels, mask):
    chosen = mask.reshape(-1).nonzero().squeeze(1)
    return functional.cross_entropy(net.scores(rows.reshape(-1, WIDTH)[chosen]), labels.reshape(-1)[chosen])


def pairs_of_places(net, rows, labels, mask):
    samples, positions = torch.where(mask)
    return functional.cross_entropy(net.scores(rows[samples, positions]), labels[samples, positions])


def depths(net, rows, labels, mask):
    """Scale-invariant errors: the logarithms of what is not selected are not finite."""
    truth = (labels - IGNORED).float() / 100
    errors = torch.log(functional.softplus(rows.mean(-1))[mask]) - torch.log(truth[mask])
    return torch.sqrt((errors ** 2).mean() - 0.85 * errors.mean() ** 2)


def attended(net, rows, labels, mask):
    chosen = rows[mask].view(-1, 4, 4)
    within = torch.softmax(chosen @ chosen.transpose(1, 2), -1) @ chosen
    shares = torch.softmax(within.sum((1, 2)), 0)
    return (shares.unsqueeze(1) * net.norm(within.reshape(-1, WIDTH))).sum(0).pow(2).sum()


def statistics(net, rows, labels, mask):
    chosen = torch.cat([rows[mask], net.words(labels[mask])], 1)
    return chosen.std() + torch.logsumexp(chosen, 0).mean() + chosen.amax(0).mean() + (chosen ** 2).sum() / chosen.numel()


def products(net, rows, labels, mask):
    chosen, others = rows[mask], net.words(labels[mask])
    return (chosen.T @ others).abs().mean() + torch.exp(net.hidden.bias @ chosen.T).mean() + functional.cosine_similarity(chosen, others).mean()


def counted_words(net, rows, labels, mask):
    """Rows are added up by word."""
    sums = torch.zeros(WORDS, WIDTH).to(rows.dtype).scatter_add(0, labels[mask].unsqueeze(1).expand(-1, WIDTH), rows[mask])
    return sums.pow(2).mean()


def joined(net, rows, labels, mask):
    """Rows behind which others stand, and as many ones; rows before and between others."""
    targets = torch.cat([labels[mask], torch.arange(WORDS)])
    zeros, ones = torch.zeros(WORDS, WIDTH).to(rows), torch.ones(labels[mask].shape[0] + WORDS).to(rows)
    sums = zeros.scatter_add(0, targets.unsqueeze(1).expand(-1, WIDTH), torch.cat([rows[mask], net.words.weight]))
    counts = zeros[:, 0].scatter_add(0, targets, ones)
    nested = torch.cat([torch.cat([rows[mask], net.words.weight]), net.hidden.weight])
    wholly = torch.cat([rows[mask], net.words.weight, net.hidden.weight]) * torch.ones(labels[mask].shape[0] + WORDS + WIDTH, 1).to(rows)
    largest = torch.cat([net.hidden.bias.unsqueeze(0), rows[mask]]).amax(0).sum()
    return (sums / counts.unsqueeze(1)).pow(2).mean() + largest + (nested * wholly).sum() / 100 + \
        torch.cat([net.words.weight, rows[mask], net.words.weight, rows[mask]]).std()


def largest(net, rows, labels, mask):
    """Of the rows of each word. The exporter writes no opset that has it: train() makes it of a sum."""
    targets = torch.cat([labels[mask], torch.arange(WORDS)]).unsqueeze(1).expand(-1, WIDTH)
    zeros, updates = torch.zeros(WORDS, WIDTH).to(rows), torch.cat([rows[mask], net.words.weight])
    if torch.onnx.is_in_onnx_export():
        return zeros.scatter_add(0, targets, updates).pow(2).mean()
    return zeros.scatter_reduce(0, targets, updates, "amax").pow(2).mean()


def take_the_largest(path):
    model = onnx.load(path)
    model.opset_import[0].version = 18
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "reduction" and node.op_type == "ScatterElements":
                attribute.s = b"max"
    onnx.save(model, path)


def written_back(net, rows, labels, mask):
    """The exporter has no mask of fewer dimensions than what is written to."""
    written = rows.clone()
    written[mask.unsqueeze(-1).expand_as(rows)] = net.norm(rows[mask]).reshape(-1)
    return (written ** 3).mean()


def of_their_shape(net, rows, labels, mask):
    """What is made as large as what is selected has as many rows."""
    chosen = rows[mask]
    shares = torch.full((chosen.shape[0], WORDS), 0.01).to(rows).scatter(1, labels[mask].unsqueeze(1), 0.8)
    noise = torch.rand_like(chosen) * 0 + 1
    return chosen.sum() / torch.ones_like(chosen).sum() / noise.mean() - (shares * functional.log_softmax(net.scores(chosen), -1)).sum(1).mean()


def spread(net, rows, labels, mask):
    return torch.masked_select(rows, mask.unsqueeze(-1)).pow(2).mean() + rows[labels > 9].sin().mean()


def hidden_classes(net, rows, labels, mask):
    return functional.cross_entropy(net.scores(rows[mask]), labels[mask])


def train(loss, folder, *options):
    torch.manual_seed(3)
    net = Network(loss).train()
    words = torch.randint(0, WORDS, (SAMPLES, LENGTH))
    labels = torch.where(torch.rand(SAMPLES, LENGTH) < 0.4, torch.randint(0, WORDS, (SAMPLES, LENGTH)), torch.tensor(IGNORED))
    # Of another number in each sample.
    labels[0] = IGNORED
    inputs = {"words": words, "labels": labels}
    torch.onnx.export(net, tuple(inputs.values()), str(folder / "net.onnx"), opset_version=16, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, input_names=list(inputs), output_names=["loss"],
                      dynamic_axes={name: {0: "batch"} for name in inputs})
    if loss is largest:
        take_the_largest(folder / "net.onnx")
    data = pipeline.save_inputs(inputs, folder / "data")
    project = pipeline.compile_model(folder / "net.onnx", folder / "project", "--minibatch", SAMPLES, "--optimizer", f"sgd,lr={RATE}",
                                     "--stages", "1-1", *options, workers=2)
    result = pipeline.train(project, folder / "run", "--order", "file", data=data, steps=1)
    net = net.double()
    expected = net(words, labels)
    expected.backward()
    assert result.losses[0] == pytest.approx(expected.item(), rel=1e-5)
    pipeline.expect_gradients(result, net, RATE)


@pytest.mark.parametrize("loss", [gathered, focal, places, pairs_of_places, depths, attended, statistics, products, counted_words, of_their_shape, joined, largest,
                                  written_back, spread],
                         ids=lambda loss: loss.__name__)
def test_losses(loss, tmp_path):
    train(loss, tmp_path, "--microbatches", 1)


def test_mean_over_a_minibatch(tmp_path):
    """Microbatches have other numbers of rows: they count in the mean as in one of all."""
    train(hidden_classes, tmp_path, "--microbatches", 4)


def each_with_each(net, rows, labels, mask):
    return (rows[mask] @ net.words(labels[mask]).T).mean()


def summed_up(net, rows, labels, mask):
    return rows[mask].cumsum(0).mean()


def first(net, rows, labels, mask):
    return rows[mask][0].sum()


def numbered(net, rows, labels, mask):
    chosen = rows[mask]
    return (chosen * torch.arange(chosen.shape[0]).unsqueeze(1)).mean()


def sliced(net, rows, labels, mask):
    chosen = rows[mask]
    return (chosen * torch.arange(500)[:chosen.shape[0]].unsqueeze(1)).mean()


def as_a_kernel(net, rows, labels, mask):
    chosen = rows[mask].unsqueeze(1)
    return functional.conv1d(chosen, chosen).pow(2).mean()


def selected_again(net, rows, labels, mask):
    chosen = rows[mask]
    return chosen[chosen[:, 0] > 0].mean()


def is_any(net, rows, labels, mask):
    return rows[mask].sum() * torch._shape_as_tensor(rows[mask])[0].bool().to(rows)


def of_so_many_rows(net, rows, labels, mask):
    return rows[mask].reshape(SAMPLES * LENGTH, -1).softmax(1).pow(2).mean()


def repeated(net, rows, labels, mask):
    return rows[mask].sum() + functional.one_hot(labels[mask].clamp(min=0), rows[mask].shape[0]).to(rows).mean()


def turned(net, rows, labels, mask):
    """Rows selected by columns are written to lines."""
    scores, seen = rows[:, :, :LENGTH], labels[:, :LENGTH] > 9
    columns, lines = seen.unsqueeze(1).expand_as(scores), seen.unsqueeze(2).expand_as(scores)
    written = scores.clone()
    written[lines] = scores[columns].sin()
    return written.sum()


def of_two_masks(net, rows, labels, mask):
    return (rows[mask] - net.words(labels[mask & (labels > -200)])).mean()


def as_many_before_them(net, rows, labels, mask):
    targets = torch.cat([torch.arange(WORDS), labels[mask]])
    return torch.zeros(WORDS).scatter_add(0, targets, torch.ones(labels[mask].shape[0] + WORDS)).pow(2).mean() * rows.mean()


@pytest.mark.parametrize("loss, node, what", [
    (each_with_each, "MatMul", "combines each with each of rows"), (summed_up, "CumSum", "brings together, or takes by their places, rows"),
    (first, "Gather", "takes some by their places of rows"), (numbered, "Range", "computes with the number of rows"),
    (sliced, "Slice", "computes with the number of rows"), (is_any, "Cast", "computes with the number of rows"),
    (as_a_kernel, "Conv", "takes as parameters rows"), (selected_again, "pdc.SelectedRows", "selects once more of rows"),
    (of_so_many_rows, "Reshape", "changes the shape of rows"), (repeated, "OneHot", "computes with the number of rows"),
    (turned, "Reshape", "changes the shape of rows"),
    (as_many_before_them, "GatherGrad", "brings together, by two masks, rows"),
    (of_two_masks, "Sub", "brings together, by two masks, rows")], ids=lambda value: getattr(value, "__name__", ""))
def test_refusals(loss, node, what, tmp_path):
    words = torch.randint(0, WORDS, (SAMPLES, LENGTH))
    torch.onnx.export(Network(loss).train(), (words, words), str(tmp_path / "net.onnx"), opset_version=16, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, input_names=["words", "labels"], output_names=["loss"],
                      dynamic_axes={name: {0: "batch"} for name in ("words", "labels")})
    refused(pipeline.BIN / "pdc", tmp_path / "net.onnx", "--gpus", 1, "--device", "cpu", "--minibatch", SAMPLES,
            says=[f"({node}) {what} of which data select some"])
