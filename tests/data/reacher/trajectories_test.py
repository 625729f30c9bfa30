"""Episodes from a file or the built-in controller, and the inverse kinematics of the arm."""

import importlib.util

import numpy as np
import pytest

from socialjepa_jax.data.reacher import trajectories
from socialjepa_jax.errors import InputError


def finger(angles):
    """Place of the finger, by the angles of both links."""
    shoulder, whole = angles[..., 0], angles.sum(-1)
    x, y = (trajectories.LINK * (f(shoulder) + f(whole)) for f in (np.cos, np.sin))
    return np.stack([x, y], -1)


def test_a_bend_puts_the_finger_on_the_target_without_a_detour():
    rng = np.random.default_rng(0)
    now = rng.uniform([-9, -2.7], [9, 2.7], (300, 2))
    places = np.array([trajectories._target(rng) for _ in now])
    goals = np.array([trajectories.bend_towards(p, n, rng) for p, n in zip(places, now)])
    np.testing.assert_allclose(finger(goals), places, atol=1e-9)
    assert np.abs(goals[:, 0] - now[:, 0]).max() <= np.pi + 1e-9
    assert np.abs(goals[:, 1]).max() < trajectories.WRIST
    radius = np.linalg.norm(places, axis=1)
    assert 0.05 <= radius.min() and radius.max() <= 0.20
    assert 0.5 < (np.sign(goals[:, 1]) == np.sign(now[:, 1])).mean() < 1.0


def test_a_file_holds_the_episodes(tmp_path):
    angles = np.random.default_rng(0).normal(size=(6, 20, 2)).astype(np.float32)
    np.savez(tmp_path / "file.npz", qpos=angles, other=angles[:2])
    found = trajectories.episodes(str(tmp_path / "file.npz"), "qpos", tmp_path)
    np.testing.assert_array_equal(found, angles)
    assert found.dtype == np.float64
    assert len(trajectories.episodes(str(tmp_path / "file.npz"), "other", tmp_path)) == 2


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"other": np.zeros((2, 5, 2))}, "no array 'qpos', it holds other"),
        ({"qpos": np.zeros((2, 5, 3))}, r"trajectories=.*\[2, 5, 3\] must be finite angles"),
        ({"qpos": np.full((2, 5, 2), np.nan)}, "must be finite"),
        ({"qpos": np.zeros((5, 2))}, "qpos"),
        ({"qpos": np.zeros((2, 5, 2), int)}, "qpos"),
        ({"qpos": np.zeros((0, 5, 2))}, "must be finite angles"),
    ],
)
def test_a_wrong_file_is_refused(arrays, message, tmp_path):
    np.savez(tmp_path / "file.npz", **arrays)
    with pytest.raises(InputError, match=message):
        trajectories.episodes(str(tmp_path / "file.npz"), "qpos", tmp_path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.npz"):
        trajectories.episodes(str(tmp_path / "nowhere.npz"), "qpos", tmp_path)


def test_the_controller_reaches_its_targets_within_the_joint_limit():
    if not all(importlib.util.find_spec(name) for name in ("mujoco", "dm_control")):
        pytest.skip("MuJoCo and dm_control are not installed: pip install '.[reacher]'")
    found = trajectories.controlled(12)
    assert found.shape == (12, trajectories.MOMENTS, 2)
    assert np.abs(found[..., 1]).max() < trajectories.WRIST + 0.02
    speed = np.abs(np.diff(found, axis=1)).max((1, 2))
    assert 0.05 < speed.min() and speed.max() < 0.5
    way, rest = (np.abs(np.diff(found[:, part], axis=1)).mean() for part in (
        slice(0, 20), slice(80, 100)))  # fmt: skip
    assert rest < 0.015 < 0.03 < way  # it has arrived, but for its noise
    np.testing.assert_array_equal(found[:3], trajectories.controlled(3))
