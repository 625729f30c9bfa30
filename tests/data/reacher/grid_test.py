"""The grid of poses: which row shows which angles, and that it is rendered once."""

import numpy as np
import pytest

from socialjepa_jax.data.reacher import rendering
from socialjepa_jax.data.reacher.grid import Grid, shrink
from socialjepa_jax.data.reacher.rendering import Camera
from socialjepa_jax.errors import InputError
from tests.data.reacher import arm

GRID = Grid((16, 8))


def test_a_row_shows_the_angles_that_round_to_it(monkeypatch, tmp_path):
    arm.stand_in(monkeypatch)
    states = np.random.default_rng(0).normal(scale=3.0, size=(200, 2))
    rounded, images = GRID.round(states), GRID.images(Camera(), tmp_path)
    assert (np.abs(rounded - states) <= GRID.pitch / 2 + 1e-12).all()
    drawn = arm.photograph(rounded, Camera())
    assert (images[GRID.index(states)] != drawn).mean() < 1e-4  # dots between two pixels
    turned = states + 2 * np.pi * np.random.default_rng(1).integers(-2, 3, states.shape)
    np.testing.assert_array_equal(GRID.index(turned), GRID.index(states))
    assert len(np.unique(GRID.index(states))) > 60


def test_images_are_rendered_once_and_an_interruption_costs_one_file(monkeypatch, tmp_path):
    arm.stand_in(monkeypatch)
    seen = []

    def counted(states, camera):
        seen.append(len(states))
        if len(seen) == 2:
            raise KeyboardInterrupt
        return arm.photograph(states, camera)

    monkeypatch.setattr(rendering, "photograph", counted)
    with pytest.raises(KeyboardInterrupt):
        GRID.images(Camera(), tmp_path)
    images = GRID.images(Camera(), tmp_path)
    assert seen == [64, 64, 64]  # the first file was kept
    np.testing.assert_array_equal(GRID.images(Camera(), tmp_path), images)
    small = GRID.images(Camera(), tmp_path, 32)
    np.testing.assert_array_equal(small, GRID.images(Camera(), tmp_path, 32))
    assert len(seen) == 3
    GRID.images(Camera(tilt=30.0), tmp_path)  # another camera is another file
    assert len(seen) == 5


def test_a_smaller_image_is_the_mean_of_squares():
    images = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), np.uint8)
    small = shrink(images, 16)
    assert small.shape == (3, 16, 16, 3) and small.dtype == np.uint8
    assert small[1, 2, 3, 0] == round(images[1, 8:12, 12:16, 0].mean())
    np.testing.assert_array_equal(shrink(images, 64), images)


@pytest.mark.parametrize("shape", [(7, 8), (12, 8), (16, 4)])
def test_a_grid_that_cannot_be_is_refused(shape):
    with pytest.raises(InputError, match=r"grid=.* must be 8 or more"):
        Grid(shape)
