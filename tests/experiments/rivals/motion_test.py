"""Rivals on the moving world: what each is given, what is measured, and the claims.

Shape key: B pairs, P pairs of a pool, L latents.
"""

import dataclasses
import json
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.rivals import motion, motion_claims
from experiments.rivals.motion_methods import METHODS, BothFrames, Labelled, columns
from socialjepa_jax import build
from socialjepa_jax.data.resident import flat_rows
from socialjepa_jax.data.toys.moving import MotionPool
from socialjepa_jax.models.patch_net import PatchNetConfig
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.report import tables
from socialjepa_jax.sharding import ONE_DEVICE
from tests.experiments.rivals import stored as golden

NET = PatchNetConfig(image_size=8, channels=1, patches=(4,), widths=(4,), hidden=6)
PAIRED = {"lejepa", "vicreg", "barlow", "infonce", "simclr", "lejepa_vit"}
LEJEPAS, VITS = {"lejepa", "lejepa_vit"}, ("mae", "ijepa", "lejepa_vit")
SIZES = {  # all in which an objective may differ from its defaults
    "encoder", "vit", "views", "latent", "projector_layers", "projector_dim", "num_slices",
    "weight", "weight_rule", "decoder_width", "decoder_depth", "decoder_heads", "decoder_patch",
    "predictor", "mlp_width", "target_norm", "latent_encoder",
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_six_trials_its_defaults_but_for_sizes_and_one_encoder(name):
    method = METHODS[name]
    trials = method.trials
    assert len(trials) == motion.TRIALS == len({tuple(t.items()) for t in trials})
    assert len(columns(trials)["learning_rate"]) == 6
    assert method.of_pairs == (name in PAIRED)
    objective = getattr(method.objective, "single", method.objective)
    default = OBJECTIVES.get(objective.kind)()
    changed = {
        field.name
        for field in dataclasses.fields(default)
        if getattr(objective, field.name) != getattr(default, field.name)
    }
    assert changed <= SIZES
    encoder = getattr(objective, "vit", getattr(objective, "encoder", None))
    assert (encoder == PatchNetConfig()) == (name not in VITS)
    if name in PAIRED - LEJEPAS:
        assert objective.views.second == "next" and objective.projector_layers == 1
    chosen = dataclasses.replace(motion.pairs.experiment((0, 1)), objective=method.objective)
    build.make_trainer(chosen, devices=jax.devices()[:1])  # sizes fit the world


class Recorder:
    """An objective that returns its batch."""

    def loss(self, params, aux, batch, key, hparams, reduce):
        return jnp.zeros(()), (aux, batch)


def test_both_frames_are_images_with_numbers_of_their_own():
    rng = np.random.default_rng(0)
    batch = {name: jnp.asarray(rng.random((3, 4, 4, 1))) for name in ("image", "next")}
    batch["index"] = jnp.array([7, 2, 5])
    _, (_, seen) = BothFrames(Recorder()).loss({}, {}, batch, None, {}, ONE_DEVICE)
    np.testing.assert_array_equal(seen["image"][:3], batch["image"])
    np.testing.assert_array_equal(seen["image"][3:], batch["next"])
    np.testing.assert_array_equal(seen["index"], [14, 4, 10, 15, 5, 11])


def test_the_reference_is_trained_on_the_states_of_its_frames():
    objective = Labelled(encoder=NET, outputs=2)
    params, aux = jax.jit(objective.init)(jax.random.key(0))
    rng = np.random.default_rng(1)
    images = [rng.random((3, 8, 8, 1)).astype(np.float32) for _ in range(2)]
    states_2PL = rng.normal(size=(2, 9, 2)).astype(np.float32)
    batch = {"image": images[0], "next": images[1], "index": jnp.array([8, 0, 4])}
    run = jax.jit(objective.loss, static_argnums=5)
    loss, (after, _) = run(
        params, aux, batch, jax.random.key(0), {"states": states_2PL}, ONE_DEVICE
    )
    h, _, used = jax.jit(objective.embed)(params, np.concatenate(images))
    target = np.concatenate([states_2PL[f, [8, 0, 4]] for f in (0, 1)])
    assert loss == pytest.approx(np.square(np.asarray(h) - target).mean(), rel=1e-5)
    moved = after["statistics"]["encoder"]["norm_fc"][0]
    np.testing.assert_allclose(moved, 0.1 * used["norm_fc"][0], rtol=1e-5)  # from 0


def test_codes_are_what_the_loss_acts_on_or_white_components():
    rng = np.random.default_rng(0)
    latent, other = rng.normal(size=(2, 50, 6)) * np.arange(1, 7), rng.normal(size=(2, 50, 3))
    rows, method = np.arange(30), METHODS["mae"]
    own = motion.codes(method, {"latent": other, "hidden": latent}, 1, rows)
    np.testing.assert_array_equal(own, other[1])
    projected = motion.codes(method, {"latent": latent, "projection": other}, 1, rows)
    np.testing.assert_array_equal(projected, other[1])
    four = motion.codes(method, {"latent": latent, "projection": latent[..., :4]}, 0, rows)
    np.testing.assert_allclose(np.linalg.norm(four, axis=1), 1)
    np.testing.assert_allclose(four[:, 0] / four[:, 1], latent[0, :, 0] / latent[0, :, 1])
    white = motion.codes(method, {"latent": latent}, 0, rows)
    np.testing.assert_allclose(np.cov(white[:30].T, bias=True), np.eye(3), atol=1e-10)
    # The leading component is the feature of the largest deviation.
    assert np.abs(np.corrcoef(white[:, 0], latent[0, :, 5])[0, 1]) > 0.9
    np.testing.assert_array_equal(motion.features({"latent": latent}, 1), latent[1])
    np.testing.assert_array_equal(
        motion.features({"latent": other, "hidden": latent}, 1), latent[1]
    )


def test_a_product_of_latents_is_explained_by_degree_two_alone():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(400, 3))
    z = np.stack([states[:, 0], states[:, 1] + 1, states[:, 0] * states[:, 1]], axis=1)
    split = motion.Split("state", np.arange(200), np.arange(200, 400))
    linear, curved = motion.explained(states, z, split)
    assert curved == pytest.approx(1, abs=1e-3)
    assert linear == pytest.approx(2 / 3, abs=0.03)


