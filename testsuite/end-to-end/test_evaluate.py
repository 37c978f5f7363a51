"""Evaluation uses running statistics, no dropout, and counts each sample of a padded last batch once."""

import re

import numpy
import pytest
import torch

import pipeline


@pytest.mark.parametrize("stages,transport", [(1, "local"), (2, "local"), (3, "mpi")])
def test_matches_pytorch(stages, transport, models, tmp_path):
    project = pipeline.compile_model(models("fashion"), tmp_path / "project", "--minibatch", 16, "--microbatches", 2,
                                     "--stages", "-".join(["1"] * stages), "--optimizer", "sgd,lr=0.05", workers=stages)
    images, labels = pipeline.draw_images(tmp_path, 64, (1, 28, 28), 10)
    test_images, test_labels = pipeline.draw_images(tmp_path / "test", 37, (1, 28, 28), 10, seed=5)
    run = pipeline.train(project, tmp_path / "run", "--eval-data", f"input={test_images}", "--eval-data",
                         f"labels={test_labels}", "--metric", "accuracy", transport=transport,
                         data=[f"input={images}", f"labels={labels}"], steps=4)
    evaluation = [record for record in run.records if "evaluation_loss" in record][-1]

    import fashion
    net = fashion.Fashion().eval()
    weights = run.weights()
    state = {name: torch.from_numpy(weights[name].copy()) for name in net.state_dict() if name in weights}
    missing = net.load_state_dict(state, strict=False).missing_keys
    assert all(name.endswith("num_batches_tracked") for name in missing)
    with torch.no_grad():
        logits = net(torch.from_numpy(numpy.load(test_images)))
    expected = torch.from_numpy(numpy.load(test_labels))
    accuracy = (logits.argmax(1) == expected).double().mean().item()
    loss = torch.nn.functional.cross_entropy(logits, expected).item()
    assert evaluation["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert evaluation["evaluation_loss"] == pytest.approx(loss, rel=1e-4)
    assert re.search(r"accuracy", run.output)
