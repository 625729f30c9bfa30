"""Rows of a world in motion, recomputed from planted latents with SciPy and scikit-learn."""

import dataclasses
import itertools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score

from socialjepa_jax import alignment
from socialjepa_jax.evaluation import controls, moving, readouts, scalars
from socialjepa_jax.evaluation import evidence as evidence_lib
from socialjepa_jax.evaluation.splits import Split
from tests.evaluation import planted
from tests.evaluation.planted import NAMES, NUM, RHO, STEPS, wide

ROWS = {
    "trained", "orthogonal", "actions", "untrained", "untrained_hidden", "pixel_pca",
    "pixel_pca_wide", "random_projection", "all_pixels", "mismatched",
}  # fmt: skip


@pytest.fixture(scope="module")
def planted_run():
    return planted.encoded((0, 1, 0))


@pytest.fixture(scope="module")
def experiment(planted_run):
    return planted_run.experiment


@pytest.fixture(scope="module")
def dataset(planted_run):
    return planted_run.dataset


@pytest.fixture(scope="module")
def latents(planted_run):
    return planted_run.latents


@pytest.fixture(scope="module")
def evidence(planted_run):
    return planted_run.evidence


@pytest.fixture(scope="module")
def rows(planted_run):
    return moving.alignment_rows(planted_run)


@pytest.fixture(scope="module")
def split(planted_run):
    return planted_run.split


def find(rows, name, pair=(0, 1), back="inverse"):
    """The metrics of the one row of this kind."""
    x, y = (f"agent_{k}" for k in pair)
    backs = (back, "none") if name == "all_pixels" else (back,)
    (row,) = [r for r in rows if (r["row"], r["x"], r["y"]) == (name, x, y) and r["back"] in backs]
    return row["metrics"]


def of_states(z, states, split, rows=None):
    """R2 of every state by a ridge readout of standardised latents."""
    rows = split.train if rows is None else rows
    mean, std = z[rows].mean(0), z[rows].std(0)
    target_mean, target_std = states[rows].mean(0), states[rows].std(0)
    model = Ridge(alpha=1e-3, fit_intercept=False)
    model.fit((z[rows] - mean) / std, (states[rows] - target_mean) / target_std)
    predicted = model.predict((z[split.test] - mean) / std) * target_std + target_mean
    return r2_score(states[split.test], predicted, multioutput="raw_values")


def pooled(y, predicted):
    return r2_score(y, predicted, multioutput="variance_weighted")


def test_every_control_stands_beside_the_pairs_of_two_cameras(rows):
    cross = {r["row"] for r in rows if (r["x"], r["y"]) == ("agent_0", "agent_1")}
    assert cross == {r["row"] for r in rows if (r["x"], r["y"]) == ("agent_1", "agent_2")} == ROWS
    assert {r["row"] for r in rows if (r["x"], r["y"]) == ("agent_0", "agent_2")} == {"same_camera"}
    methods = {r["row"]: r["method"] for r in rows}
    assert methods["orthogonal"] == "procrustes" and methods["actions"] == "actions"
    assert methods["all_pixels"] == "none"
    assert {methods[name] for name in ROWS - {"orthogonal", "actions", "all_pixels"}} == {"ridge"}
    backs = {r["back"] for r in rows if r["row"] == "trained"}
    assert backs == {"inverse", "none", "forward", "regression"}
    assert {r["back"] for r in rows if r["row"] == "actions"} == {"inverse"}
    assert {r["split"] for r in rows} == {"state"} and {r["seed"] for r in rows} == {0}
    assert all(np.isfinite(v) for r in rows for v in r["metrics"].values())


def test_r2_of_the_state_in_both_spaces_of_every_row(rows, dataset, latents, evidence, split):
    spaces = {
        "trained": latents, "orthogonal": latents, "actions": latents,
        "untrained": evidence.untrained, "untrained_hidden": evidence.untrained_hidden,
    }  # fmt: skip
    for name, z in spaces.items():
        for pair in ((0, 1), (1, 2)):
            metrics = find(rows, name, pair)
            for end, agent in zip(("_x", ""), pair):
                expected = of_states(wide(z[agent]), wide(dataset.states), split)
                found = [metrics[f"state_r2{end}/{state}"] for state in NAMES]
                np.testing.assert_allclose(found, expected, atol=1e-6)
                np.testing.assert_allclose(metrics[f"state_r2{end}"], expected.mean(), atol=1e-6)
    expected = of_states(wide(latents[2]), wide(dataset.states), split)
    assert find(rows, "same_camera", (0, 2))["state_r2"] == pytest.approx(expected.mean(), abs=1e-6)


