"""The choice of attention: what is refused before anything compiles, and that kernels agree."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from configs import toys_ijepa
from socialjepa_jax import config as config_lib
from socialjepa_jax import program, sharding
from socialjepa_jax.agents import Trainer
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.models import attention
from socialjepa_jax.models.vit import ViTConfig, vits
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.optim import AdamW
from socialjepa_jax.validate import InputError


def test_a_cpu_takes_matrix_products_and_refuses_kernels():
    assert attention.choose("auto", 197, 64, "bfloat16") == "xla"
    for choice in ("cudnn", "pallas"):
        with pytest.raises(InputError, match=f"attention='{choice}' needs a GPU, here is a cpu"):
            attention.choose(choice, 197, 64, "bfloat16")


@pytest.mark.parametrize(
    ("choice", "head_dim", "dtype", "message"),
    [
        ("cudnn", 64, "float32", "needs dtype='bfloat16', not 'float32'"),
        ("cudnn", 20, "bfloat16", "a multiple of 8 from 16 to 128 features per head, not 20"),
        ("pallas", 256, "bfloat16", "not 256"),
        ("flash", 64, "bfloat16", "attention='flash' must be one of 'auto', 'xla'"),
    ],
)
def test_what_a_kernel_cannot_do_is_refused(choice, head_dim, dtype, message, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    attention.check("cudnn", 64, "bfloat16")
    with pytest.raises(InputError, match=re.escape(message)):
        attention.check(choice, head_dim, dtype)


def test_a_choice_the_device_lacks_is_refused_before_anything_is_built():
    config = config_lib.from_config_dict(toys_ijepa.get_config())
    vit = dataclasses.replace(config.objective.vit, attention="cudnn")
    objective = dataclasses.replace(config.objective, vit=vit)
    with pytest.raises(InputError, match="attention='cudnn' needs a GPU"):
        program.make_trainer(dataclasses.replace(config, objective=objective))


def test_kernels_are_refused_on_several_devices(monkeypatch):
    """Their types do not say over which devices they vary, and gradients would be wrong."""
    objective = IJepa(vit=dataclasses.replace(ViTConfig(), depth=1, attention="pallas"))
    mesh = sharding.make_mesh(1, 8, jax.devices())
    with pytest.raises(InputError, match="attention='pallas' runs on one device, here are 8"):
        Trainer(objective, AdamW(), Augment(), 10, 8, 1, mesh, "map")


def test_auto_takes_the_measured_choice_for_the_length(monkeypatch):
    table = {jax.devices()[0].device_kind: ((40, "xla"), (200, "cudnn"))}
    monkeypatch.setattr(attention, "FASTEST", table)
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    lengths = (37, 79, 197, 577)
    chosen = [attention.choose("auto", n, 64, "bfloat16") for n in lengths]
    assert chosen == ["xla", "cudnn", "cudnn", "xla"]
    for head_dim, dtype in ((20, "bfloat16"), (256, "bfloat16"), (64, "float32")):
        assert attention.choose("auto", 79, head_dim, dtype) == "xla"  # what kernels cannot do
    assert attention.choose("auto", 197, 64, "float32") == "xla"
    monkeypatch.setattr(jax, "device_count", lambda: 2)
    assert attention.choose("auto", 197, 64, "bfloat16") == "xla"


def test_the_encoders_of_an_objective_are_found():
    small = dataclasses.replace(ViTConfig(), depth=1)
    assert list(vits(IJepa(vit=small))) == list(vits(LeJepa(encoder=small))) == [small]


@pytest.mark.parametrize("tokens", [37, 79])
def test_the_pallas_kernel_is_attention(tokens):
    """Interpreted, so that its program is checked without a GPU."""
    q, k, v = (
        jax.random.normal(key, (1, tokens, 2, 16)) for key in jax.random.split(jax.random.key(0), 3)
    )
    out = attention.kernel("pallas", q, k, v, interpret=True)
    scores = np.einsum("bthk,bshk->bhts", np.float64(q), np.float64(k)) / 4
    expected = np.einsum("bhts,bshk->bthk", scipy.special.softmax(scores, axis=-1), np.float64(v))
    np.testing.assert_allclose(out, expected, atol=2e-5)
    assert jnp.isfinite(out).all()
