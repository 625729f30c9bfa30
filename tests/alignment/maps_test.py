import dataclasses

import numpy as np
import pytest

from socialjepa_jax import alignment
from socialjepa_jax.errors import InputError
from tests.alignment.synthetic import pairs


@pytest.mark.parametrize("method", ["ridge", "lstsq", "procrustes", "robust"])
@pytest.mark.parametrize(("d", "e"), [(6, 6), (9, 4), (4, 9)])
def test_forward_and_backward_agree_with_their_affine_forms(method, d, e):
    x, y = pairs(d=d, e=e)
    linear_map = alignment.fit(x, y, method=method)
    assert linear_map.w.shape == (e, d)
    matrix, offset = linear_map.affine()
    np.testing.assert_allclose(linear_map.forward(x), x @ matrix + offset, rtol=1e-9, atol=1e-9)
    for back in ("inverse", "regression", "procrustes"):
        matrix, offset = linear_map.affine_back(back)
        expected = y @ matrix + offset
        np.testing.assert_allclose(linear_map.backward(y, back), expected, rtol=1e-9, atol=1e-9)


def test_directions_below_the_threshold_do_not_count():
    x, y = pairs(d=3, e=3)
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
    w = u * [10.0, 2.0, 1e-7] @ v.T
    linear_map = dataclasses.replace(alignment.fit(x, y), w=w, kappa_max=1e6)
    assert linear_map.rank == 2 and linear_map.used_pinv
    np.testing.assert_allclose(linear_map.kappa, 1e8, rtol=1e-6)
    np.testing.assert_allclose(linear_map.kappa_effective, 5.0, rtol=1e-12)
    expected = v[:, :2] / [10.0, 2.0] @ u[:, :2].T
    np.testing.assert_allclose(linear_map.w_inv, expected, atol=1e-12)


def test_a_map_of_zeros_has_no_direction():
    x, _ = pairs(d=3)
    linear_map = alignment.fit(x, np.full((len(x), 2), 5.0))
    assert not linear_map.w.any() and linear_map.rank == 0 and linear_map.used_pinv
    assert linear_map.kappa == linear_map.kappa_effective == np.inf
    np.testing.assert_array_equal(linear_map.w_inv, np.zeros((3, 2)))


def test_standardized_and_raw_latents_are_the_same_map():
    x, y = pairs()
    linear_map = alignment.fit(x, y)
    zx = (x - x.mean(0)) / x.std(0)
    zy = linear_map.forward(zx, standardized=True)
    np.testing.assert_allclose(zy * y.std(0) + y.mean(0), linear_map.forward(x))
    np.testing.assert_allclose(linear_map.backward(zy, standardized=True), zx, atol=1e-9)


def test_saved_map_comes_back_exactly(tmp_path):
    x, y = pairs(d=5, e=3)
    linear_map = alignment.fit(x, y, ridge="auto")
    linear_map.save(tmp_path / "map.npz")
    loaded = alignment.LinearMap.load(tmp_path / "map.npz")
    np.testing.assert_array_equal(loaded.forward(x), linear_map.forward(x))
    np.testing.assert_array_equal(loaded.w_inv, linear_map.w_inv)
    assert (loaded.method, loaded.ridge, loaded.n_train, loaded.kappa_max) == (
        linear_map.method,
        linear_map.ridge,
        linear_map.n_train,
        linear_map.kappa_max,
    )


@pytest.mark.parametrize("content", [b"", b"not a zip", None])
def test_loading_something_else_is_one_clear_line(tmp_path, content):
    path = tmp_path / "map.npz"
    np.savez(path, w=np.eye(2)) if content is None else path.write_bytes(content)
    with pytest.raises(InputError, match=r"map\.npz is not a saved map"):
        alignment.LinearMap.load(path)
