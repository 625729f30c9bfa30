"""Measures of few pairs and none on codes whose map is known, and claims on known rows."""

import itertools

import jax
import numpy as np
import pytest

from experiments import findings
from experiments.motion.unpaired import acting, carrying, claims, experiment, inverse, rates
from socialjepa_jax.dynamics.driven import Driven

RATES = np.array([0.9, 0.7, 0.5])
NOISE = 0.1  # of codes: R2 between them is at most 1 - 2 * NOISE^2 / (1 + NOISE^2)
STATES = 8000


def agent(seed):
    """What `walkers` keeps of an agent whose code is a rotation of the state and noise."""
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    states = np.random.default_rng(5).normal(size=(STATES, 3))
    found = {"states": states, "test": np.arange(STATES) % 2 == 0}
    shown = {"states": states}
    for number, (name, count, steps) in enumerate(
        (("passive", 3, 4000), ("three", 3, 2000), ("one", 1, 2000))
    ):
        driven = Driven(3, count, 0.3)
        key = jax.random.fold_in(jax.random.key(seed), number)
        shown[name], actions = driven.walk(RATES.astype(np.float32), key, steps)
        found[f"{name}/actions"] = np.asarray(actions)
        found[f"{name}/push"] = np.sqrt((1 - RATES**2) * 0.3)[:, None] * driven.directions
    for name, z in shown.items():
        found[f"trained/{name}"] = np.asarray(z) @ q.T + NOISE * rng.normal(size=(len(z), 3))
    return found, q


@pytest.fixture(scope="module")
def known():
    (first, q1), (second, q2) = agent(1), agent(2)
    return carrying.Pair((first, second), "trained"), q2 @ q1.T


def value(rows, method, steps, measure="W"):
    (row,) = findings.select(rows, method=method, steps=steps, measure=measure)
    return row["value"]


CEILING = 1 - 2 * NOISE**2 / (1 + NOISE**2)


def test_the_true_map_has_the_r2_of_the_noise(known):
    pair, w = known
    assert pair.r2(w) == pytest.approx(CEILING, abs=0.005)
    assert pair.r2(-w) == pytest.approx(-3, abs=0.1)  # 1 - |2y|^2 / |y|^2
    assert pair.r2(np.zeros((3, 3)), 0.5) == pytest.approx(-0.25, abs=0.1)