def test_r2_of_the_maps(rows, latents, evidence, split):
    x, y = wide(latents[0]), wide(latents[1])
    train, test = split.train, split.test
    x_mean, y_mean, y_std = x[train].mean(0), y[train].mean(0), y[train].std(0)
    model = Ridge(alpha=1e-3, fit_intercept=False)
    model.fit((x[train] - x_mean) / x[train].std(0), (y[train] - y_mean) / y_std)
    predicted = model.predict((x[test] - x_mean) / x[train].std(0))
    trained = find(rows, "trained")
    assert trained["r2"] == pytest.approx(pooled((y[test] - y_mean) / y_std, predicted), abs=1e-6)
    gram = model.coef_.T @ model.coef_
    orthogonality = np.linalg.norm(gram - np.eye(3)) / 3**0.5
    assert trained["orthogonality"] == pytest.approx(orthogonality, rel=1e-4)
    assert (trained["n_train"], trained["n_test"]) == (200, 100)

    turn, _ = linalg.orthogonal_procrustes(x[train] - x_mean, y[train] - y_mean)
    expected = pooled(y[test], (x[test] - x_mean) @ turn + y_mean)
    orthogonal = find(rows, "orthogonal")
    assert orthogonal["r2"] == pytest.approx(expected, abs=1e-6)
    assert orthogonal["orthogonality"] == pytest.approx(0.0, abs=1e-6)

    responses = []
    for agent in (0, 1):
        h = wide(evidence.walks.latents[agent]) - latents[agent][train].mean(0, np.float64)
        known = np.concatenate([h[:-1], evidence.walks.actions[agent]], axis=1)
        model = LinearRegression(fit_intercept=False).fit(known, h[1:])
        responses.append(model.coef_[:, 3:])
    w, _ = linalg.polar(responses[1] @ responses[0].T)
    actions = find(rows, "actions")
    expected = pooled(y[test], (x[test] - x_mean) @ w.T + y_mean)
    assert actions["r2"] == pytest.approx(expected, abs=1e-5)
    assert actions["n_train"] == STEPS and orthogonal["r2"] - 0.1 < actions["r2"] < 0.97

    assert find(rows, "mismatched")["r2"] < 0.05 and find(rows, "untrained")["r2"] < 0.1
    assert find(rows, "mismatched")["state_r2_x"] == trained["state_r2_x"]  # x is not shuffled
    assert find(rows, "same_camera", (0, 2))["r2"] > 0.8


def test_every_agent_is_compared_with_the_theory(rows, dataset, latents, evidence):
    """Theorem 3's bound and the error; the transition of the agent's own walk."""
    z = wide(dataset.states)
    for pair in ((0, 1), (1, 2)):
        trained = find(rows, "trained", pair)
        for end, agent in zip(("_x", ""), pair):
            h, walk = wide(latents[agent]), evidence.walks.latents[agent]
            covariance, steps = np.cov(h.T), itertools.pairwise(walk)
            loss = np.mean([np.sum((after - before) ** 2) for before, after in steps])
            excess = loss - 2 * (1 - RHO) * np.trace(covariance)
            degree = max(excess, 0) / (2 * RHO * (1 - RHO))
            epsilon = np.linalg.norm(covariance - np.eye(3))
            assert trained[f"bound_epsilon{end}"] == pytest.approx(epsilon)
            assert trained[f"bound_nonlinearity{end}"] == pytest.approx(degree)
            assert trained[f"bound{end}"] == pytest.approx(degree + (epsilon + degree) ** 2)
            turn, _ = linalg.orthogonal_procrustes(z - z.mean(0), h - h.mean(0))
            left = (h - h.mean(0)) - (z - z.mean(0)) @ turn
            assert trained[f"recovery_error{end}"] == pytest.approx(np.sum(left**2) / NUM)

            known = np.concatenate([walk[:-1] - h.mean(0), evidence.walks.actions[agent]], axis=1)
            fitted = LinearRegression(fit_intercept=False).fit(known, walk[1:] - h.mean(0))
            a = fitted.coef_[:, :3]
            off = turn @ a @ turn.T - RHO * np.eye(3)
            assert trained[f"transition_error{end}"] == pytest.approx(np.linalg.norm(off) / 3**0.5)
            assert trained[f"rho_recovered{end}"] == pytest.approx(np.trace(a) / 3)
            assert trained[f"rho_error{end}"] == pytest.approx(
                np.abs(linalg.eigvals(a) - RHO).max()
            )
            assert trained[f"rho_true{end}"] == pytest.approx(RHO)
    for name in ("orthogonal", "actions", "untrained"):
        assert not [k for k in find(rows, name) if k.startswith(("bound", "recovery", "rho"))]
    assert not [k for k in find(rows, "same_camera", (0, 2)) if k.startswith(("bound", "rho"))]


