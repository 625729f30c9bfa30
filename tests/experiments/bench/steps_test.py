"""Training steps that benches time."""

import numpy as np
import pytest

from experiments.bench import steps
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.sharding import Reduce


def test_results_of_others_are_waited_for_once_a_window(monkeypatch):
    monkeypatch.setattr(steps.jax, "default_backend", lambda: "gpu")
    calls, waits = [], []

    def advance():
        calls.append(1)
        return steps._Awaited(lambda: waits.append(len(calls)))

    steps.seconds(advance, steps.Effort(calls=4, windows=2))
    assert waits == [2, 2, 6, 10]  # both results of warming up, then the last of each window


def test_the_constant_batch_is_taken_as_it_is():
    data = steps.ConstantBatch(*np.zeros((4, 2)))
    batch = data.batch(None, None, None)
    assert batch["image"] is data.images and batch["index"] is data.index


@pytest.mark.nightly
def test_masking_everything_is_the_same_loss():
    """Otherwise the ratio of the times would mean nothing."""
    import jax

    vit = ViTConfig(image_size=24, patch_size=4, channels=1, width=16, depth=2, heads=2)
    objectives = [kind(vit=vit, predictor="mlp_patch") for kind in (IJepa, steps.MaskEverything)]
    params, aux = objectives[0].init(jax.random.key(0))
    batch = {
        "image": jax.random.normal(jax.random.key(1), (3, 24, 24, 1)),
        "index": jax.numpy.arange(3),
    }
    losses = [
        float(o.loss(params, aux, batch, jax.random.key(2), {}, Reduce())[0]) for o in objectives
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
