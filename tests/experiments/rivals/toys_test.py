"""Every objective on the toy world: its settings, its measures on made latents, and its claims."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from experiments.rivals import methods, toys
from socialjepa_jax import evaluation
from socialjepa_jax.config import from_config_dict, to_config_dict
from socialjepa_jax.evaluation import controls
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.report import tables
from tests.evaluation import oracle

ROOT = pathlib.Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "rivals"
SIZES = {  # all in which an objective may differ from its defaults
    "encoder", "vit", "views", "outputs", "prototypes", "predictor", "mlp_width", "target_norm",
    "projector_width", "projector_dim", "predictor_width", "latent_encoder", "decoder_width",
    "decoder_depth", "decoder_heads", "decoder_patch",
}  # fmt: skip


def test_every_objective_on_pictures_has_its_defaults_but_for_sizes():
    assert methods.METHODS.keys() == OBJECTIVES.keys() - {"frame_pairs"}
    for name, method in methods.METHODS.items():
        ours, default = method.objective, OBJECTIVES[name]()
        assert ours.kind == name
        changed = {
            field.name
            for field in dataclasses.fields(ours)
            if getattr(ours, field.name) != getattr(default, field.name)
        }
        assert changed <= SIZES, name


@pytest.mark.parametrize("name", methods.METHODS)
def test_six_agents_have_two_cameras_and_their_own_seeds(name):
    chosen = methods.experiment(name, 50)
    assert chosen.agents.cameras == (0, 0, 0, 1, 1, 1)
    assert chosen.agents.seeds == (0, 1, 2, 3, 4, 5)
    assert chosen.run.steps == 50
    assert from_config_dict(to_config_dict(chosen)) == chosen


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Latents of six agents before and after training, and their rows."""
    chosen = methods.experiment("vicreg", 25, **toys.SMOKE)
    data = dataclasses.replace(
        chosen.data, image_size=12, elevations=(0, 4, 8), lightings=(0, 3), instances=4
    )
    cache = tmp_path_factory.mktemp("cache")
    dataset = data.load(cache)
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(dataset.num_states, 4))

    def draw(noise):
        mixed = shared @ rng.normal(size=(6, 4, 4))
        return (mixed + noise * rng.normal(size=mixed.shape)).astype(np.float32)

    latents = draw(0.1), draw(1.0)
    return chosen, dataset, latents, toys.pair_rows(chosen, dataset, *latents, cache)


def by_hand(chosen, dataset, x, y):
    """The metrics of one pair in float64 NumPy."""
    split, classes = evaluation.splits(dataset)[0], len(dataset.label_names)
    rows = split.train, split.test
    return oracle.measure(chosen.alignment, x, y, dataset.labels, classes, *rows, ("inverse",))[
        "inverse"
    ]


def test_pairs_are_those_of_the_same_number_on_both_cameras(measured):
    chosen, dataset, latents, rows = measured
    of = {row["row"]: row for row in rows}
    for row, z in zip(("trained", "untrained"), latents, strict=True):
        expected = [by_hand(chosen, dataset, z[k], z[3 + k]) for k in range(3)]
        np.testing.assert_allclose(of[row]["pairs"], [m["r2"] for m in expected], rtol=1e-6)
        for name in ("r2", "shared_dims", "nos@10"):
            mean = np.mean([m[name] for m in expected])
            assert of[row][name]["value"] == pytest.approx(mean, rel=1e-6)
            assert of[row][name]["low"] <= mean <= of[row][name]["high"]
        for name in ("probe_own", "probe_transferred"):
            assert of[row][name] == pytest.approx(np.mean([m[name] for m in expected]))
    gain = of["gain"]["r2"]
    difference = of["trained"]["r2"]["value"] - of["untrained"]["r2"]["value"]
    assert gain["value"] == pytest.approx(difference) and 0 < gain["low"] < difference
    x, y = (controls.pixel_pca(v, evaluation.splits(dataset)[0].train, 4) for v in dataset.images)
    r2 = by_hand(chosen, dataset, x, y)["r2"]
    np.testing.assert_allclose(of["pixel_pca"]["pairs"], [r2] * 3, rtol=1e-6)