def test_five_pairs(rows, latents, split):
    x, y = (wide(z) - wide(z)[split.train].mean(0) for z in latents[:2])
    rng, scores = np.random.default_rng(0), []
    for _ in range(20):
        few = rng.choice(split.train, 5, replace=False)
        turn, _ = linalg.orthogonal_procrustes(x[few], y[few])
        std = y[split.train].std(0)
        scores.append(pooled(y[split.test] / std, x[split.test] @ turn / std))
    assert find(rows, "trained")["few_pairs_r2"] == pytest.approx(np.mean(scores), abs=1e-5)
    assert 0.5 < np.mean(scores) < find(rows, "trained")["r2"]


def test_readouts_that_are_carried_and_own_ones(rows, dataset, latents, split):
    """The readout of one agent, on the latents of the other mapped back."""
    x, y, states = wide(latents[0]), wide(latents[1]), wide(dataset.states)
    x_mean, y_mean = x[split.train].mean(0), y[split.train].mean(0)
    source = LinearRegression().fit(x[split.train], states[split.train])
    back = LinearRegression().fit(y[split.train], x[split.train])
    turn, _ = linalg.orthogonal_procrustes(x[split.train] - x_mean, y[split.train] - y_mean)
    ways = {
        "trained": back.predict(y[split.test]),
        "orthogonal": (y[split.test] - y_mean) @ turn.T + x_mean,
    }
    for name, mapped in ways.items():
        expected = r2_score(states[split.test], source.predict(mapped))
        assert find(rows, name)["readout_carried"] == pytest.approx(expected, abs=1e-4)
        each = r2_score(states[split.test], source.predict(mapped), multioutput="raw_values")
        for state, r2 in zip(dataset.state_names, each):
            assert find(rows, name)[f"readout_carried/{state}"] == pytest.approx(r2, abs=1e-4)
    assert 0.8 < find(rows, "actions")["readout_carried"] < find(rows, "trained")["state_r2"]

    trained, rng = find(rows, "trained"), np.random.default_rng(0)
    for count in (5, 20, 100):
        draws = [rng.choice(split.train, count, replace=False) for _ in range(20)]
        expected = np.mean([of_states(y, states, split, few).mean() for few in draws])
        assert trained[f"readout_own@{count}"] == pytest.approx(expected, abs=1e-5)
    assert trained["readout_own@5"] < trained["readout_own@100"] < trained["state_r2"] + 0.01
    assert not [
        k for k in find(rows, "untrained") if k.startswith(("readout_own", "few", "rotation"))
    ]


def test_controls_of_pixels(rows, experiment, dataset, split):
    states = wide(dataset.states)
    for pair, cameras in (((0, 1), (0, 1)), ((1, 2), (1, 0))):
        pixels = [dataset.images[k].reshape(NUM, -1) / 255.0 for k in cameras]
        found = find(rows, "all_pixels", pair)
        assert "r2" not in found and found["n_train"] == 200
        for end, camera in zip(("_x", ""), cameras):
            predicted = controls.pixel_readout(
                dataset.images[camera], dataset.states, split.train, split.test
            )
            expected = r2_score(states[split.test], predicted, multioutput="raw_values")
            assert found[f"state_r2{end}"] == pytest.approx(expected.mean(), abs=1e-6)
            for name, value in zip(NAMES, expected):
                assert found[f"state_r2{end}/{name}"] == pytest.approx(value, abs=1e-6)
        for name, width in (("pixel_pca", 3), ("pixel_pca_wide", 12)):
            spaces = []
            for each in pixels:
                centred = each - each[split.train].mean(0)
                _, _, vt = np.linalg.svd(centred[split.train], full_matrices=False)
                spaces.append(centred @ vt[:width].T)
            for end, z in zip(("_x", ""), spaces):  # a readout does not see how they are turned
                model = LinearRegression().fit(z[split.train], states[split.train])
                expected = r2_score(states[split.test], model.predict(z[split.test]))
                assert find(rows, name, pair)[f"state_r2{end}"] == pytest.approx(expected, abs=1e-3)
        projected = [controls.random_projection(dataset.images[k], 3, seed=k) for k in cameras]
        fitted = alignment.fit(
            *(z[split.train] for z in projected), ridge=experiment.alignment.ridge
        )
        expected = alignment.r2(fitted, *(z[split.test] for z in projected))
        assert find(rows, "random_projection", pair)["r2"] == pytest.approx(expected, abs=1e-6)
    bare = evidence_lib.Encoded(experiment, dataset, *_nothing(dataset))
    without = moving.pair_rows(bare, (0, 1), pixels=None)
    assert {r["row"] for r in without} == ROWS - {
        "actions", "pixel_pca", "pixel_pca_wide", "random_projection", "all_pixels"
    }  # fmt: skip


