"""Checkpoints: exact round trip, damage found and passed over, errors surfaced."""

import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.running.checkpoint import Checkpoints, NotSaved, digests


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


def test_of_a_damaged_one_nothing_is_left_in_flight(tmp_path, monkeypatch):
    """Reads that come to an end when nobody waits any more would print a traceback each."""
    state = {f"leaf_{k}": np.full((64, 64), k, np.float32) for k in range(16)}
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, state, {})
            checkpoints.wait()
        for path in (tmp_path / "2" / "state").rglob("d/*"):
            os.truncate(path, path.stat().st_size // 2)
        restored = checkpoints.restore(jax.eval_shape(lambda: state))
        assert digests(restored) == digests(state) and checkpoints.steps() == [1]
    time.sleep(0.2)
    assert not unraisable


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


def test_a_step_is_saved_once(tmp_path):
    _saved(tmp_path, steps=(5,))
    with Checkpoints(tmp_path, keep=5) as checkpoints, pytest.raises(Exception, match="5"):
        checkpoints.save(5, _state(5), {})


def test_digests_see_value_dtype_and_shape():
    base = digests({"a": np.zeros(4, np.float32)})
    for other in (np.ones(4, np.float32), np.zeros(4, np.int32), np.zeros((2, 2), np.float32)):
        assert digests({"a": other}) != base
    assert digests({"a": np.zeros(4, np.float32)}) == base


def test_a_state_that_is_not_finite_is_never_written(tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        checkpoints.save(1, _state(1), {})
        checkpoints.save(2, {**_state(2), "half": jnp.full((7,), jnp.nan, jnp.bfloat16)}, {})
        with pytest.raises(NotSaved, match=r"step 2 is not finite, first in \['half'\]"):
            checkpoints.wait()
        assert checkpoints.steps() == [1]


class _Failing:
    """A checkpointer whose disk fails some times; the failed try leaves its litter behind."""

    def __init__(self, inner, times):
        self.inner, self.times = inner, times

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def save(self, path, args):
        if self.times:
            self.times -= 1
            (path.parent / f"{path.name}.orbax-checkpoint-tmp").mkdir()
            raise OSError(28, "No space left on device")
        self.inner.save(path, args=args)


def test_a_failed_save_is_repeated_once(tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        checkpoints._checkpointer = _Failing(checkpoints._checkpointer, 1)
        checkpoints.save(1, _state(1), {})
        checkpoints.wait()
        _assert_is(checkpoints.restore(_abstract()), 1)


def test_a_save_that_fails_twice_is_fatal_and_leaves_the_others(tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        checkpoints.save(1, _state(1), {})
        checkpoints.wait()
        checkpoints._checkpointer = failing = _Failing(checkpoints._checkpointer, 2)
        checkpoints.save(2, _state(2), {})
        with pytest.raises(NotSaved, match=r"No space left on device\); on disk are steps \[1\]"):
            while True:
                checkpoints.check()
        assert failing.times == 0
        assert [path.name for path in tmp_path.iterdir()] == ["1"]  # the litter is gone


@pytest.mark.parametrize(
    ("name", "leaf", "message"),
    [
        ("weight", jax.ShapeDtypeStruct((64, 32), jnp.bfloat16), "float32.* there and bfloat16"),
        ("weight", jax.ShapeDtypeStruct((64, 32), jnp.int32), "float32.* there and int32"),
        ("weight", jax.ShapeDtypeStruct((32, 64), jnp.float32), r"\[64, 32\] there .*\[32, 64\]"),
        ("more", jax.ShapeDtypeStruct((1,), jnp.float32), "missing there and float32"),
    ],
)
def test_another_layout_is_refused_and_the_checkpoint_left_alone(tmp_path, name, leaf, message):
    _saved(tmp_path, steps=(3,))
    with Checkpoints(tmp_path, keep=5) as checkpoints:
        with pytest.raises(InputError, match=message):
            checkpoints.restore({**_abstract(), name: leaf})
        assert checkpoints.steps() == [3]


def test_a_state_on_four_devices_goes_on_on_two_or_eight(tmp_path):
    def placed(count):
        mesh = jax.make_mesh((count,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))

    rows = {"rows": np.arange(48.0, dtype=np.float32).reshape(16, 3)}
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        checkpoints.save(1, jax.device_put(rows, placed(4)), {})
        for count in (2, 8):
            target = jax.ShapeDtypeStruct((16, 3), jnp.float32, sharding=placed(count))
            restored = checkpoints.restore({"rows": target})
            np.testing.assert_array_equal(restored["rows"], rows["rows"])
            assert restored["rows"].sharding == placed(count)


def test_what_is_saved_is_the_state_at_the_call(tmp_path):
    """The next step takes the buffers over while the thread still writes."""
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    state = {"x": jnp.zeros((1 << 20,))}
    with Checkpoints(tmp_path, keep=3) as checkpoints:
        for number in (1, 2, 3):
            state = {"x": step(state["x"])}
            checkpoints.save(number, state, {})
        state = {"x": step(state["x"])}
        restored = checkpoints.restore({"x": jax.ShapeDtypeStruct((1 << 20,), jnp.float32)})
        assert (np.asarray(restored["x"]) == 3.0).all()


def test_arrays_are_stored_as_they_are_and_compressed_ones_are_read(tmp_path, monkeypatch):
    """Random digits do not shrink; a checkpoint of an older version may be compressed."""
    state, handler = {"x": jnp.zeros((1 << 18,))}, ocp.PyTreeCheckpointHandler
    sizes = []
    for compressed in (False, True):
        folder = tmp_path / str(compressed)
        with monkeypatch.context() as patch:
            if compressed:
                older = lambda **kwargs: handler(**{**kwargs, "use_compression": True})  # noqa: E731
                patch.setattr(ocp, "PyTreeCheckpointHandler", older)
            with Checkpoints(folder, keep=1) as checkpoints:
                checkpoints.save(1, state, {})
        sizes.append(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))
        with Checkpoints(folder, keep=1) as checkpoints:
            restored = checkpoints.restore({"x": jax.ShapeDtypeStruct((1 << 18,), jnp.float32)})
        assert digests(restored) == digests(state)
    assert sizes[0] > 4 * (1 << 18) > 10 * sizes[1]


def test_the_manifest_is_sealed(tmp_path):
    _saved(tmp_path, steps=(1,))
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        assert checkpoints.manifest(1)["config"] == {"name": "x"}
        path = next((tmp_path / "1" / "manifest").iterdir())
        path.write_text(path.read_text().replace('"x"', '"y"'))
        with pytest.raises(ValueError, match="manifest differs"):
            checkpoints.manifest(1)


def test_two_folders_are_written_at_once(tmp_path):
    """Orbax itself mixes such saves up: the newest and the best checkpoint of one step."""
    with Checkpoints(tmp_path / "a", keep=1) as first, Checkpoints(tmp_path / "b", 1) as second:
        for step in range(8):
            first.save(step, _state(step), {})
            second.save(step, _state(step), {})
        first.wait()
        second.wait()
        _assert_is(first.restore(_abstract()), 7)
        _assert_is(second.restore(_abstract()), 7)
