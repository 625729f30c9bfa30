"""Every objective on the toy world: its settings, its measures on made latents, and its claims."""

import dataclasses
import json
import pathlib

import jax
import numpy as np
import pytest

from experiments.rivals import methods, toys
from socialjepa_jax import evaluation
from socialjepa_jax.config import from_config_dict, to_config_dict
from socialjepa_jax.evaluation import controls
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.report import tables
from socialjepa_jax.sharding import ONE_DEVICE
from tests.evaluation import oracle

ROOT = pathlib.Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "rivals"
SIZES = {  # all in which an objective may differ from its defaults
    "encoder", "vit", "views", "outputs", "prototypes", "predictor", "mlp_width", "target_norm",
    "projector_width", "projector_dim", "predictor_width", "latent_encoder", "decoder_width",
    "decoder_depth", "decoder_heads", "decoder_patch",
}  # fmt: skip


def test_every_objective_on_pictures_has_its_defaults_but_for_sizes():
    assert methods.METHODS.keys() == OBJECTIVES.keys() - {
        "frame_pairs",
        "migration",
        "mutual",
        "mutual_classes",
        "crossed",
    }
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
    paths = [GOLDEN / f"toys_{name}.json" for name in methods.METHODS]
    rows = [row for path in paths for row in json.loads(path.read_text())]
    text = (ROOT / "docs" / "results.md").read_text()
    for table in (toys.metrics_table(rows), toys.losses_table(rows)):
        assert tables.to_markdown(dataclasses.replace(table, caption="")).strip() in text
    for sentence in sentences(rows):
        assert sentence in " ".join(text.split())


def listed(names):
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


def _dims(of, name, row):
    return of[name, row]["shared_dims"]["value"]


def sentences(rows):
    """What the documents say of the stored rows, without line breaks."""
    of = {(r["method"], r["row"]): r for r in rows}
    names = toys.names(rows)
    shared = {
        row: {f"{_dims(of, n, row):.1f}": None for n in names} for row in ("trained", "untrained")
    }
    ranks = {n: min(of[n, "agents"]["rankme"]) for n in names}
    least, most = min(ranks, key=ranks.get), max(ranks, key=ranks.get)
    parts = [p for n in names for p in of[n, "agents"]["parts"].values()]
    shares = [np.max(np.divide(p["last"], p["chance"])) for p in parts]
    gains = {n: of[n, "gain"]["r2"] for n in names}
    above = [n for n in names if gains[n]["low"] > 0]
    below = [n for n in names if gains[n]["high"] < 0]
    untrained = {f"{of[n, 'untrained']['rankme']['value']:.1f}": None for n in names}
    carried = [of[n, "trained"]["probe_transferred"] / of[n, "trained"]["probe_own"] for n in names]
    dims = sorted(map(float, shared["trained"]))
    fewer = [n for n in names if _dims(of, n, "trained") <= _dims(of, n, "untrained")]
    assert all(c.agrees for n in names for c in toys.claims(rows, n) if not c.id.endswith("/r2"))
    return [
        f"RankMe of the worst of six agents is {ranks[least]:.1f} ({least}) to {ranks[most]:.1f} "
        f"({most}), of untrained encoders {listed(list(untrained))}",
        f"ends at {100 * max(shares):.0f} % of it at most",
        f"Training adds to the R² of W for {listed(above)}",
        f"lowers it for {listed(below)}",
        f"The other {len(names) - len(above) - len(below)} intervals",
        f"for all but {listed(fewer)} ({dims[0]:.1f} to {dims[-1]:.1f}, untrained "
        f"{listed(list(shared['untrained']))})",
        f"keeps {100 * min(carried):.0f} to {100 * max(carried):.0f} % of the accuracy",
    ]


def test_the_build_notes_have_what_was_tried():
    notes = (ROOT / "BUILD_NOTES.md").read_text()
    for row in json.loads((GOLDEN / "tried.json").read_text()):
        uniform, loss = row["uniform"], f"{row['loss']:.2f}"
        share = f"{100 * row['loss'] / uniform:.1f} %" if uniform else "none"
        names = [row[key] for key in ("objective", "crops", "kernels", "optimiser")]
        cells = [*names, str(row["steps"]), loss, share, f"{row['rankme']:.1f}"]
        assert "| " + " | ".join(cells) + " |" in notes


@pytest.mark.nightly
def test_a_method_is_trained_and_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(toys, "METHODS", {name: methods.METHODS[name] for name in ("swav", "moco")})
    first = toys.run("smoke", tmp_path)
    again = toys.run("smoke", tmp_path)  # read
    assert first.rows == again.rows
    assert {row["method"] for row in first.rows} == {"swav", "moco"}
    assert [len(row["rankme"]) for row in first.rows if row["row"] == "agents"] == [4, 4]


def between_pictures(objective, images, draws=4):
    """The share of the variance of an untrained latent over crops that is between pictures."""
    statistics = {"mean": images.mean((0, 1, 2)), "std": images.std((0, 1, 2))}
    batch = {"image": images, "index": np.arange(len(images)), "step": np.int32(0), **statistics}

    @jax.jit
    def embed(key):
        params, _ = objective.init(jax.random.key(0))
        crops = objective.views(batch, key)[:1]
        return objective.embed_views(params, crops, ONE_DEVICE)[0].latents["cls"]

    z = np.concatenate([embed(jax.random.key(k)) for k in range(draws)], 1).astype(np.float64)
    within = z.var(1, ddof=1).mean(0).sum()
    between = z.mean(1).var(0, ddof=1).sum() - within / z.shape[1]
    return between / (between + within)


@pytest.mark.nightly
def test_jitter_hides_the_pictures_from_an_untrained_encoder(tmp_path):
    """Why those that learn from their own outputs have plain crops."""
    plain = methods.METHODS["dino"].objective
    jittered = dataclasses.replace(
        plain, encoder=methods.VIT, views=methods.METHODS["lejepa"].objective.views
    )
    dataset = methods.experiment("dino", 25).data.load(tmp_path)
    rows = np.random.default_rng(0).choice(dataset.num_states, 128, replace=False)
    images = dataset.images[0][rows].astype(np.float32) / 255
    assert between_pictures(jittered, images) < 0.05
    assert between_pictures(dataclasses.replace(jittered, views=plain.views), images) > 0.8
    assert between_pictures(plain, images) > 0.8
