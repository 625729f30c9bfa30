"""The scaling model, and the collectives of a compiled step on 8 devices, which it assumes."""

import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.aot import hlo, programs
from experiments.bench import scaling_model, steps
from experiments.bench.scaling_model import Chip, Links, Model
from socialjepa_jax import sharding
from socialjepa_jax.agents import Trainer
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.data.resident import ResidentImages
from socialjepa_jax.errors import InputError
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.optim import AdamW

VIT = ViTConfig(image_size=16, patch_size=4, channels=1, width=32, depth=1, heads=2)
SLOW = Links(chips_per_node=4, node_bytes=100.0, network_bytes=10.0, latency=0.5)


def compiled_step(objective, agents, batch):
    """The optimised program of a step on all 8 devices."""
    mesh = sharding.make_mesh(agents, batch, jax.devices())
    trainer = Trainer(objective, AdamW(), 10, batch, 1, mesh, "map")
    place = sharding.by_agent(mesh)
    data = ResidentImages(
        np.zeros((agents, 16, 256), np.uint8),
        np.tile(np.arange(16, dtype=np.int32), (agents, 1)),
        np.zeros((agents, 1), np.float32),
        np.ones((agents, 1), np.float32),
        (16, 16, 1),
    )
    hparams = {
        "seed": jnp.arange(agents, dtype=jnp.uint32),
        "learning_rate": jnp.ones(agents),
        "total_steps": jnp.full(agents, 10, jnp.int32),
    }
    data, hparams = jax.device_put((data, hparams), place)
    state = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
        jax.eval_shape(trainer.init, hparams),
    )
    return trainer.step.lower(state, data, hparams).compile().as_text()


VIEWS = MultiCrop(local_views=0, view_a=Augment(), view_b=Augment())


# Floats beside the gradients: I-JEPA's means of predictions, targets and latents; LeJEPA's cosine
# and sine sums (16 knots, 16 slices, 2 views), means and covariances of latent and projection.
MEANS = 3 * 32
SUMS = 2 * 16 * 16 * 2 + 32 + 64 + 32**2 + 64**2


@pytest.mark.parametrize(
    ("objective", "agents", "others"),
    [
        (IJepa(vit=VIT, predictor="mlp_cls", mlp_width=32), 2, MEANS),
        pytest.param(IJepa(vit=VIT, predictor="mlp_cls", mlp_width=32), 1, MEANS,
                     marks=pytest.mark.nightly),
        pytest.param(LeJepa(encoder=VIT, projector_layers=1, views=VIEWS, sigreg_slices=16), 2,
                     SUMS, marks=pytest.mark.nightly),
    ],
)  # fmt: skip
def test_a_step_sums_its_gradients_and_little_else(objective, agents, others):
    found = programs.collectives(hlo.parse(compiled_step(objective, agents, 8)))
    assert {c.kind for c in found} == {"all-reduce"}
    assert {c.group for c in found} == {8 // agents}  # an agent's devices, never another's
    rest = sum(c.size for c in found) - scaling_model.gradient_bytes(objective)
    assert 4 * others < rest < 4 * others + 1024  # a kilobyte of scalars and further means


def test_sums_inside_a_node_and_between_nodes():
    assert scaling_model.sum_seconds(400, 1, SLOW) == 0
    assert scaling_model.sum_seconds(400, 4, SLOW) == pytest.approx(2 * 0.75 * 4 + 6 * 0.5)
    both = 2 * 0.75 * 4 + 2 * 0.5 * 100 / 10 + (6 + 2) * 0.5
    assert scaling_model.sum_seconds(400, 8, SLOW) == pytest.approx(both)


def test_efficiency_falls_with_chips_and_overlap_helps():
    chip = Chip(1e-3, 75e-6, "test")
    model = Model(9e7, 12, 0.4)
    grown = [scaling_model.predict(chip, model, n, 1024, Links(), 1024) for n in (1, 8, 64, 512)]
    assert grown[0].worst == grown[0].best == 1
    assert all(a.worst > b.worst for a, b in itertools.pairwise(grown))
    assert all(p.worst < p.best <= 1 for p in grown[1:])
    split = scaling_model.predict(chip, model, 512, 16, Links(), 1024)
    assert split.best < grown[-1].best
    limit = scaling_model.breaks_at(chip, model, Links(), 1024, 8192)
    best = [
        scaling_model.predict(chip, model, n, 8192 / n, Links(), 1024).best
        for n in (limit // 2, limit)
    ]
    assert best[0] >= scaling_model.ENOUGH > best[1]


def test_only_the_backward_pass_hides_sums():
    """10 s of compute, 2 s of it backwards, and 16 s of sums: 14 s or more are seen."""
    chip, links = Chip(0.0, 1.0, "test"), Links(2, 1.0, 1.0, 0.0)
    found = scaling_model.predict(chip, Model(16.0, 100, 0.2), 2, 10, links, 10)
    assert found.seconds == 10 + 16
    assert (found.worst, found.best) == pytest.approx((10 / 26, 10 / 24))


def test_a_target_encoder_has_no_backward_pass():
    """Of ViT-S with 78 of 196 tokens: forward 9.2 (target) and 4.1 (context, predictor), backward
    twice the latter."""
    assert 0.35 < scaling_model.backward_share(steps.ijepa(ViTConfig())) < 0.42


def test_the_chip_is_fitted_to_the_suite_and_the_report_says_so(tmp_path):
    path = tmp_path / "gpu_suite.json"
    rows = [
        {"name": f"I-JEPA step, batch {b}", "note": f"9 images/s, {1 + 0.08 * b:.2f} ms, 1 TFLOP/s"}
        for b in (512, 1024, 2048)
    ]
    rows.append({"name": "I-JEPA step", "note": "share of the measured peak, batch 512"})
    document = {"device": "H100", "rehearsal": False, "sections": {"ijepa": {"rows": rows}}}
    path.write_text(json.dumps(document))
    chip = scaling_model.measured_chip(path)
    assert (chip.fixed, chip.per_image) == pytest.approx((1e-3, 8e-5), rel=1e-3)
    text = scaling_model.report(chip, IJepa(vit=VIT), 1024, Links())
    assert "measured on H100" in text and text.count("below 90%") == 2
    assert "assumed" in scaling_model.assumed_chip(IJepa(vit=VIT)).origin


def test_files_of_other_programs_and_rehearsals_are_refused(tmp_path):
    path = tmp_path / "gpu_suite.json"
    path.write_text('{"device": "x", "rehearsal": false, "sections": {"lejepa": {}}}')
    with pytest.raises(InputError, match="two batch sizes, has 0"):
        scaling_model.measured_chip(path)
    for text in ("", "{}", '{"sections": []}', '{"sections": {"ijepa": {"rows": 3}}}'):
        path.write_text(text)
        with pytest.raises(InputError, match="is not a file of"):
            scaling_model.measured_chip(path)
    rows = [{"name": f"step, batch {b}", "note": f"{9 - b} ms"} for b in (1, 2)]
    for rehearsal, kept, message in (
        (False, [], "two batch sizes, has 0"),
        (True, rows, "is of a rehearsal"),
        (False, rows, "larger batches take no longer"),
    ):
        sections = {"ijepa": {"rows": kept}}
        document = {"device": "x", "rehearsal": rehearsal, "sections": sections}
        path.write_text(json.dumps(document))
        with pytest.raises(InputError, match=message):
            scaling_model.measured_chip(path)
