"""Small settings of the objectives on views with prototypes, teachers, queues or pixels."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.models.resnet import ResNetConfig
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.autoencoder import Autoencoder
from socialjepa_jax.objectives.barlow import Barlow
from socialjepa_jax.objectives.dino import Dino
from socialjepa_jax.objectives.dinov2 import DinoV2
from socialjepa_jax.objectives.ibot import IBot
from socialjepa_jax.objectives.moco import MoCoV3
from socialjepa_jax.objectives.simclr import SimClr
from socialjepa_jax.objectives.swav import SwAV
from socialjepa_jax.sharding import ONE_DEVICE, Reduce

BATCH, TOTAL, STEP = 8, 20, 3
KEY = jax.random.key(2)
# At this scale of the weights latents depend on the image enough for rounding not to matter.
VIT = ViTConfig(image_size=16, patch_size=4, channels=3, width=16, depth=1, heads=2, init_std=0.2)
RESNET = ResNetConfig(image_size=16, channels=3, depth=10, stem_width=4, stem="small")
CROP = Augment(flip=True)  # crops and colours are tested with the views
CROPS = MultiCrop(2, 1, 8, view_a=CROP, view_b=CROP, local=CROP)
PAIR = dataclasses.replace(CROPS, local_views=0)
COMMON = {"encoder": VIT, "projector_width": 16, "projector_dim": 8, "projector_layers": 2}
DECODER = {"decoder_width": 16, "decoder_depth": 1, "decoder_heads": 2}
HPARAMS = {"total_steps": jnp.int32(TOTAL)}
KINDS = {
    "simclr": SimClr(**COMMON, views=PAIR),
    "barlow": Barlow(**COMMON, views=PAIR),
    "moco": MoCoV3(**COMMON, views=PAIR, predictor_width=16),
    "swav": SwAV(**COMMON, views=CROPS, prototypes=6, queue=16, queue_start=0.1),
    "dino": Dino(**COMMON, views=CROPS, outputs=6, teacher_temperature=0.07),
    "ibot": IBot(**COMMON, views=CROPS, outputs=6, mask_share=0.8, shared_head=False),
    # KoLeo is of a device's images, and has a test of its own.
    "dinov2": DinoV2(**COMMON, views=PAIR, outputs=6, centring="sinkhorn", koleo_weight=0.0),
    "autoencoder": Autoencoder(VIT, **DECODER),
}


def batch(seed=0):
    images = jax.random.uniform(jax.random.key(seed), (BATCH, 16, 16, 3))
    index, step = jnp.arange(BATCH) * 5 + 100, jnp.int32(STEP)
    statistics = {"mean": jnp.zeros(3), "std": jnp.ones(3)}
    return {"image": images, "index": index, "step": step, **statistics}


def started(objective, seed=1):
    """Parameters, and carried state in which nothing is zero or equal to the parameters.

    Drawn in NumPy, where nothing is compiled: normal, kernels over the root of their inputs.
    """
    rng = np.random.default_rng(seed)

    def drawn(path, leaf):
        x = rng.normal(size=leaf.shape).astype(np.float32)
        name = getattr(path[-1], "key", None)
        if name in ("scale", "magnitude"):
            return 1.0 + 0.1 * x
        return x * np.float32(leaf.shape[0] ** -0.5 if name == "kernel" else 0.2)

    params, aux = jax.eval_shape(objective.init, KEY)
    params, state = (jax.tree_util.tree_map_with_path(drawn, tree) for tree in (params, aux))
    for name in ("statistics", "teacher_statistics"):
        if name in aux:  # means and variances
            state[name] = jax.tree.map(np.square, state[name])
    if "prototypes" in params:
        params["prototypes"] = _unit(params["prototypes"])
    if "queue" in aux:
        state["queue"] = _unit(state["queue"])
    return params, state


def _unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@functools.cache
def on_one_device(name):
    """(compiled, params, aux, ((loss, (aux, metrics)), gradients)) of one batch and key."""
    objective = KINDS[name]
    params, aux = started(objective)

    def run(params, aux, batch, key):
        gradient = jax.value_and_grad(objective.loss, has_aux=True)
        return gradient(params, aux, batch, key, HPARAMS, ONE_DEVICE)

    compiled = jax.jit(run)
    return compiled, params, aux, compiled(params, aux, batch(), KEY)


def on_devices(name, count, gradient=False):
    """The same on a number of devices; the loss alone unless the gradient is asked for."""
    objective = KINDS[name]
    _, params, aux, _ = on_one_device(name)
    devices = jax.devices()[:count]
    mesh = jax.make_mesh((count,), ("data",), devices=devices, axis_types=(AxisType.Auto,))
    split, same = P("data"), P()
    of_batch = {"image": split, "index": split, "step": same, "mean": same, "std": same}

    def run(params, aux, batch, key):
        loss = objective.loss
        if gradient:
            loss = jax.value_and_grad(loss, has_aux=True)
        return loss(params, aux, batch, key, HPARAMS, Reduce("data"))

    specs = (same, same, of_batch, same)
    sharded = jax.jit(jax.shard_map(run, mesh=mesh, in_specs=specs, out_specs=same))
    return sharded(params, aux, batch(), KEY)


def in_float64(tree):
    """The arrays in NumPy, of float64 where they are of any float."""
    return jax.tree.map(
        lambda x: np.asarray(x, np.float64 if jnp.issubdtype(x.dtype, jnp.floating) else None), tree
    )


def by_hand(function, *arguments):
    """Compiles a function of arrays and returns what it returns in float64 NumPy."""
    return in_float64(jax.jit(function)(*arguments))


def head_by_hand(params, x, last_norm):
    """Two linear layers, batch normalisation and ReLU between, in float64; biases where given."""
    params = jax.tree.map(np.float64, jax.device_get(params))

    def norm(x, layer):
        x = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
        return x * layer.get("scale", 1.0) + layer.get("bias", 0.0)

    first, second = params["fc_0"], params["fc_1"]
    x = x @ first["kernel"] + first.get("bias", 0.0)
    x = np.maximum(norm(x, params["norm_0"]), 0.0)
    x = x @ second["kernel"] + second.get("bias", 0.0)
    return norm(x, params.get("norm_1", {})) if last_norm else x