def test_pairs_carry_the_directions_that_they_fix(known):
    pair, _ = known
    rows = carrying.from_pairs(pair, (1, 2, 5))
    assert value(rows, "procrustes", 1) == pytest.approx(1 / 3, abs=0.05)
    assert value(rows, "procrustes", 2) == pytest.approx(2 / 3, abs=0.1)
    assert value(rows, "rotation", 2) > 0.8 > 0.7 > value(rows, "ridge", 2)
    assert value(rows, "rotation", 1) < 0.3  # one pair leaves a turn about itself
    for method in ("procrustes", "rotation", "ridge"):
        assert value(rows, method, STATES // 2) == pytest.approx(CEILING, abs=0.01)


def test_actions_carry_all_and_wrong_ones_less_than_nothing(known):
    pair, _ = known
    rows = acting.from_actions(pair, (100, 2000))
    assert value(rows, "actions", 2000) == pytest.approx(CEILING, abs=0.02)
    assert value(rows, "own mean", 100) < value(rows, "actions", 100) < value(rows, "actions", 2000)
    assert value(rows, "actions", 100, "worst window") < value(rows, "actions", 100)
    ratio = value(rows, "actions", 100, "expected loss") / value(
        rows, "actions", 2000, "expected loss"
    )
    assert ratio == pytest.approx(20, rel=0.2)
    wrong = acting.wrong_actions(pair, 2000)
    assert value(wrong, "labels permuted", 2000) == pytest.approx(-1, abs=0.2)
    assert value(wrong, "mismatched states", 2000) == pytest.approx(-1, abs=0.2)
    turned = 2 * (1 + 2 * np.cos(acting.CAMERA)) / 3 - 1  # of the trace of the turn
    assert value(wrong, "camera's frame", 2000) == pytest.approx(turned, abs=0.1)


def test_one_action_or_none_is_enough_with_rates(known):
    pair, _ = known
    rows = acting.from_one_action(pair, (1000,)) + rates.without_actions(pair)
    assert value(rows, "one action, B alone", 1000) == pytest.approx(1 / 3, abs=0.05)
    for method in ("one action, axes", "one action, joint", "one action, joint, own A"):
        assert value(rows, method, 1000) > 0.9
    for lags in rates.LAGS:
        told = value(rows, f"{lags}, signs told", STATES // 2)
        assert value(rows, f"{lags}, chosen pair", 1) == told
        assert value(rows, f"{lags}, random pairs", 1) < told
        assert 0.3 < value(rows, f"{lags}, random pairs", 1, "right signs") < 1
    assert value(rows, "lag 1, signs told", STATES // 2) > 0.9
    assert value(rows, "noise", None, "along the axes") == pytest.approx(NOISE**2, rel=0.05)
    assert value(rows, "noise", None, "aslant") < 0.1 * NOISE**2
    (row,) = rates.dictionary(pair, (1000,))
    assert row["value"] == 1.0


def test_the_state_in_motor_coordinates_needs_no_label(known):
    pair, _ = known
    rows = carrying.motor(pair, (2000,))
    ceiling = 1 / (1 + NOISE**2)
    assert value(rows, "trained, own labels", None, "state") == pytest.approx(ceiling, abs=0.005)
    assert value(rows, "trained, motor", 2000, "state") == pytest.approx(ceiling, abs=0.03)


def row(world, method, steps, value, measure="W"):
    return {"world": world, "method": method, "steps": steps, "measure": measure,
            "value": value, "values": [value - 0.001, value + 0.001]}  # fmt: skip


GOOD = {  # (method, steps, measure) -> value in both worlds, or by world
    ("trained, paired", 2000, "W"): 0.98,
    ("rotation", 2, "W"): 0.85, ("rotation", 3, "W"): 0.95,
    ("procrustes", 2, "W"): 0.6, ("procrustes", 3, "W"): 0.9, ("procrustes", 5, "W"): 0.97,
    ("ridge", 2, "W"): 0.6, ("ridge", 3, "W"): 0.8, ("ridge", 5, "W"): 0.94,
    ("actions", 100, "W"): 0.9, ("actions", 1000, "W"): 0.975, ("actions", 3000, "W"): 0.978,
    ("actions", 1000, "expected loss"): 0.005, ("own mean", 100, "W"): 0.6,
    ("trained, own labels", None, "state"): 0.97, ("trained, motor", 10_000, "state"): 0.965,
    ("trained, motor", 3000, "state"): 0.96,
    ("one action, axes", 3000, "W"): 0.965,
    ("one action, joint", 3000, "W"): {"equal": 0.1, "distinct": 0.965},
    ("labels permuted", 3000, "W"): -1.0, ("shuffled in time", 3000, "W"): -0.7,
    ("camera's frame", 3000, "W"): -1.6, ("mismatched states", 3000, "W"): -1.0,
    ("untrained, motor", 3000, "state"): 0.1, ("untrained, own labels", None, "state"): 0.2,
    ("pixels, motor", 3000, "state"): 0.5, ("pixels, own labels", None, "state"): 0.6,
    ("inverse_3000, motor", 3000, "state"): 0.9,
    ("inverse_3000, own labels", None, "state"): 0.92,
    ("inverse_10000, motor", 10_000, "state"): 0.93,
    ("inverse_10000, own labels", None, "state"): 0.94,
    ("lags 1 to 12, signs told", 2000, "W"): 0.95, ("lag 1, signs told", 2000, "W"): 0.5,
    ("lags 1 to 12, random pairs", 1, "W"): 0.7, ("noise", None, "aslant"): 0.1,
    ("lags 1 to 12, random pairs", 1, "right signs"): 0.8,
    ("lags 1 to 12, chosen pair", 1, "W"): 0.95,
    ("dictionary", 3000, "right order"): {"equal": 0.2, "distinct": 1.0},
}  # fmt: skip


def judged(**changes):
    """Verdicts on two worlds; a change of 'method@steps' replaces the value in both."""
    rows = []
    for (method, steps, measure), known in GOOD.items():
        for world in experiment.WORLDS:
            number = known[world] if isinstance(known, dict) else known
            number = changes.get(f"{method}@{steps}", number)
            rows.append(row(world, method, steps, number, measure))
    return {claim.id: claim.agrees for claim in claims.claims(rows)}


def test_claims_hold_where_the_rows_say_so():
    found = judged()
    assert found == dict.fromkeys(found, True)
    assert len(found) == 36


@pytest.mark.parametrize(
    ("change", "number", "claim"),
    [
        ("rotation@2", 0.7, "equal/D - 1 pairs fix a rotation"),
        ("procrustes@2", 0.8, "equal/a reflection needs one more"),
        ("ridge@5", 0.96, "equal/ridge needs more pairs"),
        ("actions@3000", 0.96, "distinct/three actions"),
        ("actions@1000", 0.95, "distinct/predicted loss"),
        ("trained, motor@10000", 0.95, "equal/the state in motor coordinates"),
        ("own mean@100", 0.85, "equal/the mean of a short walk misleads"),
        ("one action, axes@3000", 0.95, "distinct/one action, axes"),
        ("one action, joint@3000", 0.95, "distinct/one action, joint"),
        ("one action, joint@3000", 0.95, "equal/one action"),
        ("shuffled in time@3000", 0.2, "equal/shuffled in time"),
        ("untrained, motor@3000", 0.8, "equal/untrained"),
        ("pixels, motor@3000", 0.7, "distinct/pixels"),
        ("inverse_3000, motor@3000", 0.95, "equal/inverse_3000"),
        ("inverse_10000, motor@10000", 0.95, "equal/inverse_10000"),
        ("lags 1 to 12, signs told@2000", 0.8, "distinct/axes by several lags"),
        ("lag 1, signs told@2000", 0.9, "distinct/lag 1 is not enough"),
        ("lags 1 to 12, chosen pair@1", 0.7, "distinct/signs by one pair"),
        ("dictionary@3000", 0.6, "distinct/the right names of actions"),
        ("dictionary@3000", 0.6, "equal/the right names of actions"),
    ],
)
def test_each_claim_fails_where_the_rows_say_so(change, number, claim):
    assert judged(**{change: number})[claim] is False


def test_one_wrong_order_of_the_actions_is_all_but_a_sign_change():
    """||G A G^T - A|| of the turn G = B P B^T by a wrong order, for the world's own directions."""
    decay = np.diag(experiment.WORLDS["distinct"]["data__rho"])
    b = Driven(3, 3, 0.3, experiment.EVALUATION_SEED).directions
    turns = [b[:, list(order)] @ b.T for order in itertools.permutations(range(3))]
    apart = sorted(np.linalg.norm(g @ decay @ g.T - decay) for g in turns)
    assert apart[0] < 1e-12 < 0.01 < apart[1] < 0.02 < 0.08 < apart[2]
    nearest = min(turns[1:], key=lambda g: np.linalg.norm(g @ decay @ g.T - decay))
    np.testing.assert_allclose(np.abs(np.diagonal(nearest)), 1.0, atol=0.05)
    assert np.trace(nearest) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.nightly
def test_an_inverse_model_finds_what_actions_move():
    """A bright bar moves by known actions along one axis; its features hold the position."""
    rng = np.random.default_rng(0)
    actions = rng.normal(size=(600, 1)).astype(np.float32)
    place = [0.0]
    for a in actions[:, 0]:
        place.append(0.8 * place[-1] + 0.6 * a)
    columns = np.arange(16)
    shades = np.exp(-0.5 * np.square((columns - 8 - 2 * np.array(place)[:, None]) / 1.5))
    walk = np.broadcast_to((255 * shades)[:, None, :, None], (601, 16, 16, 1)).astype(np.uint8)
    encode = inverse.train(walk, actions, seed=0, steps=120)
    features, place = encode(walk), np.array(place)
    design = np.column_stack([features, np.ones(601)])
    residual = place - design @ np.linalg.lstsq(design, place, rcond=None)[0]
    assert features.shape == (601, inverse.FEATURES)
    assert np.var(residual) / np.var(place) < 0.1


@pytest.mark.nightly
def test_a_small_run_is_complete_and_goes_on_from_its_agents(tmp_path):
    found = experiment.run("smoke", tmp_path)
    assert {row["world"] for row in found.rows} == set(experiment.WORLDS)
    assert all(np.isfinite(row["value"]) for row in found.rows)
    findings.save(found, "motion_unpaired", "smoke", tmp_path)
    assert (tmp_path / "motion_unpaired_pairs.png").stat().st_size > 10_000
    files = sorted((tmp_path / "agents").iterdir())
    before = [file.stat().st_mtime_ns for file in files]
    assert len(files) == 4 and experiment.run("smoke", tmp_path).rows == found.rows
    assert [file.stat().st_mtime_ns for file in files] == before