def test_a_trial_is_judged_by_what_a_code_says_of_the_next(monkeypatch):
    """A slow code of the walk scores its squared correlation in every direction."""
    rng, rho, count = np.random.default_rng(0), 0.8, 20_000
    walk = np.zeros((count, 3))
    for t in range(1, count):
        walk[t] = rho * walk[t - 1] + np.sqrt(1 - rho**2) * rng.normal(size=3)
    states = rng.normal(size=(40, 2))
    seen = np.concatenate([states @ rng.normal(size=(2, 3)), walk @ rng.normal(size=(3, 3))])[None]
    world = types.SimpleNamespace(dataset=types.SimpleNamespace(states=states))
    split = motion.Split("state", np.arange(20), np.arange(20, 40))
    found = motion._trial(world, METHODS["lejepa"], {"latent": seen, "hidden": seen}, 0, split)
    assert found["predicted"] == pytest.approx(3 * rho**2, abs=0.03)
    assert found["state"] == pytest.approx(1.0, abs=1e-3)


def rows_of(name, state=0.95, r2=0.95, features=0.95, curved=0.95):
    """Two pairs, .01 above and below; the first agent of a pair is better."""
    rows = [{"method": name, "row": "cost", "images_per_second": 9000.0}]
    for pair, away in enumerate((-0.01, 0.01)):
        for space, value in (("code", state), ("features", features)):
            own = {"state": [value + away, value + away - 0.02], "r2": r2 + away, "rankme": [3.0],
                   "explained": [[0.66, curved + away], [0.66, curved + away]]}  # fmt: skip
            rows.append({"method": name, "row": "trained", "pair": pair, "space": space, **own})
            untrained = own | {"state": [0.7, 0.7]}
            rows.append({"method": name, "row": "untrained", "pair": pair, "space": space}
                        | untrained)  # fmt: skip
        rows.append({"method": name, "row": "mismatched", "pair": pair, "space": "code", "r2": 0.0})
    return rows


def judged(rows):
    return {claim.id: claim for claim in motion_claims.claims(rows)}


