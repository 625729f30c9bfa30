from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest

from socialjepa_jax.errors import InputError
from socialjepa_jax.sigreg import sample_directions, sobol_points, step_directions
from socialjepa_jax.sigreg.directions import _unit_columns

KEY = jax.random.key(0)


@pytest.mark.parametrize("sampler", ["gaussian", "sobol"])
@pytest.mark.parametrize("dim", [1, 2, 48])
def test_columns_have_unit_norm_and_are_spread_over_the_sphere(sampler, dim):
    directions = sample_directions(KEY, dim, 1024, sampler=sampler)
    assert directions.shape == (dim, 1024)
    assert directions.dtype == jnp.float32
    np.testing.assert_allclose(np.linalg.norm(directions, axis=0), 1.0, rtol=1e-6)
    assert np.linalg.norm(np.mean(directions, axis=1)) < 4 / np.sqrt(1024)
    if dim == 2:  # the angle is uniform
        angle = np.arctan2(directions[1], directions[0])
        assert kstest(angle, "uniform", args=(-np.pi, 2 * np.pi)).pvalue > 1e-3


@pytest.mark.nightly
def test_sobol_covers_the_sphere_more_evenly():
    def unevenness(sampler, dim):
        a = np.asarray(sample_directions(KEY, dim, 1024, sampler=sampler))
        return np.linalg.norm(dim * a @ a.T / 1024 - np.eye(dim))

    for dim in (4, 16, 64):
        assert unevenness("sobol", dim) < 0.5 * unevenness("gaussian", dim)


def test_sobol_points_are_stratified_under_every_shift():
    for seed in range(3):
        points = np.asarray(sobol_points(jax.random.key(seed), 300, 256))
        assert points.min() > 0 and points.max() < 1
        cells = np.sort(np.floor(256 * points).astype(int), axis=0)
        np.testing.assert_array_equal(cells, np.repeat(np.arange(256)[:, None], 300, axis=1))


def test_every_coordinate_of_sobol_points_has_a_shift_of_its_own():
    """The first point of the unshifted sequence is 0, so it shows the shifts alone."""
    keys = jax.random.split(KEY, 400)
    first = np.asarray(jax.vmap(lambda key: sobol_points(key, 5, 1)[0])(keys))
    correlations = np.corrcoef(first.T) - np.eye(5)
    assert np.abs(correlations).max() < 4 / np.sqrt(400)


def test_zero_columns_become_an_axis_instead_of_nan():
    columns = _unit_columns(jnp.asarray([[0.0, 3.0, 1e-30], [0.0, 4.0, 0.0]]))
    np.testing.assert_allclose(columns, [[1.0, 0.6, 1.0], [0.0, 0.8, 0.0]], rtol=1e-6)


@pytest.mark.parametrize("sampler", ["gaussian", "sobol"])
def test_a_step_is_a_function_of_key_and_step_alone(sampler):
    draw = jax.jit(partial(step_directions, dim=6, num_slices=9, sampler=sampler))
    np.testing.assert_array_equal(draw(KEY, 3), draw(KEY, 3))
    assert not np.allclose(draw(KEY, 3), draw(KEY, 4))
    assert not np.allclose(draw(KEY, 3), draw(jax.random.key(1), 3))
    fixed = partial(step_directions, KEY, dim=6, num_slices=9, sampler=sampler, resample=False)
    np.testing.assert_array_equal(fixed(3), fixed(4))


def test_agents_draw_their_own_directions_under_vmap():
    keys = jax.random.split(KEY, 3)
    draw = jax.vmap(lambda key: step_directions(key, 5, 4, 8))
    for key, directions in zip(keys, draw(keys)):
        np.testing.assert_allclose(directions, step_directions(key, 5, 4, 8), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0, "num_slices": 3}, "dim=0"),
        ({"dim": 3, "num_slices": 0}, "num_slices=0"),
        ({"dim": 3, "num_slices": 3, "sampler": "halton"}, "sampler='halton'"),
        ({"dim": 21202, "num_slices": 3, "sampler": "sobol"}, "dim=21202"),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(InputError, match=message):
        sample_directions(KEY, **options)
