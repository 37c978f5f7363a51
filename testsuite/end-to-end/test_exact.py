"""Under --exact any number of stages, either transport and any synchronous schedule give the same bits."""

import numpy
import pytest

import pipeline

# Network, shape of a sample, samples per microbatch, steps.
NETWORKS = {"lenet5": ((1, 28, 28), 8, 6), "fashion": ((1, 28, 28), 8, 6), "resnet18": ((3, 32, 32), 4, 3)}
MICROBATCHES = 4


@pytest.fixture(scope="module")
def unsplit():
    return {}


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zb-h1", "zb-h2"])
@pytest.mark.parametrize("network", NETWORKS)
def test_same_bits(network, schedule, stages, models, unsplit, tmp_path):
    shape, size, steps = NETWORKS[network]
    project = pipeline.compile_model(
        models(network), tmp_path / "project", "--exact", "--schedule", schedule, "--minibatch", size * MICROBATCHES,
        "--microbatches", MICROBATCHES, "--optimizer", "momentum,lr=0.05,momentum=0.9,weight_decay=1e-3", workers=stages)
    images, labels = pipeline.draw_images(tmp_path, size * MICROBATCHES * 3, shape, 10)
    for transport in ("local", "mpi"):
        result = pipeline.train(project, tmp_path / transport, data=[f"input={images}", f"labels={labels}"],
                                steps=steps, transport=transport)
        assert len(result.losses) == steps
        weights = result.weights()
        losses, expected = unsplit.setdefault(network, (result.losses, weights))
        assert result.losses == losses
        assert weights.keys() == expected.keys()
        for name in expected:
            assert numpy.array_equal(weights[name], expected[name]), name
