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
