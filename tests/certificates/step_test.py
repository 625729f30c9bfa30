"""The lowered training step of every objective: sums over devices, donation, layout of images."""

import functools
import math
import re

import jax
import numpy as np
import pytest

from experiments.aot import facts, stablehlo
from socialjepa_jax import agents, build, sharding
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.data.protocols import Opening
from socialjepa_jax.data.resident import ResidentFeed, ResidentImages, row_shape
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.objectives.infonce import InfoNce
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.objectives.mae import Mae
from socialjepa_jax.objectives.masked_lejepa import MaskedLeJepa
from socialjepa_jax.objectives.vicreg import VicReg
from socialjepa_jax.optim import AdamW

DEVICES, BATCH, STATES = 4, 8, 40
VIT = ViTConfig(
    image_size=16, patch_size=4, channels=3, width=16, depth=1, heads=2, dtype="bfloat16"
)
HEADS = {"encoder": VIT, "projector_width": 16, "projector_dim": 8, "views": MultiCrop(2, 0, 8)}
BY_DAY = ("ijepa", "lejepa")
KINDS = {
    "ijepa": IJepa(vit=VIT, mlp_width=16),
    "lejepa": LeJepa(**HEADS, projector_layers=2, sigreg_slices=32),
    "masked_lejepa": MaskedLeJepa(vit=VIT, mlp_width=16, sigreg_slices=16),
    "vicreg": VicReg(**HEADS, projector_layers=2),
    "infonce": InfoNce(**HEADS, projector_layers=1),
    "mae": Mae(vit=VIT, decoder_width=8, decoder_depth=1, decoder_heads=2),
}


@functools.cache
def lowered(name, sums="float32"):
    """One agent's step on four devices, its text, and its state's shapes."""
    mesh = sharding.make_mesh(1, BATCH, jax.devices()[:DEVICES])
    trainer = agents.Trainer(
        KINDS[name], AdamW(), 10, BATCH, 2, mesh, "vmap", max_skips=3, gradient_sums=sums
    )
    place = sharding.by_agent(mesh)
    hparams = build.make_hparams([3], 10)
    opening = Opening(
        (0,), np.arange(STATES), Augment(flip=True), mesh, hparams["seed"], BATCH, 2, 10, 40, None,
        None,
    )  # fmt: skip
    data = ResidentFeed(np.zeros((1, STATES, 16, 16, 3), np.uint8), opening).at(0)
    state = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
        jax.eval_shape(trainer.init, hparams),
    )
    step = trainer.step.lower(state, data, hparams)
    return step, step.as_text(), state


def summed(text):
    """Element types of all operands of all-reduces."""
    found = re.findall(r'"stablehlo\.all_reduce"\(.*?\}\) : \((.*?)\) ->', text, re.DOTALL)
    return [kind for operands in found for kind in re.findall(r"tensor<(?:\d+x)*(\w+)>", operands)]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.nightly] * (n not in BY_DAY)) for n in KINDS]
)
def test_gradients_are_summed_in_float32(name):
    kinds = summed(lowered(name)[1])
    assert len(kinds) > 10 and set(kinds) <= {"f32", "i32", "ui32"}


def test_gradients_are_summed_in_bfloat16_where_asked():
    _, text, state = lowered("lejepa", "bfloat16")
    assert summed(text).count("bf16") == len(jax.tree.leaves(state.params))


@pytest.mark.parametrize("name", KINDS)
def test_the_step_donates_its_state_and_stays_on_the_devices(name):
    _, text, state = lowered(name)
    assert text.count("tf.aliasing_output") == len(jax.tree.leaves(state))
    assert "custom_call" not in text and "infeed" not in text and "outfeed" not in text


def test_resident_images_are_gathered_as_flat_rows():
    """The one layout that a TPU does not copy first; found in the program by its size."""
    _, text, _ = lowered("ijepa")
    gathers = re.findall(r"gather.*?: \(tensor<([\dx]+)xui8>", text)
    assert gathers == [f"1x{STATES}x{16 * 16 * 3}"]


def batches_of(shape, images, place, mesh):
    """Lowers a batch of 8 of resident images of one shape."""
    width = row_shape(math.prod(shape))
    shapes = (("u1", images, *width), ("i4", STATES), ("f4", shape[2]), ("f4", shape[2]))
    arrays = [jax.ShapeDtypeStruct((1, *s), t, sharding=place) for t, *s in shapes]
    source = ResidentImages(*arrays, shape, Augment(flip=True))

    def batch(source):
        one = jax.tree.map(lambda x: x[0], source)
        return one.batch(jax.numpy.int32(0), jax.numpy.uint32(3), BATCH)["image"]

    spread = jax.P((sharding.AGENT, sharding.DATA))
    step = jax.shard_map(batch, mesh=mesh, in_specs=(source.specs(),), out_specs=spread)
    return jax.jit(step).lower(source)


def test_wide_images_are_gathered_as_rows_of_128():
    """TPUs gather flat rows of more than 32 kB in parts, which copies all images in every step."""
    mesh = sharding.make_mesh(1, BATCH, jax.devices()[:DEVICES])
    text = batches_of((192, 192, 1), STATES, sharding.by_agent(mesh), mesh).as_text()
    assert re.findall(r"gather.*?: \(tensor<([\dx]+)xui8>", text) == [f"{STATES}x288x128"]


@pytest.mark.parametrize("name", KINDS)
def test_models_in_bfloat16_have_no_float32_products(name):
    """Those left are of statistics, losses, crops and norms, by the files they come from."""
    found = stablehlo.products(lowered(name)[0].as_text(debug_info=True))
    in_models = {p.kind for p in found if p.source.startswith("models/")}
    assert in_models == {"bf16"}
    kept = {p.source for p in found if p.kind == "f32"}
    assert kept and all(source.startswith(facts.FLOAT32) for source in kept)


def test_temporaries_do_not_grow_with_the_resident_images():
    """A batch of 8 of 40 or of 40,000 images, both from the same 40 training rows."""
    mesh = sharding.make_mesh(1, BATCH, jax.devices()[:DEVICES])
    place = sharding.by_agent(mesh)

    def temporaries(images):
        lowered = batches_of((16, 16, 3), images, place, mesh)
        return lowered.compile().memory_analysis().temp_size_in_bytes

    assert 0 < temporaries(40_000) == temporaries(40)
