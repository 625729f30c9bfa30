"""alignment.json computed again from latents/*.npz and the splits, key by key.

The world is made so that every leak, swap and wrong direction is another number: agents share
some dimensions and hold others alone, scales and offsets are far from 1 and 0, held-out states are
noisier than those that are fitted, and labels are hard to read.
"""

import dataclasses
import json

import numpy as np
import pytest

from configs import toys_ijepa
from socialjepa_jax import alignment, evaluation
from socialjepa_jax import config as config_lib
from socialjepa_jax.config import Agents, Alignment
from socialjepa_jax.data import ViewDataset
from socialjepa_jax.evaluation import controls
from socialjepa_jax.evaluation import table as table_lib
from socialjepa_jax.records import write_json
from tests.evaluation import oracle
from tests.evaluation.oracle import BACKS, Agent

CAMERAS, SEED, DIM = (0, 1, 0), 5, 7
HOW = Alignment(ridge=9.0, kappa_max=8.0, neighbors=(1, 5, 20, 999), probe_ridge=40.0)
PROBES = ("probe_own", "probe_transferred", "probe_regression", "probe_raw")


def make_dataset():
    """4 shapes x 4 objects x 3 elevations x 8 lightings; the label is another matter."""
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*map(np.arange, (4, 4, 3, 8)), indexing="ij"), -1).reshape(-1, 4)
    count = len(grid)
    # Of the object, but for 30 %; a factor of the table would vanish with the shared factors.
    labels = rng.integers(0, 4, 16)[grid[:, 0] * 4 + grid[:, 1]]
    labels = np.where(rng.random(count) < 0.3, rng.integers(0, 4, count), labels)
    return ViewDataset(
        name="grid",
        images=rng.integers(0, 256, (2, count, 4, 4, 1), dtype=np.uint8),
        state_ids=np.arange(count) * 3,
        instance_ids=(grid[:, 0] * 4 + grid[:, 1]).astype(np.int32),
        labels=labels.astype(np.int32),
        label_names=("a", "b", "c", "d"),
        factors=grid.astype(np.int32),
        factor_names=("shape", "instance", "elevation", "lighting"),
        split_state=(rng.random(count) < 0.3).astype(np.int32),
        split_instance=(grid[:, 1] == (grid[:, 0] + 1) % 4).astype(np.int32),
        overlap=0.0,
    )


