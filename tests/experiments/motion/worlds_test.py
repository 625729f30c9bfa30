"""The picture of the worlds in motion: its states, its tiles, and the file in the documents."""

import io
import pathlib

import numpy as np
import pytest
from PIL import Image

from experiments.motion import worlds
from socialjepa_jax.data.toys.moving import MotionData
from socialjepa_jax.report import style

PICTURE = pathlib.Path(__file__).parents[3] / "docs" / "motion_worlds.png"


def test_every_latent_takes_every_level_once_for_both_cameras(monkeypatch):
    monkeypatch.setattr(MotionData, "photograph", lambda self, z, camera, key: (camera + 1) * z)
    shared = {}
    for name, changes in worlds.WORLDS.items():
        first, second = worlds.photographs(changes)
        np.testing.assert_array_equal(second, 2 * first)
        np.testing.assert_array_equal(
            np.sort(first, 0), np.transpose([worlds.LEVELS] * len(first[0]))
        )
        shared[name] = first[:, :2]
    assert len(shared) == 7
    assert all((states == shared["with flicker"]).all() for states in shared.values())


def test_a_row_shows_the_first_camera_then_the_second(monkeypatch):
    number = iter(range(1, 8))

    def photographs(changes):
        return 10 * next(number) + np.arange(8).reshape(2, 4, 1, 1, 1) * np.ones((6, 6, 3), int)

    monkeypatch.setattr(worlds, "photographs", photographs)
    figure = worlds.figure()
    (axes,) = figure.axes
    shown = np.reshape([image.get_array().max() for image in axes.images], (7, 8))
    np.testing.assert_array_equal(shown, 10 * np.arange(1, 8)[:, None] + np.arange(8)[None])
    labels = [text.get_text() for text in axes.texts]
    assert labels[:7] == list(worlds.WORLDS)
    assert labels[7] == "camera 0\nstate 0" and labels[14] == "camera 1\nstate 3"
    with Image.open(PICTURE) as stored:
        assert stored.size == Image.open(io.BytesIO(style.png(figure, worlds.DPI))).size
    assert PICTURE.stat().st_size < 150_000


@pytest.mark.nightly
def test_worlds_cameras_and_states_look_different():
    found = [worlds.photographs(changes, 32, 1) for changes in worlds.WORLDS.values()]
    images = np.reshape(found, (56, -1))
    distance = np.abs(images[:, None].astype(int) - images[None]).max(-1)
    assert (distance + 1000 * np.eye(56) > 20).all()
