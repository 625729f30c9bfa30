"""Checkpoints: exact round trip, detection of damage, reported errors."""

import os
import resource
import shutil
import signal
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.running.checkpoint import Checkpoints, NotSaved
from socialjepa_jax.running.storage import digests


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


def test_the_newest_checkpoint_is_restored_bit_for_bit(tmp_path):
    _saved(tmp_path)
    with Checkpoints(tmp_path, keep=5) as checkpoints:
        assert checkpoints.steps() == [1, 2, 3]
        _assert_is(checkpoints.restore(_abstract()), 3)


def test_an_empty_folder_restores_none(tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        assert checkpoints.restore(_abstract()) is None


def test_only_the_newest_checkpoints_are_kept(tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        for step in (1, 2, 3, 4):
            checkpoints.save(step, _state(step), {})
        checkpoints.wait()
        assert checkpoints.steps() == [3, 4]


def _flip_a_bit(folder):
    """Flips one bit in the middle of the largest file, which holds array data without checksums."""
    path = max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def _truncate(folder):
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", [_flip_a_bit, _truncate])
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_is_used(tmp_path, damage):
    _saved(tmp_path)
    damage(tmp_path / "3")
    with Checkpoints(tmp_path, keep=5) as checkpoints:
        _assert_is(checkpoints.restore(_abstract()), 2)
        assert checkpoints.steps() == [1, 2]
        assert (tmp_path / "3.damaged").is_dir()
        checkpoints.save(3, _state(3), {})  # the run resumes and saves this step again
        checkpoints.wait()
        assert checkpoints.steps() == [1, 2, 3]


def test_no_read_of_a_damaged_checkpoint_is_left_running(tmp_path, monkeypatch):
    """A read that ends after the event loop has closed would print a traceback."""
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


def test_a_folder_of_damaged_checkpoints_is_refused(tmp_path):
    _saved(tmp_path, steps=(1, 2))
    for step in (1, 2):
        _truncate(tmp_path / str(step))
    for _ in range(2):  # a second start does not silently begin anew
        with (
            Checkpoints(tmp_path, keep=5) as checkpoints,
            pytest.raises(InputError, match="no checkpoint"),
        ):
            checkpoints.restore(_abstract())


def test_a_step_that_is_saved_already_is_refused(tmp_path):
    _saved(tmp_path, steps=(5,))
    with Checkpoints(tmp_path, keep=5) as checkpoints, pytest.raises(Exception, match="5"):
        checkpoints.save(5, _state(5), {})


def test_a_state_that_is_not_finite_is_not_written(tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        checkpoints.save(1, _state(1), {})
        checkpoints.save(2, {**_state(2), "half": jnp.full((7,), jnp.nan, jnp.bfloat16)}, {})
        with pytest.raises(NotSaved, match=r"step 2 is not finite, first in \['half'\]"):
            checkpoints.wait()
        assert checkpoints.steps() == [1]


class _Failing:
    """A storage whose first `times` writes fail and leave a partial checkpoint behind."""

    def __init__(self, inner, times):
        self.inner, self.times = inner, times

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def write(self, path, state, manifest):
        if self.times:
            self.times -= 1
            (path.parent / f"{path.name}.orbax-checkpoint-tmp").mkdir()
            raise OSError(28, "No space left on device")
        self.inner.write(path, state, manifest)


def test_a_failed_save_is_repeated_once(tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        checkpoints._storage = _Failing(checkpoints._storage, 1)
        checkpoints.save(1, _state(1), {})
        checkpoints.wait()
        _assert_is(checkpoints.restore(_abstract()), 1)


def test_a_save_that_fails_twice_raises_and_keeps_the_other_checkpoints(tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        checkpoints.save(1, _state(1), {})
        checkpoints.wait()
        checkpoints._storage = failing = _Failing(checkpoints._storage, 2)
        checkpoints.save(2, _state(2), {})
        with pytest.raises(NotSaved, match=r"No space left on device\); on disk are steps \[1\]"):
            while True:
                checkpoints.check()
        assert failing.times == 0
        assert [path.name for path in tmp_path.iterdir()] == ["1"]  # the partial ones are deleted


def test_no_write_to_a_full_disk_is_left_running(tmp_path, capfd, caplog):
    """A write that ends after the event loop has closed would print a traceback, as Orbax does."""
    state = {f"leaf_{k}": np.random.default_rng(k).normal(size=1 << 14) for k in range(16)}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writes fail with EFBIG instead
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with Checkpoints(tmp_path, keep=2) as checkpoints:
            checkpoints.save(1, state, {})
            with pytest.raises(NotSaved, match=r"cannot be written .* on disk are steps \[\]"):
                checkpoints.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert "Traceback" not in capfd.readouterr().err
    assert not any(record.exc_info for record in caplog.records)


def test_a_save_into_a_removed_folder_raises(tmp_path):
    with Checkpoints(tmp_path / "gone", keep=2) as checkpoints:
        checkpoints.save(1, _state(1), {})
        checkpoints.wait()
        checkpoints._storage = _Failing(checkpoints._storage, 2)
        shutil.rmtree(tmp_path / "gone")
        checkpoints.save(2, _state(2), {})
        with pytest.raises(NotSaved, match=r"on disk are steps \[\]"):
            checkpoints.wait()


@pytest.mark.parametrize(
    ("name", "leaf", "message"),
    [
        ("weight", jax.ShapeDtypeStruct((64, 32), jnp.bfloat16), "float32.* there and bfloat16"),
        ("weight", jax.ShapeDtypeStruct((64, 32), jnp.int32), "float32.* there and int32"),
        ("weight", jax.ShapeDtypeStruct((32, 64), jnp.float32), r"\[64, 32\] there .*\[32, 64\]"),
        ("more", jax.ShapeDtypeStruct((1,), jnp.float32), "missing there and float32"),
    ],
)
def test_another_layout_is_refused_and_the_checkpoint_is_kept(tmp_path, name, leaf, message):
    _saved(tmp_path, steps=(3,))
    with Checkpoints(tmp_path, keep=5) as checkpoints:
        with pytest.raises(InputError, match=message):
            checkpoints.restore({**_abstract(), name: leaf})
        assert checkpoints.steps() == [3]


def test_a_state_of_four_devices_is_restored_on_two_or_eight(tmp_path):
    def split_over(count):
        mesh = jax.make_mesh((count,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))

    rows = {"rows": np.arange(48.0, dtype=np.float32).reshape(16, 3)}
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        checkpoints.save(1, jax.device_put(rows, split_over(4)), {})
        for count in (2, 8):
            target = jax.ShapeDtypeStruct((16, 3), jnp.float32, sharding=split_over(count))
            restored = checkpoints.restore({"rows": target})
            np.testing.assert_array_equal(restored["rows"], rows["rows"])
            assert restored["rows"].sharding == split_over(count)


def test_a_save_writes_the_state_at_the_time_of_the_call(tmp_path):
    """The next step donates the buffers while the thread is still writing."""
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    state = {"x": jnp.zeros((1 << 20,))}
    with Checkpoints(tmp_path, keep=3) as checkpoints:
        for number in (1, 2, 3):
            state = {"x": step(state["x"])}
            checkpoints.save(number, state, {})
        state = {"x": step(state["x"])}
        restored = checkpoints.restore({"x": jax.ShapeDtypeStruct((1 << 20,), jnp.float32)})
        assert (np.asarray(restored["x"]) == 3.0).all()


def test_two_folders_are_written_at_the_same_time(tmp_path):
    """Orbax confuses simultaneous saves, as those of the newest and the best state of one step."""
    with Checkpoints(tmp_path / "a", keep=1) as first, Checkpoints(tmp_path / "b", 1) as second:
        for step in range(8):
            first.save(step, _state(step), {})
            second.save(step, _state(step), {})
        first.wait()
        second.wait()
        _assert_is(first.restore(_abstract()), 7)
        _assert_is(second.restore(_abstract()), 7)
