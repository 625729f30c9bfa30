import numpy as np

from socialjepa_jax.alignment.study import references


def test_relative_representations_of_rotated_spaces_agree():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(50, 6))
    y = 2 * x @ np.linalg.qr(rng.normal(size=(6, 6)))[0] + 3
    np.testing.assert_allclose(
        references.relative(x, x[:10]), references.relative(y, y[:10]), atol=1e-9
    )
