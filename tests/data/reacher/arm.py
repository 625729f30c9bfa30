"""A stand-in for MuJoCo: an arm of two lines, drawn with NumPy, and episodes without physics."""

import numpy as np

from socialjepa_jax.data.reacher import rendering, trajectories


def photograph(states_N2, camera):
    """Draws arms as grey lines; a tilted camera sees them foreshortened."""
    states = np.asarray(states_N2, np.float64)
    along = np.linspace(0, 0.12, 24)
    shoulder, whole = states[:, :1], states.sum(1, keepdims=True)
    elbow = 0.12 * np.stack([np.cos(shoulder), np.sin(shoulder)], -1)
    upper = along[:, None] * np.stack([np.cos(shoulder), np.sin(shoulder)], -1)
    lower = elbow + along[:, None] * np.stack([np.cos(whole), np.sin(whole)], -1)
    turn, size = np.radians(camera.turn), camera.size
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    images = np.zeros((len(states), size, size, 3), np.uint8)
    for channel, link in enumerate((upper, lower)):
        x, y = np.moveaxis(link @ rotation, -1, 0)
        y = y * np.cos(np.radians(camera.tilt))
        column = np.round((x / 0.62 + 0.5) * (size - 1)).astype(int)
        row = np.round((0.5 - y / 0.62) * (size - 1)).astype(int)
        images[np.arange(len(states))[:, None], row, column, channel] = 255
    return images


def controlled(count=40):
    """Random walks of 201 moments."""
    steps = np.random.default_rng(5).normal(scale=0.1, size=(count, trajectories.MOMENTS, 2))
    return steps.cumsum(1)


def stand_in(monkeypatch):
    """Replaces MuJoCo."""
    monkeypatch.setattr(rendering, "photograph", photograph)
    monkeypatch.setattr(trajectories, "controlled", controlled)
