import numpy as np

from socialjepa_jax.alignment.study.novelty import fit_novelty


def test_far_queries_are_novel_in_every_direction():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(2000, 5)) * [10, 5, 1, 1, 0.1]
    novelty = fit_novelty(z[:1000])
    scores = novelty.score(z[1000:])
    np.testing.assert_allclose(np.quantile(scores, [0.25, 0.5, 0.9]), [0.25, 0.5, 0.9], atol=0.05)
    far = np.diag([10, 5, 1, 1]) @ np.eye(4, 5) * 8
    assert (novelty.score(far) > 0.99).all()


def test_new_queries_are_as_far_as_the_rows_that_were_held_out():
    """With few rows for many features, the rows of a covariance are nearer to its mean."""
    z = np.random.default_rng(3).normal(size=(4000, 20))
    scores = np.concatenate([fit_novelty(z[n : n + 60]).score(z[3000:]) for n in range(0, 600, 60)])
    np.testing.assert_allclose(np.median(scores), 0.5, atol=0.1)