def make_latents(dataset, seed, share):
    """Latents [3, N, 7] of objects, elevation and state; held-out states have more noise."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(16, 5))[dataset.instance_ids]]
    parts += [0.7 * rng.normal(size=(3, 5))[dataset.factor("elevation")]]
    hidden = sum(parts) + rng.normal(size=(dataset.num_states, 5))
    held_out = (dataset.split_state | dataset.split_instance)[:, None]
    agents = []
    for k in range(3):
        own = rng.normal(size=(dataset.num_states, DIM)) * (0.6 + 0.8 * held_out + 0.3 * k)
        mixed = share * hidden @ rng.normal(size=(5, DIM)) + own + 0.4 * held_out
        agents.append(mixed * rng.uniform(0.1, 9, DIM) + rng.normal(size=DIM) * 20)
    return np.stack(agents).astype(np.float32)


@pytest.fixture(scope="module")
def dataset():
    return make_dataset()


@pytest.fixture(scope="module")
def experiment():
    made = config_lib.from_config_dict(toys_ijepa.get_config())
    return dataclasses.replace(made, seed=SEED, alignment=HOW, agents=Agents(CAMERAS, (0, 1, 2)))


@pytest.fixture(scope="module")
def untrained(dataset):
    return evaluation.Untrained(*(make_latents(dataset, seed, 0.3) for seed in (2, 3)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, dataset, experiment, untrained):
    """The files that a run leaves."""
    path, latents = tmp_path_factory.mktemp("run"), make_latents(dataset, 1, 1.0)
    evaluation.save_latents(path, dataset, latents)
    evaluation.save_maps(path, HOW, CAMERAS, dataset, latents)
    rows = evaluation.alignment_rows(experiment, dataset, latents, untrained)
    write_json(path / "alignment.json", {"schema": 1, "rows": rows})
    return path


@pytest.fixture(scope="module")
def agents(folder):
    return [Agent.read(folder / "latents" / f"agent_{k}.npz") for k in range(3)]


@pytest.fixture(scope="module")
def table(folder):
    rows = json.loads((folder / "alignment.json").read_text())["rows"]
    named = {tuple(row[key] for key in ("x", "y", "row", "split", "back")): row for row in rows}
    assert len(named) == len(rows)
    assert {(row["seed"], row["method"]) for row in rows} == {(SEED, "ridge")}
    return {key: row["metrics"] for key, row in named.items()}


def shuffles(agent, split):
    """The wrong pairs of a split: among all states, and among those of one cell."""
    rng, parts = np.random.default_rng(SEED), agent.rows(split)
    shared = np.stack([agent.factors[name] for name in ("shape", "elevation", "lighting")])
    _, cells = np.unique(shared, axis=1, return_inverse=True)
    anywhere = controls.shuffled_within(np.zeros_like(cells), parts, rng)
    return anywhere, controls.shuffled_within(cells.ravel(), parts, rng)


def spaces(agents, untrained, dataset, i, j, split):
    """Row -> (x, y) of the pair (i, j)."""
    first, second = agents[i], agents[j]
    if CAMERAS[i] == CAMERAS[j]:
        return {"same_camera": (first.z, second.z)}
    train, _ = first.rows(split)
    anywhere, in_cell = shuffles(first, split)
    found = {
        "trained": (first.z, second.z),
        "untrained": (untrained.own_init[i], untrained.own_init[j]),
        "untrained_same_init": (untrained.same_init[i], untrained.same_init[j]),
        "pixel_pca": tuple(
            controls.pixel_pca(dataset.images[CAMERAS[k]], train, DIM) for k in (i, j)
        ),
        "mismatched": (first.z, second.z[anywhere]),
        "mismatched_cell": (first.z, second.z[in_cell]),
    }
    features = first.shared_factors()
    for row, name in (("trained", "partialled"), ("untrained", "untrained_partialled"),
                      ("pixel_pca", "pixel_pca_partialled")):  # fmt: skip
        found[name] = tuple(
            z - oracle.explained(features, np.asarray(z, np.float64), train, 1e-6)
            for z in found[row]
        )
    return found


def expected_rows(agents, untrained, dataset, how=HOW):
    """(x, y, row, split, back) -> metrics, of all pairs and splits."""
    found = {}
    for i, j in ((0, 1), (0, 2), (1, 2)):
        for split in ("instance", "state"):
            train, test = agents[i].rows(split)
            names = f"agent_{i}", f"agent_{j}"
            for row, (x, y) in spaces(agents, untrained, dataset, i, j, split).items():
                backs = BACKS if row == "trained" else ("inverse",)
                measured = oracle.measure(how, x, y, agents[i].labels, 4, train, test, backs)
                found |= {(*names, row, split, back): m for back, m in measured.items()}
            if CAMERAS[i] != CAMERAS[j]:
                features = agents[i].shared_factors()
                found[*names, "shared_factors", split, "none"] = oracle.shared_factors_row(
                    features, agents[j].z, train, test
                )
    return found


def check(found, expected, where, rtol=1e-6, atol=1e-8):
    assert found.keys() - {"dsc_bound"} == expected.keys(), where
    assert found.get("dsc_bound", 0) == 0  # so few rows are measured exactly
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol, atol, err_msg=f"{where} {key}")


def test_every_key_of_every_row(table, agents, untrained, dataset):
    expected = expected_rows(agents, untrained, dataset)
    assert table.keys() == expected.keys()
    for where, metrics in expected.items():
        # Residuals pass through float32, whose last digit is 1e-7 of the latents.
        loose = {"rtol": 2e-5, "atol": 2e-6} if "partialled" in where[2] else {}
        check(table[where], metrics, where, **loose)


def test_the_saved_maps_are_those_of_the_headline(folder, agents):
    apart = [(i, j) for i, j in ((0, 1), (0, 2), (1, 2)) if CAMERAS[i] != CAMERAS[j]]
    names = {f"agent_{i}_agent_{j}.npz" for i, j in apart}
    assert {path.name for path in (folder / "maps").iterdir()} == names
    train, _ = agents[0].rows("instance")
    for i, j in apart:
        x, y = (agents[k].z[train] for k in (i, j))
        expected = oracle.solve(oracle.Standard.of(x)(x), oracle.Standard.of(y)(y), HOW).T
        found = alignment.LinearMap.load(folder / "maps" / f"agent_{i}_agent_{j}.npz")
        np.testing.assert_allclose(found.w, expected, rtol=1e-6, atol=1e-8)


def test_the_world_tells_rows_columns_and_ways_back_apart(table):
    """Otherwise the test above could not see a swap."""
    trained = {key: metrics for key, metrics in table.items() if key[2] == "trained"}
    assert any(len({metrics[name] for name in PROBES}) == 4 for metrics in trained.values())
    for key in ("dsc", "nos@5", "cka", "cka_debiased"):
        for pair in {where[:2] + where[3:4] for where in trained}:
            ways = {round(trained[*pair[:2], "trained", pair[2], b][key], 4) for b in BACKS}
            assert len(ways) == 4
    r2 = {where[:4]: round(metrics["r2"], 5) for where, metrics in table.items()}
    assert len(set(r2.values())) == len(r2)
    assert all(1 < metrics["rank"] < DIM for metrics in trained.values())  # kappa_max cuts


def test_the_scalars_that_training_logs(experiment, dataset, agents):
    latents = np.stack([agent.z for agent in agents]).astype(np.float32)
    expected = {
        f"agent_{k}/{name}": value
        for k, agent in enumerate(agents)
        for name, value in oracle.collapse(agent.z).items()
    }
    for i, j in ((0, 1), (0, 2), (1, 2)):
        for split in ("instance", "state"):
            spaces = agents[i].z, agents[j].z, agents[i].labels
            rows = oracle.measure(HOW, *spaces, 4, *agents[i].rows(split), ("none",))
            expected[f"pair_{i}_{j}/{split}/r2"] = rows["none"]["r2"]
    check(evaluation.scalars(experiment, dataset, latents), expected, "scalars", rtol=1e-5)


@pytest.mark.parametrize("method", ["ridge", "lstsq", "procrustes"])
def test_spaces_of_different_width(dataset, agents, method):
    how = dataclasses.replace(HOW, method=method)
    x, y = agents[0].z[:, :5], agents[1].z
    (split, _) = evaluation.splits(dataset)
    subject = evaluation.Subject("trained", split, (0, 1), x, y)
    rows = table_lib.measure(how, dataset, subject, BACKS)
    expected = oracle.measure(how, x, y, agents[0].labels, 4, *agents[0].rows("instance"), BACKS)
    assert [row["back"] for row in rows] == list(BACKS)
    for row in rows:
        assert (row["x"], row["y"], row["method"]) == ("agent_0", "agent_1", method)
        check(row["metrics"], expected[row["back"]], (method, row["back"]))
