"""The choice of attention: early refusals, and agreement of the kernels."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from configs import toys_ijepa
from socialjepa_jax import build, sharding
from socialjepa_jax import config as config_lib
from socialjepa_jax.agents import Trainer
from socialjepa_jax.errors import InputError
from socialjepa_jax.models import attention
from socialjepa_jax.models.vit import ViTConfig, vits
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.objectives.mae import Mae
from socialjepa_jax.optim import AdamW


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
def test_unsupported_kernels_are_refused(choice, head_dim, dtype, message, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    attention.check("cudnn", 64, "bfloat16")
    with pytest.raises(InputError, match=re.escape(message)):
        attention.check(choice, head_dim, dtype)


def test_a_choice_the_device_lacks_is_refused_before_anything_is_built():
    config = config_lib.from_config_dict(toys_ijepa.get_config())
    vit = dataclasses.replace(config.objective.vit, attention="cudnn")
    objective = dataclasses.replace(config.objective, vit=vit)
    with pytest.raises(InputError, match="attention='cudnn' needs a GPU"):
        build.build(dataclasses.replace(config, objective=objective))


def test_kernels_are_refused_on_several_devices(monkeypatch):
    """Their result types do not name the axes they vary over, so gradients would be wrong."""
    objective = IJepa(vit=dataclasses.replace(ViTConfig(), depth=1, attention="pallas"))
    mesh = sharding.make_mesh(1, 8, jax.devices())
    with pytest.raises(InputError, match="attention='pallas' runs on one device, here are 8"):
        Trainer(objective, AdamW(), 10, 8, 1, mesh, "map")


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
    for objective in (IJepa(vit=small), LeJepa(encoder=small), Mae(vit=small)):
        assert list(vits(objective)) == [small]


@pytest.mark.parametrize("tokens", [37, 79])
def test_the_pallas_kernel_is_attention(tokens):
    """The interpreter runs the kernel without a GPU."""
    q, k, v = (
        jax.random.normal(key, (1, tokens, 2, 16)) for key in jax.random.split(jax.random.key(0), 3)
    )
    out = attention.kernel("pallas", q, k, v, interpret=True)
    scores = np.einsum("bthk,bshk->bhts", np.float64(q), np.float64(k)) / 4
    expected = np.einsum("bhts,bshk->bthk", scipy.special.softmax(scores, axis=-1), np.float64(v))
    np.testing.assert_allclose(out, expected, atol=2e-5)
    assert jnp.isfinite(out).all()


@pytest.mark.parametrize("tokens", [36, 37])
def test_the_padding_for_cudnn_changes_nothing(tokens, monkeypatch):
    """Outputs and gradients are equal, with matrix products in place of the cuDNN call."""
    plain = jax.nn.dot_product_attention
    seen = []

    def without_a_gpu(query, *others, implementation, **lengths):
        assert implementation == "cudnn"
        seen.append(query.shape[1])
        return plain(query, *others, implementation="xla", **lengths)

    monkeypatch.setattr(jax.nn, "dot_product_attention", without_a_gpu)
    keys = jax.random.split(jax.random.key(0), 4)
    *qkv, weight = (jax.random.normal(key, (2, tokens, 2, 16)) for key in keys)

    def loss_and_slopes(attend):
        return jax.jit(jax.value_and_grad(lambda qkv: jnp.vdot(attend(*qkv), weight)))(qkv)

    found = loss_and_slopes(lambda *qkv: attention.kernel("cudnn", *qkv))
    expected = loss_and_slopes(plain)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), found, expected)
    assert seen == [36 if tokens == 36 else 38]


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated")
@pytest.mark.parametrize("choice", ["cudnn", "pallas"])
@pytest.mark.parametrize("tokens", [37, 79, 197])
def test_kernels_and_their_gradients_are_lowered_for_gpus(choice, tokens, monkeypatch):
    """Lowering shows without a GPU what JAX refuses there, for example odd numbers of tokens."""
    cudnn = "jax._src.cudnn.fused_attention_stablehlo."  # whose checks ask for a GPU
    monkeypatch.setattr(cudnn + "check_cudnn_version", lambda: 91000)
    monkeypatch.setattr(cudnn + "check_compute_capability", lambda _: True)
    monkeypatch.setattr(cudnn + "is_cuda_compute_capability_equal", lambda _: False)
    x = jax.ShapeDtypeStruct((3, 2, tokens, 6, 64), jnp.bfloat16)  # of three agents

    def total(*qkv):
        over_agents = jax.vmap(lambda *qkv: attention.kernel(choice, *qkv))
        return over_agents(*qkv).astype(jnp.float32).sum()

    device = jax.sharding.AbstractDevice("NVIDIA H100 80GB HBM3", None, "gpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=device)):
        traced = jax.jit(jax.grad(total, argnums=(0, 1, 2))).trace(x, x, x)
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("fmhaSoftmaxBackward" if choice == "cudnn" else "triton") >= 1
