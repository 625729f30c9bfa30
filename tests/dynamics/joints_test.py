"""Joint angles of a policy: their laws against SciPy and geometry, pairs, dependence."""

import jax
import numpy as np
import pytest
from scipy import stats

from socialjepa_jax.dynamics import JointAngles, joints
from socialjepa_jax.errors import InputError

NUM = 20_000
KS_LIMIT = 2.69 / np.sqrt(NUM)  # beyond it with probability 1e-6 under the null


def test_the_shoulder_is_a_uniform_start_and_a_normal_travel():
    rng = np.random.default_rng(0)
    drawn = rng.uniform(-np.pi, np.pi, NUM) + joints.TRAVEL * rng.standard_normal(NUM)
    found = joints.shoulder_angles(rng.standard_normal(NUM))
    assert stats.ks_2samp(drawn, found).pvalue > 1e-6
    u = joints.scores()
    beyond = stats.norm.pdf(u)[np.abs(joints.shoulder_angles(u)) > np.pi].sum()
    assert beyond / stats.norm.pdf(u).sum() == pytest.approx(0.136, abs=2e-3)  # as published
    assert joints.policy_radians()[0] == pytest.approx(
        np.hypot(np.pi / 3**0.5, joints.TRAVEL), rel=1e-3
    )


def test_the_wrist_brings_the_finger_to_the_target():
    angles = joints.wrist_angles(np.random.default_rng(1).standard_normal(NUM))
    # Law of cosines: two links of 0.12 that meet at the angle pi - wrist.
    distance = np.sqrt(2 * 0.12**2 * (1 + np.cos(angles)))
    assert stats.kstest(distance, stats.uniform(0.05, 0.15).cdf).statistic < KS_LIMIT
    assert abs(np.mean(angles > 0) - 0.5) < 5 / (2 * np.sqrt(NUM))
    assert stats.spearmanr(np.abs(angles), np.sign(angles)).pvalue > 1e-6
    assert np.abs(angles).max() < np.radians(160)  # the joint's limit in reacher.xml


@pytest.mark.parametrize("policy", [True, False])
def test_pairs_keep_the_law_and_follow_each_other(policy):
    process = JointAngles()
    rho = (0.6, 0.9)
    params = process.params(rho, policy=policy, dependence=-0.3)
    views = process.views(params, jax.random.key(0), NUM)
    radians = joints.policy_radians()
    laws = [stats.norm.cdf, stats.norm.cdf]
    if policy:
        u = joints.scores()
        tables = [f(u) / s for f, s in zip((joints.shoulder_angles, joints.wrist_angles), radians)]
        laws = [lambda z, t=t: np.interp(z, t, stats.norm.cdf(u)) for t in tables]
    found = [np.asarray(v, np.float64) for v in views]
    ranks = []
    for view in found:
        np.testing.assert_allclose(view.std(0), 1.0, atol=0.03)
        for column, law in zip(view.T, laws):
            assert stats.kstest(column, law).statistic < KS_LIMIT
        ranks.append(np.stack([stats.norm.ppf(law(c)) for c, law in zip(view.T, laws)], 1))
    # Scores z = L y of independent y: the second joint mixes both rates.
    cross = np.concatenate(ranks, 1)
    expected = np.array(
        [[1.0, -0.3, 0.6, -0.3 * 0.6], [-0.3, 1.0, -0.3 * 0.6, 0.09 * 0.6 + 0.91 * 0.9]]
    )
    np.testing.assert_allclose(np.cov(cross.T)[:2], expected, atol=5 * np.sqrt(2 / NUM))


@pytest.mark.parametrize("dependence", [-1.0, 1.0, float("nan")])
def test_scores_cannot_determine_each_other(dependence):
    with pytest.raises(InputError, match="dependence="):
        JointAngles().params(0.9, policy=True, dependence=dependence)


def test_correlations_are_checked():
    with pytest.raises(InputError, match=r"rho=1\.0"):
        JointAngles().params((0.5, 1.0), policy=False)