@pytest.mark.parametrize(
    ("name", "change", "verdicts"),
    [
        ("infonce", {}, {"state": True, "W": True, "features": True}),
        ("infonce", {"state": 0.92}, {"state": False, "W": True, "features": True}),  # .89
        ("infonce", {"r2": 0.905}, {"state": True, "W": False, "features": True}),
        ("vicreg", {}, {"state": True, "W": True, "features": True, "curved": True}),
        ("barlow", {"curved": 0.905},
         {"state": True, "W": True, "features": True, "curved": False}),
        ("lejepa_vit", {"features": 0.54}, {"features": True}),
        ("lejepa_vit", {"features": 0.52}, {"features": False}),
        ("simclr", {"state": 0.88, "r2": 0.88}, {"state": True, "W": True, "features": True}),
        ("simclr", {"state": 0.895}, {"state": False, "W": False, "features": True}),
        ("mae", {"state": 0.4, "r2": 0.6, "features": 0.8},
         {"state": True, "W": True, "features": True}),
        ("mae", {"state": 0.6, "r2": 0.7, "features": 0.91},
         {"state": False, "W": False, "features": False}),
    ],
)  # fmt: skip
def test_claims_are_judged_by_the_worst_agent_or_pair(name, change, verdicts):
    found = judged(rows_of(name, **change))
    assert {id: claim.agrees for id, claim in found.items()} == {
        f"{name}/{subject}": verdict for subject, verdict in verdicts.items()
    }


def test_every_method_has_three_predictions_and_a_table_its_means():
    rows = [row for name in METHODS for row in rows_of(name)]
    rows += [{"method": "pixel PCA", "row": "pixel_pca", "pair": 0, "space": space,
              "state": [0.3, 0.5], "r2": 0.1, "rankme": [2.0, 4.0]}
             for space in ("code", "features")]  # fmt: skip
    assert len(judged(rows)) == 30
    table = motion_claims.table(rows)
    assert [row.label for row in table.rows] == [*METHODS, "pixel PCA"]
    cells = table.rows[0].cells
    assert cells["state"].value == pytest.approx(0.94) and cells["r2"].value == pytest.approx(0.95)
    assert cells["untrained"].value == pytest.approx(0.7) and cells["images"] == 9.0
    assert table.rows[-1].cells["state"] == pytest.approx(0.4)
    assert table.rows[-1].cells["mismatched"] is None
    assert "pixel PCA" in tables.to_markdown(table)
    assert motion_claims.plot(rows).figure.axes[0].get_xticklabels()[-1].get_text() == "pixel\nPCA"


STORED = golden.run("rivals_motion")
PAGE, TEXT = golden.page("motion")


def stored(name, space="code", key="state", row="trained"):
    return float(motion_claims.values(STORED["rows"], name, space, key, row).mean())


def test_stored_claims_are_judged_again():
    found = motion_claims.claims(STORED["rows"])
    golden.check_claims(found, STORED["claims"], abs=1e-4, rel=1e-6)
    agree = sum(bool(claim.agrees) for claim in found)
    assert f"{agree} of {len(found)} predictions agree." in TEXT
    assert f"{agree} of {len(found)} claims agree." in golden.in_one_line(motion.__doc__)


