"""What holds for every linear map: its file, its directions, and its affine forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socialjepa_jax import alignment
from socialjepa_jax.errors import InputError

FEW = settings(max_examples=25, deadline=None, derandomize=True, database=None)


@st.composite
def maps(draw, square=False):
    """A map of random matrices, means and scales, between spaces of 1 to 5 features."""
    d = draw(st.integers(1, 5))
    e = d if square else draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = 10.0 ** draw(st.integers(-6, 6))
    return alignment.LinearMap(
        w=rng.normal(size=(e, d)) + (3 * np.eye(d) if square else 0),
        w_back=rng.normal(size=(d, e)),
        x_mean=scale * rng.normal(size=d),
        x_scale=scale * rng.uniform(0.5, 2, d),
        y_mean=rng.normal(size=e),
        y_scale=rng.uniform(0.5, 2, e),
        method=draw(st.sampled_from(["ridge", "procrustes"])),
        ridge=draw(st.floats(0, 1e6)),
        n_train=draw(st.integers(2, 10**9)),
        kappa_max=draw(st.sampled_from([1e6, 10**9])),
    )


def rows(linear_map, seed=0):
    rng = np.random.default_rng(seed)
    d = len(linear_map.x_mean)
    return linear_map.x_mean + linear_map.x_scale * rng.normal(size=(6, d))


@FEW
@given(linear_map=maps())
def test_a_saved_map_is_the_same_map(tmp_path_factory, linear_map):
    path = tmp_path_factory.mktemp("map") / "map.npz"
    linear_map.save(path)
    found = alignment.LinearMap.load(path)
    for name in linear_map.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(found, name), getattr(linear_map, name))
    x = rows(linear_map)
    np.testing.assert_array_equal(found.forward(x), linear_map.forward(x))


@FEW
@given(linear_map=maps(square=True))
def test_the_inverse_undoes_forward(linear_map):
    x = rows(linear_map)
    tolerance = 1e-12 * linear_map.kappa * np.abs(x).max()
    found = linear_map.backward(linear_map.forward(x))
    np.testing.assert_allclose(found, x, atol=tolerance, rtol=0)


@FEW
@given(linear_map=maps())
def test_affine_forms_are_the_maps(linear_map):
    x = rows(linear_map)
    y = linear_map.forward(x)
    (a, b), unit = linear_map.affine(), linear_map.x_scale.max()
    np.testing.assert_allclose(x @ a + b, y, atol=1e-11, rtol=1e-11)
    for back in ("inverse", "regression", "procrustes"):
        a, b = linear_map.affine_back(back)
        bound = 1e-10 * unit * max(1.0, np.abs(linear_map.back_matrix(back)).max())
        np.testing.assert_allclose(y @ a + b, linear_map.backward(y, back), atol=bound, rtol=1e-10)
    z = linear_map.standardize_x(x)
    raw = linear_map.forward(z, standardized=True) * linear_map.y_scale + linear_map.y_mean
    np.testing.assert_allclose(raw, y, rtol=1e-12, atol=1e-12)


@settings(FEW, max_examples=60)
@given(data=st.data())
def test_a_damaged_map_is_refused_or_unchanged(tmp_path_factory, data):
    linear_map = alignment.fit(np.eye(4), np.arange(12.0).reshape(4, 3))
    folder = tmp_path_factory.mktemp("map")
    linear_map.save(folder / "map.npz")
    content = bytearray((folder / "map.npz").read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    (folder / "map.npz").write_bytes(content)
    try:
        found = alignment.LinearMap.load(folder / "map.npz")
    except InputError:
        return
    for name in linear_map.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(found, name), getattr(linear_map, name))


def test_arrays_of_other_kinds_are_no_map(tmp_path):
    linear_map = alignment.fit(np.eye(4), np.arange(12.0).reshape(4, 3))
    linear_map.save(tmp_path / "map.npz")
    with np.load(tmp_path / "map.npz") as file:
        stored = dict(file)
    for name, value in (
        ("w", np.float64(1)),
        ("w", np.ones((3, 4), int)),
        ("w", np.ones(4)),
        ("x_mean", np.array(["a"] * 4)),
        ("method", np.array(["ridge"])),
        ("ridge", np.array("much")),
        ("n_train", np.ones(2)),
    ):
        np.savez(tmp_path / "other.npz", **{**stored, name: value})
        with pytest.raises(InputError, match=rf"is not a saved map: {name} is"):
            alignment.LinearMap.load(tmp_path / "other.npz")
