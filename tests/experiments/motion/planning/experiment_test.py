"""Goals of agents whose codes are known rotations of the state, and the claims on known rows."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from experiments import findings
from experiments.motion import pairs
from experiments.motion.planning import claims, episodes, experiment, goals
from socialjepa_jax.dynamics.driven import Driven

AGENTS, STATES, WALK = 2, 900, 2500


class Told(episodes.World):
    """A world that shows its states instead of images."""

    def look(self, agent, z_EL, step):
        return z_EL


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(STATES, 3))
    chosen = pairs.experiment(range(AGENTS), **experiment.changes("smoke"))
    empty = Told(chosen, states, np.stack([states] * 2), np.arange(STATES) % 2 == 0,
                 np.zeros(0), np.zeros(0))  # fmt: skip
    actions = rng.normal(size=(AGENTS, WALK, 3))
    z = [np.zeros((AGENTS, 3))]
    for t in range(WALK):
        z.append(empty.step(z[-1], actions[:, t]) + 0.1 * rng.normal(size=(AGENTS, 3)))
    return dataclasses.replace(empty, walks=np.stack(z, axis=1), actions=actions)


@pytest.fixture(scope="module")
def measured(world):
    turns = np.stack([stats.ortho_group.rvs(3, random_state=k) for k in range(AGENTS)])
    space = episodes.space(world, lambda shots: shots @ turns + 7.0, False, goals.EFFORT)
    return goals.Measured(world, space, goals.task(world, 40, 20), "trained")


def value(rows, measure):
    (row,) = findings.select(rows, measure=measure)
    return row["value"]


def test_the_quiet_world_is_the_mean_of_the_driven_one(world):
    """The states of `Driven`, averaged over its noise."""
    driven = Driven(3, 3, world.data.share, world.data.seed)
    np.testing.assert_allclose(
        world.push, np.sqrt((1 - 0.9**2) * world.data.share) * driven.directions
    )
    z, a = np.ones((1, 3)), np.array([[1.0, 0.0, 0.0]])
    np.testing.assert_allclose(world.step(z, a), 0.9 + world.push[:, :1].T)


def test_starts_goals_and_library_are_disjoint_and_held_out(world):
    task = goals.task(world, 40, 20)
    used = np.concatenate([task.starts, task.goals, task.library])
    assert len(task.starts) == 40
    assert len(set(used)) == len(used)
    assert not world.train[used].any()
    apart = np.linalg.norm(world.states[task.starts] - world.states[task.goals], axis=1)
    assert apart.min() >= goals.FARTHEST_START


def test_models_and_latents_are_those_of_the_code(world, measured):
    space = measured.space
    np.testing.assert_allclose(space.latents[:, world.train].mean(1), 0.0, atol=1e-12)
    for model, h, actions in zip(space.models, space.walks, world.actions):
        left = h[1:] - h[:-1] @ model.a.T - actions @ model.b.T
        assert left.std() == pytest.approx(0.1, rel=0.05)
        np.testing.assert_allclose(model.a, 0.9 * np.eye(3), atol=0.02)


@pytest.mark.parametrize("source", ["own", "pairs", "actions"])
def test_an_exact_code_reaches_every_goal_however_it_is_told(measured, source):
    for planner in ("lqr", "shooting", "track")[: 2 if source == "own" else 3]:
        rows = measured.act(planner, source)[1]
        assert value(rows, "success") == 1.0
        assert value(rows, "distance")[-1] < 0.25
        assert 1.0 <= value(rows, "detour") < 1.2
    lines = measured.lines(source)
    oracle = findings.select(measured.oracle(), planner="line")
    assert value(lines, "length ratio") == pytest.approx(value(oracle, "length ratio"), rel=0.05)


def test_a_goal_without_a_map_is_missed(measured):
    for source in ("unmapped", "turned"):
        rows = measured.act("lqr", source)[1]
        assert value(rows, "success") < 0.2
        assert value(rows, "distance")[-1] > 1.0


def test_white_codes_have_unit_covariance(world):
    space = episodes.space(world, lambda shots: shots * [5.0, 0.1, 1.0], True, goals.EFFORT)
    np.testing.assert_allclose(np.cov(space.latents[1][world.train].T), np.eye(3), atol=1e-9)


def test_the_detour_counts_the_path_until_arrival_and_then_the_straight_rest():
    corner = np.array([[0.0, 0], [3, 0], [3, 3.8], [9, 9]])
    goal = np.array([3.0, 4.0])
    distance = np.linalg.norm(corner - goal, axis=1)
    found = goals.detours(corner[None, None], distance[None, None])
    assert found == pytest.approx((3 + 3.8 + 0.2) / 5)
    lost = np.array([[0.0, 0], [0, -1]])
    away = np.linalg.norm(lost - goal, axis=1)
    assert goals.detours(lost[None, None], away[None, None]) == pytest.approx(
        (1 + np.hypot(3, 5)) / 5
    )


def rows_of(success):
    """Rows of two pairs of agents; paths are straight."""
    rows = []
    for (space, planner, goal), of_pairs in success.items():
        for pair, number in enumerate(of_pairs):
            shared = {"pair": pair, "space": space, "planner": planner, "goal": goal}
            rows.append({**shared, "measure": "success", "value": number})
            rows.append({**shared, "measure": "distance", "value": [2.0, 1 - number]})
            for name in ("detour", "length ratio", "deviation"):
                rows.append({**shared, "measure": name, "value": 1.0 + (1 - number)})
    return rows


PERFECT = {
    ("trained", planner, goal): (1.0, 1.0)
    for planner in ("lqr", "shooting", "track", "line")
    for goal in ("oracle", "own", "pairs", "actions")
} | {
    (space, "lqr", goal): (0.0, 0.0)
    for space, goal in (
        ("trained", "unmapped"), ("trained", "turned"), ("untrained", "own"),
        ("untrained", "pairs"), ("pixels", "own"), ("pixels", "pairs"),
    )
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "fails"),
    [
        ({}, set()),
        (
            {("trained", "lqr", "own"): (0.8, 0.8)},
            {"lqr/own goals", "lqr/W from pairs", "lqr/W from actions", "track/W from pairs",
             "track/W from actions", "lqr/own paths against the oracle's"},
        ),
        ({("trained", "shooting", "actions"): (1.0, 0.9)}, {"shooting/W from actions"}),
        ({("trained", "lqr", "turned"): (0.3, 0.1)}, {"lqr/random rotation"}),
        ({("trained", "line", "pairs"): (0.9, 0.9)}, {"line/paths by W from pairs"}),
    ],
)  # fmt: skip
def test_claims_follow_the_rows(change, fails):
    found = claims.claims(rows_of(PERFECT | change))
    assert {claim.id for claim in found if not claim.agrees} == fails
    assert len(found) == 20
