"""Random polynomial encoders for the tests."""

from socialjepa_jax.identifiability import hermite


def random_polynomial(rng, dim, degree, size):
    """Draws a zero-mean polynomial map: multi-indices i64[P, dim], coefficients f64[P, dim]."""
    indices = hermite.multi_indices(dim, degree)
    coefficients = size * rng.standard_normal((len(indices), dim))
    coefficients[0] = 0.0
    return indices, coefficients
