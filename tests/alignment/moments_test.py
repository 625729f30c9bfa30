import functools
import operator

import jax
import numpy as np
import pytest

from socialjepa_jax import alignment
from socialjepa_jax.alignment import moments as moments_module
from socialjepa_jax.alignment.moments import Moments
from socialjepa_jax.errors import InputError

NAMES = ("count", "mean_x", "mean_y", "xx", "xy", "yy")


def data(n=120, offset=50.0):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 4)) + offset, rng.normal(size=(n, 3)) - offset


def assert_same(a, b, rtol=1e-10):
    for name in NAMES:
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, atol=1e-8)


def test_they_are_means_and_centred_sums():
    x, y = data()
    found = Moments.of(x, y)
    np.testing.assert_allclose(found.xy, (x - x.mean(0)).T @ (y - y.mean(0)))
    np.testing.assert_allclose(found.scales()[0], x.std(0))
    about = found.about(np.zeros(4), np.ones(3))
    np.testing.assert_allclose(about.xx, x.T @ x)
    np.testing.assert_allclose(about.yy, (y - 1).T @ (y - 1))


def test_parts_add_up_and_can_be_taken_away():
    x, y = data()
    parts = [Moments.of(x[s], y[s]) for s in (slice(0, 1), slice(1, 50), slice(50, 120))]
    total = functools.reduce(operator.add, parts)
    assert_same(total, Moments.of(x, y))
    assert_same(total - parts[2], Moments.of(x[:50], y[:50]))


def test_streaming_a_memory_mapped_file_is_the_same(tmp_path, monkeypatch):
    x, y = data()
    monkeypatch.setattr(moments_module, "BLOCK_ROWS", 7)
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    streamed = {m: alignment.fit(mapped, y, method=m) for m in ("ridge", "lstsq")}
    monkeypatch.undo()
    for method, linear_map in streamed.items():
        whole = alignment.fit(x.astype(np.float32), y, method=method)
        np.testing.assert_allclose(linear_map.w, whole.w, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("block", [8192, 7])
def test_eight_devices_give_what_one_gives(block, monkeypatch):
    x, y = data(n=160)
    mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    monkeypatch.setattr(moments_module, "BLOCK_ROWS", block)
    assert_same(Moments.sharded(x, y, mesh), Moments.of(x, y))
    on_devices = (jax.numpy.asarray(z, "float32") for z in (x, y))
    found = Moments.sharded(*on_devices, mesh)
    assert_same(found, Moments.of(x.astype(np.float32), y.astype(np.float32)))
    assert found.xx.dtype == np.float64
    assert_same(Moments.sharded(x.tolist(), y.tolist(), mesh), Moments.of(x, y))
    for start_x, start_y, message in ((1, 1, "rows=159"), (8, 0, "152 .* 160"), (160, 160, "=0")):
        with pytest.raises(InputError, match=message):
            Moments.sharded(x[start_x:], y[start_y:], mesh)


def test_cross_moments_are_those_of_all_moments(monkeypatch):
    monkeypatch.setattr(moments_module, "BLOCK_ROWS", 7)
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(40, 3)) + 100, rng.normal(size=(40, 5))
    whole, cross = Moments.of(x, y), Moments.of(x, y, cross=True)
    np.testing.assert_allclose(cross.xy, whole.xy, rtol=1e-12, atol=1e-10)
    for name in ("scales", "deviations"):
        for a, b in zip(getattr(cross, name)(), getattr(whole, name)()):
            np.testing.assert_allclose(a, b, rtol=1e-12)
