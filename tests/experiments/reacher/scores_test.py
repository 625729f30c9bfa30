"""Scores of agents on the arm: ceilings of wrapped angles, cells, plans, tests of equivalence."""

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.linear_model import LinearRegression

from experiments.reacher import planning, runs, scores
from experiments.reacher.runs import Codes, Condition

NUM, PAIRS, AGENTS = 1200, 300, 2


def rotation(k):
    return stats.ortho_group.rvs(2, random_state=np.random.default_rng(k))


def codes(of=scores.wrapped):
    """Agents whose latents are rotations of a function of the angles."""
    rng = np.random.default_rng(7)
    states = {"ou": rng.normal(size=(NUM, 2)), "trajectory": rng.uniform(-5, 5, (NUM, 2))}

    def encode(z):
        return np.stack([of(z) @ rotation(k) for k in range(AGENTS)]).astype(np.float32)

    latents = {process: encode(z) for process, z in states.items()}
    z = rng.normal(size=(PAIRS, 2))
    pairs = np.stack([encode(z), encode(z + 0.5)], axis=1)
    untrained = {process: rng.normal(size=h.shape) for process, h in latents.items()}
    seeds = tuple(range(AGENTS))
    return Codes(Condition(rho=0.9), seeds, states, latents, untrained, pairs, pairs)


@pytest.fixture(scope="module")
def rows():
    return scores.rows(codes())


def test_the_best_guess_of_a_normal_angle_is_its_conditional_mean():
    z = np.random.default_rng(0).normal(size=400_000)
    shown = scores.wrapped(z)
    assert np.abs(shown).max() <= np.pi
    np.testing.assert_allclose(np.exp(1j * shown), np.exp(1j * z), atol=1e-9)
    linear = np.corrcoef(shown, z)[0, 1] ** 2
    best = 1 - np.square(z - scores.expected(z)).mean() / z.var()
    assert linear == pytest.approx(0.934, abs=0.003) and best == pytest.approx(0.949, abs=0.003)

    def square(x):  # its mean is the variance that the guess explains
        return float(scores.expected(np.array(x))) ** 2 * stats.norm.pdf(x)

    assert best == pytest.approx(integrate.quad(square, -9, 9, limit=400)[0], abs=0.003)


def test_a_rotation_of_the_wrapped_angles_is_at_the_ceiling_in_every_cell(rows):
    for row in rows:
        for a, b in scores.CELLS:
            for name in ("state", "pooled", "shoulder", "wrist"):
                ceiling = row[f"ceiling {a}>{b}/{name}"]
                assert row[f"{a}>{b}/{name}"] == pytest.approx(ceiling, abs=1e-5)
        assert row["ou>ou wrapped/state"] == pytest.approx(1.0, abs=1e-5)
        assert row["best guess ou>ou/state"] > row["ceiling ou>ou/state"] > 0.85
        assert row["trajectory>trajectory/state"] < 0.3  # many of its angles have turns
        assert row["ou>ou/orthogonality"] < 0.2
        assert abs(row["untrained ou>ou/state"]) < 0.02
        assert (row["condition"], row["rho"], row["stride"]) == ("ou", 0.9, None)


def test_a_cell_is_fitted_on_one_condition_and_scored_on_the_other(rows):
    found = codes()
    fit, test = scores.halves(NUM)
    assert not set(fit) & set(test) and len(fit) + len(test) == NUM
    x, z = found.latents["trajectory"][1], found.states["trajectory"]
    y, target = found.latents["ou"][1][test], found.states["ou"][test]
    predicted = LinearRegression().fit(x[fit], z[fit]).predict(y)
    total = np.square(target - target.mean(0)).sum(0)
    each = 1 - np.square(target - predicted).sum(0) / total
    got = [rows[1][f"trajectory>ou/{name}"] for name in ("shoulder", "wrist")]
    np.testing.assert_allclose(got, each, atol=1e-5)
    assert rows[1]["trajectory>ou/state"] == pytest.approx(each.mean(), abs=1e-5)
    backwards = LinearRegression().fit(z[fit], x[fit]).predict(target)
    pooled = 1 - np.square(y - backwards).sum() / np.square(y - y.mean(0)).sum()
    assert rows[1]["trajectory>ou/z to h"] == pytest.approx(pooled, abs=1e-5)


def test_raw_angles_have_their_sines_and_straight_plans():
    exact = np.exp(-1.0) / ((1 - np.exp(-2.0)) / 2)  # squared correlation of z and sin z
    straight = scores.rows(codes(of=lambda z: z))[0]
    for joint in ("shoulder", "wrist"):
        assert straight[f"ou>ou/sin {joint}"] == pytest.approx(exact, abs=0.03)
        assert straight[f"ou>ou/cos {joint}"] == pytest.approx(0.0, abs=0.05)
    assert straight["ou>ou/lengths"] == pytest.approx(scores.oracle(codes().states["ou"]), abs=1e-4)


def test_correlation_of_pairs_is_that_of_the_theory(rows):
    rng = np.random.default_rng(0)
    first = rng.normal(size=(100_000, 2))
    second = 0.8 * first + 0.6 * rng.normal(size=first.shape)
    assert scores.correlation(np.stack([first, second])) == pytest.approx(0.8, abs=0.01)
    assert np.isnan(scores.correlation(np.zeros((2, 9, 2))))
    assert rows[0]["rho_fresh"] == rows[0]["rho_trained"]


def test_equivalence_is_two_one_sided_tests():
    rng = np.random.default_rng(0)
    oracle = rng.normal(1.2, 0.1, 30)
    near, far = oracle + rng.normal(0.02, 0.1, 30), oracle + rng.normal(0.09, 0.2, 30)
    for ours, expected in ((near, True), (far, False)):
        found = planning.equivalence(ours, oracle)
        below = stats.ttest_1samp(ours - oracle, planning.MARGIN, alternative="less").pvalue
        above = stats.ttest_1samp(ours - oracle, -planning.MARGIN, alternative="greater").pvalue
        assert found.holds == (max(below, above) < planning.LEVEL) == expected
        assert found.low < found.mean < found.high
        assert found.p == pytest.approx(stats.ttest_1samp(ours - oracle, 0.0).pvalue)


def test_a_condition_is_an_experiment():
    chosen = Condition(stride=4, weight=0.02, camera=1).experiment("cpu", (3, 4))
    data = chosen.data
    assert (data.process, data.stride, data.tilts, data.pool) == ("trajectory", 4, (45.0,), 12_000)
    assert chosen.agents.seeds == (3, 4) and chosen.objective.weight == 0.02
    assert (chosen.run.steps, chosen.run.batch_size) == (runs.steps("cpu"), 128)
    paper = Condition(rho=0.9).experiment("paper")
    assert (paper.data.process, paper.data.rho, paper.data.tilts) == ("ou", (0.9,), (0.0,))
    assert (paper.run.steps, paper.run.batch_size, paper.data.pool) == (39_000, 256, 100_000)
    assert paper.objective.encoder.kind == "cnn" and paper.agents.seeds == runs.SEEDS
