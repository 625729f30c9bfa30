"""Checkpoints: exact round trip, damage found and passed over, errors surfaced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.checkpoint import Checkpoints, digests
from socialjepa_jax.validate import InputError


def _state(value: float):
    return {
        "weight": jnp.full((64, 32), value) + jnp.arange(32.0)[None],
        "half": jnp.full((7,), value, jnp.bfloat16),
        "step": jnp.int32(value),
    }


def _abstract():
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), _state(0.0))


def _saved(folder, steps=(1, 2, 3)):
    with Checkpoints(folder, keep=5) as checkpoints:
        for step in steps:
            checkpoints.save(step, _state(step), {"config": {"name": "x"}})
        checkpoints.wait()


def _assert_is(restored, value):
    assert digests(restored) == digests(_state(value))


def test_newest_comes_back_bit_for_bit(tmp_path):
    _saved(tmp_path)
    with Checkpoints(tmp_path, keep=5) as checkpoints:
        assert checkpoints.steps() == [1, 2, 3]
        _assert_is(checkpoints.restore(_abstract()), 3)


def test_nothing_there_is_none(tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        assert checkpoints.restore(_abstract()) is None


def test_keep_bounds_what_is_kept(tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        for step in (1, 2, 3, 4):
            checkpoints.save(step, _state(step), {})
        checkpoints.wait()
        assert checkpoints.steps() == [3, 4]


def _flip_a_bit(folder):
    """Flips one bit in the middle of the largest file: array data, which Orbax does not check."""
    path = max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def _truncate(folder):
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", [_flip_a_bit, _truncate])
def test_damaged_newest_is_set_aside_and_the_one_before_used(tmp_path, damage):
    _saved(tmp_path)
    damage(tmp_path / "3")
    with Checkpoints(tmp_path, keep=5) as checkpoints:
        _assert_is(checkpoints.restore(_abstract()), 2)
        assert checkpoints.steps() == [1, 2]
        assert (tmp_path / "3.damaged").is_dir()
        checkpoints.save(3, _state(3), {})  # and the run can go on over it
        checkpoints.wait()
        assert checkpoints.steps() == [1, 2, 3]


def test_all_damaged_is_refused(tmp_path):
    _saved(tmp_path, steps=(1, 2))
    for step in (1, 2):
        _truncate(tmp_path / str(step))
    for _ in range(2):  # and not silently begun anew the second time
        with (
            Checkpoints(tmp_path, keep=5) as checkpoints,
            pytest.raises(InputError, match="no checkpoint"),
        ):
            checkpoints.restore(_abstract())


def test_a_save_that_orbax_would_skip_is_an_error(tmp_path):
    _saved(tmp_path, steps=(5,))
    with Checkpoints(tmp_path, keep=5) as checkpoints, pytest.raises(Exception, match="5"):
        checkpoints.save(5, _state(5), {})


def test_digests_see_value_dtype_and_shape():
    base = digests({"a": np.zeros(4, np.float32)})
    for other in (np.ones(4, np.float32), np.zeros(4, np.int32), np.zeros((2, 2), np.float32)):
        assert digests({"a": other}) != base
    assert digests({"a": np.zeros(4, np.float32)}) == base
