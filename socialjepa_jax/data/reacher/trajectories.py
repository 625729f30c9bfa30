"""Joint angles of goal-directed episodes: read from a file, or made by a built-in controller.

The controller solves the inverse kinematics of the two links for a random target every 100 moments
and drives there by a PD law in MuJoCo, as a policy does that was trained on the task: the shoulder
turns further and further, and the wrist has two modes, since targets are reached by two bends.

Shape key: E episodes, T moments.
"""

import pathlib

import numpy as np

from socialjepa_jax.data import cache
from socialjepa_jax.data.arrays import read_array
from socialjepa_jax.data.reacher import rendering
from socialjepa_jax.errors import InputError, expand_user

LINK = 0.12  # metres, both links with the finger
WRIST = 2.79  # largest angle of the wrist, radians
MOMENTS, HOLD, RETARGET = 201, 2, 100  # an action is held for two steps of 0.02 s
GAIN, DAMPING, NOISE = 2.0, 0.1, 0.1  # torque per radian, per radian/s; its deviation
OTHER_BEND = 0.25  # share of targets whose bend is drawn and not the nearer one
EPISODES = 2_000


def episodes(path: str, key: str, folder: pathlib.Path) -> np.ndarray:
    """Returns joint angles f64[E, T, 2], radians; the shoulder's turns are counted.

    Args:
        path: `.npz` file; "": the built-in controller.
        key: name of its array.
        folder: of the cache, for the built-in episodes.

    Raises:
        InputError: the file is missing or damaged, or has no such array; or MuJoCo is missing.
    """
    if path:
        return _read(path, key)
    facts = (LINK, MOMENTS, HOLD, RETARGET, GAIN, DAMPING, NOISE, OTHER_BEND, rendering.VERSION)
    name = "_".join(map(str, facts))
    return cache.cached_array(folder / "reacher" / f"episodes_{name}.npy", controlled)


def _read(path: str, key: str) -> np.ndarray:
    """Reads the array of a file."""
    found = read_array(pathlib.Path(expand_user(path, "trajectories")), key, "f", (3,))
    found = found.astype(np.float64)
    if found.shape[-1] != 2 or not found.size or not np.isfinite(found).all():
        raise InputError(
            f"trajectories={path}: {key!r} {list(found.shape)} must be finite angles "
            "[episodes, moments, 2]"
        )
    return found


def controlled(count: int = EPISODES) -> np.ndarray:
    """Simulates the built-in controller: f64[count, T, 2]."""
    module, model = rendering.mujoco(), rendering.load_model()
    found = np.empty((count, MOMENTS, 2))
    for number in range(count):
        rng, data = np.random.default_rng([number, 77]), module.MjData(model)
        data.qpos[:] = rng.uniform([-np.pi, -WRIST], [np.pi, WRIST])
        goal = data.qpos
        for moment in range(MOMENTS):
            found[number, moment] = data.qpos
            if moment % RETARGET == 0:
                goal = bend_towards(_target(rng), data.qpos.copy(), rng)
            torque = GAIN * (goal - data.qpos) - DAMPING * data.qvel
            data.ctrl[:] = np.clip(torque + NOISE * rng.normal(size=2), -1.0, 1.0)
            module.mj_step(model, data, HOLD)
    return found


def _target(rng: np.random.Generator) -> np.ndarray:
    """Draws a place f64[2] where the suite puts targets."""
    angle, radius = rng.uniform(0.0, 2 * np.pi), rng.uniform(0.05, 0.20)
    return radius * np.array([np.sin(angle), np.cos(angle)])


def bend_towards(place: np.ndarray, now: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns angles f64[2] that put the finger at a place, at less than half a turn from now."""
    bend = np.arccos(np.clip(np.square(place).sum() / (2 * LINK**2) - 1, -1, 1))
    wrist = np.array([bend, -bend])
    shoulder = np.arctan2(place[1], place[0]) - wrist / 2
    turns = np.round((now[0] - shoulder) / (2 * np.pi))
    both = np.stack([shoulder + 2 * np.pi * turns, wrist], 1)
    nearer = int(np.abs(both - now).max(1).argmin())
    return both[rng.integers(2) if rng.random() < OTHER_BEND else nearer]
