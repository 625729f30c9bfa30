"""FLOPs counted in jaxprs against closed forms, XLA's own count, and published figures."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import pytest

from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.models.cnn import CNN, CNNConfig
from socialjepa_jax.models.functional import functional
from socialjepa_jax.models.masking import MaskConfig
from socialjepa_jax.models.mlp import MLP, MLPConfig, Projector
from socialjepa_jax.models.resnet import ResNet, ResNetConfig
from socialjepa_jax.models.vit import SIZES, ViT, ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.objectives.infonce import InfoNce
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.objectives.mae import Mae
from socialjepa_jax.objectives.masked_lejepa import MaskedLeJepa
from socialjepa_jax.objectives.vicreg import VicReg
from socialjepa_jax.performance import flops
from tests.objectives import rivals_table

MASKS = MaskConfig(context_fraction=0.4)  # 78 of 196 patches
SHALLOW = ViTConfig(depth=2)
GIGA = 1e9


def of_network(make, *shape):
    network = functional(make)
    params = jax.eval_shape(network.init, jax.random.key(0))
    return flops.of(network.apply, params, jax.ShapeDtypeStruct(shape, jnp.float32))


def patches(config, kept):
    return 2 * kept * config.patch_size**2 * config.channels * config.width


def blocks(width, depth, tokens):
    """Queries, keys and values; scores and their use; projection; both layers of the MLP."""
    return depth * 2 * tokens * width * (3 * width + 2 * tokens + width + 8 * width)


def vit(config, kept):
    return patches(config, kept) + blocks(config.width, config.depth, kept + config.cls_token)


def trained(config, kept):
    """Forward and twice that backward, without a gradient of the images."""
    return 3 * vit(config, kept) - patches(config, kept)


@pytest.mark.parametrize("size", ["Ti", "B"])
def test_a_vit_is_its_closed_form(size):
    config = ViTConfig(**{**SIZES[size], "depth": 3})
    found = of_network(lambda rngs: ViT(config, rngs), 2, 224, 224, 3)
    assert found == 2 * vit(config, 196)


def test_vit_s_is_the_published_figure_and_close_to_xla_s_count():
    config = ViTConfig()
    network = functional(lambda rngs: ViT(config, rngs))
    params = jax.eval_shape(network.init, jax.random.key(0))
    images = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.float32)
    found = flops.of(network.apply, params, images)
    assert found == vit(config, 196)
    assert found / GIGA == pytest.approx(9.20, abs=0.005)
    counted = jax.jit(network.apply).lower(params, images).cost_analysis()["flops"]
    assert found == pytest.approx(counted, rel=0.05)


def test_other_networks_are_their_closed_forms():
    config = MLPConfig(inputs=3, hidden=16, outputs=2, layers=4)
    assert of_network(lambda rngs: MLP(config, rngs), 5, 3) == 5 * 2 * (48 + 2 * 256 + 32)
    sizes = {"inputs": 24, "hidden": 32, "outputs": 8, "layers": 3, "dtype": "float32"}
    found = of_network(lambda rngs: Projector(**sizes, rngs=rngs), 5, 24)
    assert found == 5 * 2 * (24 * 32 + 32 * 32 + 32 * 8)
    cnn = of_network(lambda rngs: CNN(CNNConfig(), rngs), 1, 64, 64, 3)
    channels = (3, 32, 64, 128, 256)
    layers = [16 * a * b * (32 >> i) ** 2 for i, (a, b) in enumerate(itertools.pairwise(channels))]
    assert cnn == 2 * (sum(layers) + 256 * 256 + 256 * 2)


@pytest.mark.parametrize("depth, giga", [(18, 1.814), (50, 4.089)])
def test_resnets_have_the_published_multiplications(depth, giga):
    """torchvision states 1.814 and 4.089 GFLOPs (multiply-adds), its last layer included."""
    config = ResNetConfig(image_size=224, depth=depth, stem="imagenet")
    found = of_network(lambda rngs: ResNet(config, rngs), 1, 224, 224, 3)
    assert found / 2 / GIGA + config.width * 1000 / GIGA == pytest.approx(giga, abs=0.001)


def test_the_gradient_of_a_strided_convolution_costs_what_the_convolution_costs():
    """The transpose is a convolution of an input with zeros between its pixels."""
    config = CNNConfig()
    network = functional(lambda rngs: CNN(config, rngs))
    params = jax.eval_shape(network.init, jax.random.key(0))
    images = jax.ShapeDtypeStruct((2, 64, 64, 3), jnp.float32)

    def loss(params, images):
        return network.apply(params, images)[0].sum()

    forward = flops.of(loss, params, images)
    both = flops.of(jax.grad(loss, argnums=(0, 1)), params, images)
    assert both == pytest.approx(3 * forward, rel=1e-9)


def ijepa(predictor, config, batch, width=2048):
    """Per image: one pass of the teacher, training of the context encoder and the predictor."""
    D, N, K, M, S, P = config.width, 196, 78, 4, 49, 192
    context = trained(config, K)
    metrics = 2 * D  # variances: weighted sums over predictions, targets and the latent
    if predictor == "mlp_patch":
        # One half of the first layer acts on the latents; the other on the positions, once a batch.
        first = 3 * 2 * D * width + 2 * 2 * N * D * width / batch
        head, targets, predictions = first + 3 * 2 * N * width * D, vit(config, N), N
    elif predictor == "mlp_cls":
        head, targets, predictions = 3 * 2 * 2 * D * width, M * vit(config, S), M
    else:
        head = 3 * (2 * (K + 1) * D * P + M * blocks(P, 6, K + 1 + S) + 2 * M * S * P * D)
        targets, predictions = vit(config, N), M * S
    return context + targets + head + metrics * (2 * predictions + 1)


@pytest.mark.parametrize("predictor", ["mlp_patch", "mlp_cls", "vit"])
def test_an_ijepa_step_is_its_closed_form(predictor):
    objective = IJepa(vit=SHALLOW, predictor=predictor, masks=MASKS)
    assert flops.step(objective, 4) == pytest.approx(4 * ijepa(predictor, SHALLOW, 4), rel=1e-9)


def test_an_ijepa_step_at_vit_s_is_the_published_figure():
    """The published 21.6 GFLOP apply both layers at every patch; ours applies the first once."""
    found = flops.step(IJepa(predictor="mlp_patch", masks=MASKS), 256) / 256
    saved = 3 * 2 * 195 * 384 * 2048
    assert (found + saved) / GIGA == pytest.approx(21.6, rel=0.01)


def lejepa(config, small, slices, features=128, width=2048):
    D, V, P = config.width, 8, features
    encoders = 2 * trained(config, 196) + 6 * trained(config, 36)
    projector = 3 * V * 2 * (D * width + width * width + width * P)
    sigreg = 2 * V * 2 * P * slices  # directions need no gradient
    covariances = V * 2 * (D * D + P * P)
    return encoders + projector + sigreg + covariances


def test_a_lejepa_step_is_its_closed_form_and_the_published_figure():
    objective = LeJepa(encoder=SHALLOW, projector_dim=128)
    expected = lejepa(SHALLOW, 36, 1024)
    assert flops.step(objective, 4) == pytest.approx(4 * expected, rel=1e-3)
    assert lejepa(ViTConfig(), 36, 1024) / GIGA == pytest.approx(84.6, rel=0.01)


@pytest.mark.parametrize(
    "objective",
    [
        LeJepa(encoder=SHALLOW, views=MultiCrop(local_views=0)),
        VicReg(encoder=SHALLOW),
        InfoNce(encoder=SHALLOW),
    ],
)
def test_objectives_on_two_views_cost_little_more_than_two_trained_encoders(objective):
    encoders = 2 * trained(SHALLOW, 196)
    projector = 3 * 2 * 2 * (384 * 2048 + 2048 * 2048 + 2048 * 64)
    found = flops.step(objective, 4) / 4
    assert 0 <= found / (encoders + projector) - 1 < 0.02


@pytest.mark.parametrize("name", rivals_table.KINDS)
def test_steps_of_objectives_with_schedules_can_be_counted(name):
    """What reads the step in a batch too; at least the global views are trained."""
    objective = rivals_table.KINDS[name]
    views = objective.views.global_views if name != "autoencoder" else 1
    tower = blocks(rivals_table.VIT.width, rivals_table.VIT.depth, 16 + 1)
    taught = 2 if name in ("moco", "dino", "ibot", "dinov2") else 0
    assert flops.step(objective, 8) >= 8 * (3 * views + taught) * tower


def test_masked_lejepa_trains_both_passes():
    objective = MaskedLeJepa(vit=SHALLOW, predictor="mlp_patch", masks=MASKS, sigreg_slices=64)
    both = trained(SHALLOW, 196) + trained(SHALLOW, 78)
    head = 3 * 2 * 196 * 2048 * 384
    assert 0 <= flops.step(objective, 4) / 4 / (both + head) - 1 < 0.05


def mae(config, width, depth):
    """Per image: the encoder on 49 patches, the decoder's first layer, blocks and last layer."""
    D, N, K, E = config.width, 196, 49, config.patch_size**2 * config.channels
    ends = 2 * (K + 1) * D * width + 2 * (N - K) * width * E
    metrics = 2 * (2 * (N - K) * E + D)  # variances
    return trained(config, K) + 3 * (ends + blocks(width, depth, N + 1)) + metrics