def _nothing(dataset):
    """Latents that hold the states, and no evidence but noise."""
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(3, NUM, 3))
    return np.stack([dataset.states] * 3) + noise, evidence_lib.Evidence(noise, noise)


def test_few_states_leave_out_what_needs_more():
    rng = np.random.default_rng(4)
    states, x, y = rng.normal(size=(3, 30, 3))
    small = Split("state", np.arange(4), np.arange(4, 30))
    assert readouts.own_readouts(y, states, small) == {}
    assert np.isfinite(moving.few_pairs_r2(x, y, small))


def test_the_state_of_every_agent_is_logged(experiment, dataset, latents, split):
    found = scalars(experiment, dataset, latents)
    for agent in range(3):
        expected = of_states(wide(latents[agent]), wide(dataset.states), split).mean()
        assert found[f"agent_{agent}/state_r2"] == pytest.approx(expected, abs=1e-6)
    without = dataclasses.replace(dataset, states=None, state_names=())
    assert not [k for k in scalars(experiment, without, latents) if k.endswith("state_r2")]


def test_r2_of_states_is_about_their_mean():
    states = np.random.default_rng(5).normal(size=(30, 3)) + 5.0
    predicted = states + 0.1
    expected = r2_score(states, predicted, multioutput="raw_values")
    np.testing.assert_allclose(readouts.r2_of_states(predicted, states), expected, rtol=1e-12)


def test_evidence_is_encoded_from_untrained_agents_and_from_walks():
    """Encoders here add up pixels; chunks are padded, and the padding is cut off."""
    images = np.arange(2 * 7).reshape(2, 7, 1, 1, 1).astype(np.uint8)

    def chunks(source, size=3):
        for first in range(0, source.shape[1], size):
            rows = np.minimum(np.arange(first, first + size), source.shape[1] - 1)
            yield source[:, rows]

    class Feed:
        def __init__(self, actions):
            self.good, self.cameras = np.ones(7, bool), (0, 1)
            self.mean = self.std = jnp.ones((2, 1))
            self.actions, self.rho = actions, np.full(2, RHO)

        def states(self):
            return chunks(images)

        def walked(self):
            return chunks(images[:, :5] + 100)

        def at(self, step): ...
        def begin(self, passed_over): ...
        def scalars(self, seconds): ...
        def close(self): ...

    def encode(state, images, mean, std):
        return jnp.asarray(images, jnp.float32)[..., 0, 0, :] * state

    trainer = types.SimpleNamespace(
        encode=encode,
        encode_all=lambda *args: {"latent": encode(*args), "hidden": encode(*args).repeat(2, -1)},
    )
    actions = np.zeros((2, 4, 3))
    found = evidence_lib.gather(trainer, jnp.float32(-1.0), jnp.float32(2.0), Feed(actions))
    np.testing.assert_array_equal(found.untrained, -images[..., 0, 0, :].astype(float))
    assert found.untrained_hidden.shape == (2, 7, 2)
    np.testing.assert_array_equal(found.walks.latents, 2.0 * images[:, :5, 0, 0, :] + 200)
    assert found.walks.actions is actions
    np.testing.assert_array_equal(found.walks.rho, np.full(2, RHO))
    without = evidence_lib.gather(trainer, jnp.float32(1.0), jnp.float32(1.0), Feed(None))
    assert without.walks is None
    jax.block_until_ready(found.walks.latents)


def test_within_blocks_of_time_pairs_are_shuffled_too(planted_run):
    """Latents that know their block alone agree as well as the right pairs do."""
    blocks = np.arange(NUM) // 30
    dataset = dataclasses.replace(planted_run.dataset, instance_ids=blocks.astype(np.int32))
    rng = np.random.default_rng(0)
    level = rng.normal(size=(10, 3))[blocks]
    latents = np.stack([level + 0.1 * rng.normal(size=level.shape) for _ in range(3)])
    found = dataclasses.replace(planted_run, dataset=dataset, latents=latents.astype(np.float32))
    rows = moving.pair_rows(found, (0, 1), pixels=None)
    r2 = {row["row"]: row["metrics"]["r2"] for row in rows if row["back"] == "inverse"}
    assert r2["mismatched"] < 0.1 and 0.9 < r2["mismatched_cell"] <= r2["trained"] + 0.02