def agents(**changes):
    return {
        "method": "dino", "row": "agents", "rankme": [9.0, 5.0],
        "first_loss": [5.5, 5.5], "last_loss": [4.0, 4.4],
        "parts": {"loss": {"chance": [5.0, 5.0], "last": [4.0, 4.4]}}, **changes,
    }  # fmt: skip


def gained(low):
    return {"method": "dino", "row": "gain", "r2": {"value": low + 0.1, "low": low, "high": 1.0}}


@pytest.mark.parametrize(
    ("changes", "low", "verdicts"),
    [
        ({}, 0.1, {"rank": True, "loss": True, "r2": True}),
        ({"rankme": [9.0, 3.9]}, -0.1, {"rank": False, "loss": True, "r2": False}),
        (
            {"parts": {"loss": {"chance": [5.0, 5.0], "last": [4.0, 4.8]}}},
            0.1,
            {"rank": True, "loss": False, "r2": True},
        ),
        (
            {"parts": {"loss": {"chance": [5.0, 5.0], "last": [0.2, 4.0]}}},
            0.1,
            {"rank": True, "loss": False, "r2": True},
        ),
    ],
)
def test_claims_are_judged_by_the_worst_agent(changes, low, verdicts):
    found = toys.claims([agents(**changes), gained(low)], "dino")
    assert {claim.id.split("/")[1]: claim.agrees for claim in found} == verdicts
    assert found[0].ours == min(changes.get("rankme", [5.0]))


def test_losses_are_those_of_all_agents_and_their_chance():
    calls = [
        {"loss": np.array([[5.0, 4.0], [6.0, 4.0]]), "chance": np.full((2, 2), 4.8)},
        {"loss": np.array([[3.0, 1.0], [4.0, 2.0]]), "chance": np.full((2, 2), 4.8)},
    ]
    found = toys._losses_of("simclr", calls)
    assert found["first_loss"] == [5.0, 6.0] and found["last_loss"] == [2.0, 3.0]
    assert found["parts"] == {"loss": {"chance": [4.8, 4.8], "last": [2.0, 3.0]}}
    assert toys._losses_of("swav", calls)["parts"]["loss"]["chance"] == [np.log(64)] * 2
    assert toys._losses_of("vicreg", calls)["parts"] == {}


def test_the_documents_have_the_tables_of_the_stored_run():
    rows = [
        row
        for name in methods.METHODS
        if (path := GOLDEN / f"toys_{name}.json").exists()
        for row in json.loads(path.read_text())
    ]
    text = (ROOT / "docs" / "results.md").read_text()
    for table in (toys.metrics_table(rows), toys.losses_table(rows)):
        assert tables.to_markdown(dataclasses.replace(table, caption="")).strip() in text
    of = {row: [r for r in rows if r["row"] == row] for row in ("agents", "trained", "untrained")}
    shared = {row: [r["shared_dims"]["value"] for r in of[row]] for row in ("trained", "untrained")}
    ranks = {r["method"]: r["rankme"] for r in of["agents"]}
    least, most = min(shared["trained"]), max(shared["trained"])
    assert f"({least:.1f} to {most:.1f}, untrained {shared['untrained'][0]:.1f})" in text
    assert f"untrained agents ({of['untrained'][0]['rankme']['value']:.1f})" in text
    assert f"RankMe {min(ranks['dino']):.1f} to {max(ranks['dino']):.1f}" in text
    assert all(r["probe_transferred"] < 0.5 * r["probe_own"] for r in of["trained"])
    agree = {name: [c.agrees for c in toys.claims(rows, name)] for name in toys.names(rows)}
    assert agree == {
        "masked_lejepa": [True, False], "simclr": [True, True, False], "infonce": [True, False],
        "vicreg": [True, False], "dino": [False, False, False],
    }  # fmt: skip


@pytest.mark.nightly
def test_a_method_is_trained_and_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(toys, "METHODS", {name: methods.METHODS[name] for name in ("swav", "moco")})
    first = toys.run("smoke", tmp_path)
    again = toys.run("smoke", tmp_path)  # read
    assert first.rows == again.rows
    assert {row["method"] for row in first.rows} == {"swav", "moco"}
    assert [len(row["rankme"]) for row in first.rows if row["row"] == "agents"] == [4, 4]