def test_a_mae_step_is_its_closed_form():
    objective = Mae(vit=SHALLOW, decoder_width=256, decoder_depth=4)
    assert flops.step(objective, 4) == pytest.approx(4 * mae(SHALLOW, 256, 4), rel=1e-9)


@pytest.mark.parametrize("width, depth, giga", [(256, 4, 10.8), (512, 8, 38.3)])
def test_a_mae_step_at_vit_s_is_the_published_figure(width, depth, giga):
    """The published figures omit the decoder's first and last layer, and add an image gradient."""
    not_counted = 3 * 2 * (50 * 384 * width + 147 * width * 768) - patches(ViTConfig(), 49)
    assert (mae(ViTConfig(), width, depth) - not_counted) / GIGA == pytest.approx(giga, abs=0.06)


def encoding(objective, batch_size):
    """FLOPs of `objective.encode` on a batch of whole images."""
    objective = flops.plain(objective)
    params, aux = jax.eval_shape(objective.init, jax.random.key(0))
    image = flops.batch_shapes(objective, batch_size)["image"]
    return flops.of(objective.encode, params, aux, image)


def test_execution_options_do_not_change_model_flops():
    ways = {"remat": True, "scan_layers": True, "attention": "cudnn", "dtype": "bfloat16"}
    other = dataclasses.replace(SHALLOW, **ways)
    one, two = (IJepa(vit=v, predictor="vit", masks=MASKS) for v in (SHALLOW, other))
    assert flops.step(one, 2) == flops.step(two, 2)
    assert encoding(one, 2) == encoding(two, 2) == 2 * 2 * vit(SHALLOW, 196)
    one, two = (Mae(vit=v, decoder_depth=2) for v in (SHALLOW, other))
    assert flops.step(one, 2) == flops.step(two, 2)
    assert encoding(one, 2) == encoding(two, 2) == 2 * vit(SHALLOW, 196)


def test_loops_branches_and_devices_count():
    x = jnp.ones((4, 4))
    once = 2 * 4**3
    assert flops.of(lambda x: jax.lax.scan(lambda c, _: (c @ c, None), x, length=7), x) == 7 * once
    assert flops.of(lambda x: jax.lax.cond(x[0, 0] > 0, lambda x: x @ x, lambda x: x, x), x) == once
    mesh = jax.make_mesh((2,), ("a",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("a")
    mapped = jax.shard_map(lambda x: x @ x.T, mesh=mesh, in_specs=spec, out_specs=spec)
    assert flops.of(mapped, x) == 2 * (2 * 2 * 4 * 2)
    with pytest.raises(ValueError, match="unknown length"):
        flops.of(lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c @ c, x), x)


def test_of_counts_rematerialisation():
    """`of` counts all executed products, `step` only those of the model."""
    config = dataclasses.replace(SHALLOW, remat=True)
    network = functional(lambda rngs: ViT(config, rngs))
    params = jax.eval_shape(network.init, jax.random.key(0))
    images = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.float32)
    found = flops.of(jax.grad(lambda p, x: network.apply(p, x)[0].sum()), params, images)
    assert trained(config, 196) < found < 1.34 * trained(config, 196)