def test_the_page_has_the_table_and_its_sentences_state_the_rows():
    assert tables.to_markdown(motion_claims.table(STORED["rows"])) in PAGE
    linear, curved = (
        [motion_claims.values(STORED["rows"], name, "code", "explained")[..., degree].mean()
         for name in ("vicreg", "barlow")]
        for degree in (0, 1)
    )  # fmt: skip
    headings = [
        value for row in STORED["rows"]
        if (row.get("method"), row["row"], row.get("space")) in
        {(name, "trained", "code") for name in ("vicreg", "barlow")}
        for value in row["latents"]["yaw"]
    ]  # fmt: skip
    assert stored("lejepa", key="r2") == pytest.approx(stored("infonce", key="r2"), abs=1e-3)
    text = " ".join(PAGE.split())
    for sentence, values in [
        ("R² {:.3f} and {:.3f} by three", [stored("lejepa"), stored("infonce")]),
        ("another's with {:.3f}", [stored("lejepa", key="r2")]),
        ("too ({:.3f}, W {:.3f})", [stored("simclr"), stored("simclr", key="r2")]),
        ("({:.3f} and {:.3f}; of the heading at most {:.3f})",
         [stored("vicreg"), stored("barlow"), max(headings)]),
        ("explain {:.3f} and {:.3f} of their codes", curved),
        ("linear ones {:.3f} and {:.3f}", linear),
        ("R² of W is {:.3f} and {:.3f}", [stored("vicreg", key="r2"), stored("barlow", key="r2")]),
        ("output holds {:.3f}, untrained ones {:.3f} and 128 pixel components {:.3f}",
         [stored("autoencoder", "features"), stored("autoencoder", "features", row="untrained"),
          stored(motion.PIXELS, "features", row="pixel_pca")]),
        ("reaches {:.3f} of the state in these steps; untrained it holds {:.3f}",
         [stored("lejepa_vit", "features"), stored("lejepa_vit", "features", row="untrained")]),
    ]:  # fmt: skip
        assert sentence.format(*values) in text


def test_the_head_states_what_was_measured():
    head = " ".join(motion.__doc__.split())
    for sentence, values in [
        ("is {} of LeJEPA, {} of InfoNCE, {} of SimCLR, {} of VICReg and {} of Barlow Twins, at "
         "most {} of methods on single frames, {} with labels",
         [*map(stored, ("lejepa", "infonce", "simclr", "vicreg", "barlow")),
          max(map(stored, ("autoencoder", "mae", "ijepa"))), stored("labels")]),
        ("ViT has {} in its encoder's output, so MAE's {} and I-JEPA's {}",
         [stored(name, "features") for name in ("lejepa_vit", "mae", "ijepa")]),
    ]:  # fmt: skip
        short = [f"{value:.3f}".removeprefix("0") for value in values]
        assert sentence.format(*short) in head


@pytest.mark.nightly
@pytest.mark.parametrize("name", METHODS)
def test_a_method_steps_on_pairs_of_the_world(name):
    """Traced, not compiled: shapes, settings of the trials, and the names of what is encoded."""
    base = motion.pairs.experiment((0, 1), **motion.pairs.lasting(4), run__batch_size=16)
    method, shape = METHODS[name], (2, 32, *base.data.pair_shape)
    parts = build.build(
        dataclasses.replace(base, objective=method.objective), devices=jax.devices()[:1]
    )
    settings = {k: jnp.asarray(v[:2], jnp.float32) for k, v in columns(method.trials).items()}
    if name == "labels":
        settings["states"] = jnp.zeros((2, 2, 32, 3))
    pixels = jnp.asarray(flat_rows(np.zeros(shape, np.uint8)))
    source = MotionPool(jnp.zeros((2, 3)), jnp.ones((2, 3)), base.data, pixels)
    hparams = parts.hparams | settings
    state = jax.eval_shape(parts.trainer.init, hparams)
    after, metrics = jax.eval_shape(parts.trainer.step, state, source, hparams)
    assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, state)
    assert metrics["loss"].shape == (2, 4)
    images = jnp.zeros((2, 8, 32, 32, 3), jnp.uint8)
    scale = jnp.zeros((2, 3)), jnp.ones((2, 3))
    encoded = jax.eval_shape(parts.trainer.encode_all, state, images, *scale)
    width = 48 if name in VITS else 128
    assert encoded.get("hidden", encoded["latent"]).shape == (2, 8, width)
    assert ("hidden" in encoded) == (name in LEJEPAS | {"labels"})
    assert ("projection" in encoded) == (name in PAIRED - LEJEPAS)


@pytest.mark.nightly
def test_methods_are_tuned_trained_and_kept(tmp_path, monkeypatch):
    names = ("barlow", "labels")
    monkeypatch.setattr(motion, "METHODS", {name: METHODS[name] for name in names})
    first = motion.run("smoke", tmp_path)
    assert motion.run("smoke", tmp_path).rows == json.loads(json.dumps(first.rows))  # read
    for name in names:
        trials = [r for r in first.rows if (r["method"], r["row"]) == (name, "trial")]
        assert [r["trial"] for r in trials] == list(range(6))
    assert motion_claims.names(first.rows) == list(names)
