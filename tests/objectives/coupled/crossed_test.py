"""Pairs of cameras without a teacher: a single run at weight 0, closer latents above it."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.data.protocols import PairedSource
from socialjepa_jax.errors import InputError
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.objectives.coupled import Crossed, Migration, Mutual
from socialjepa_jax.objectives.ijepa import IJepa
from tests.objectives.coupled.frames import SINGLE, STEPS, alone, hparams, source, train

CROSSED = Crossed(SINGLE)
VIT = ViTConfig(image_size=16, patch_size=4, channels=1, width=12, depth=1, heads=2)
PAIRED = PairedSource(source(0), source(1))


def apart(state):
    """Mean squared distance of both cameras' latents of the first agent."""
    params, aux = (jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), t)
                   for t in (state.params, state.aux))  # fmt: skip
    a, b = (CROSSED.encode(params, aux, source(k).frames[0][:, 0])["latent"] for k in (0, 1))
    return float(np.square(a - b).mean())


def test_without_weight_it_is_a_single_run_and_with_it_cameras_agree():
    free, _ = train(CROSSED, PAIRED, hparams(0.0))
    for of in ("params", "aux"):
        chex.assert_trees_all_close(getattr(free, of), getattr(alone(0), of), atol=1e-6, rtol=0)
    bound, told = train(CROSSED, PAIRED, hparams(10.0))
    assert apart(bound) < 0.9 * apart(free)
    assert told["coupling"].shape == (2, STEPS)


def test_is_registered_and_refuses_what_cannot_be():
    assert OBJECTIVES["crossed"] is Crossed
    with pytest.raises(InputError, match=r"weight=-1.0"):
        Crossed(SINGLE, weight=-1.0)


def test_latents_without_a_gradient_are_refused():
    averaged = IJepa(vit=VIT, latent_encoder="target")
    for make in (Crossed, Mutual, lambda o: Migration(o, teacher="runs/teacher")):
        with pytest.raises(InputError, match="latent_encoder='target' has no gradient"):
            make(averaged)
    assert Crossed(dataclasses.replace(averaged, latent_encoder="context")).weight == 1.0
