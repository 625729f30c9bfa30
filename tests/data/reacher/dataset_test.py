"""The arm as a data set: states on the grid, pairs of both conditions, what cannot be."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax import sharding
from socialjepa_jax.data import ReacherData
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.protocols import Opening, WalkFeed
from socialjepa_jax.data.reacher.grid import Grid
from socialjepa_jax.errors import InputError
from tests.data.reacher import arm

SMALL = ReacherData(grid=(32, 16), image_size=64, pool=400, states=400)
GRID = Grid(SMALL.grid)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A cache of images, made without MuJoCo."""
    place = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        arm.stand_in(patch)
        for camera in range(2):
            SMALL.images(camera, place)
        SMALL.episodes(place)
    return place  # from now on nothing is rendered


def open_feed(data, folder, cameras=(0, 1, 0), seeds=(0, 1, 2), batch_size=8):
    opening = Opening(
        cameras=cameras, train_rows=np.arange(20), augmentation=Augment(),
        mesh=sharding.make_mesh(len(seeds), batch_size, jax.devices()[:1]),
        seeds=jnp.asarray(seeds, jnp.uint32), batch_size=batch_size, steps_per_call=1,
        total_steps=4, chunk=16, workdir=None, cache=folder,
    )  # fmt: skip
    return data.open_feed(data.load(folder), opening)


def rows_shown(images, camera, folder):
    """The rows of the grid that images show."""
    known = {image.tobytes(): row for row, image in enumerate(SMALL.images(camera, folder))}
    return np.array([known[image.tobytes()] for image in images])


def angles_shown(images, camera, folder):
    """Angles in [-pi, pi) that images show."""
    steps = np.unravel_index(rows_shown(images, camera, folder), SMALL.grid)
    return (np.stack(steps, -1) * GRID.pitch + np.pi) % (2 * np.pi) - np.pi


def test_states_are_of_the_grid_and_all_cameras_see_them(folder):
    dataset = SMALL.load(folder)
    assert dataset.images.shape == (2, 400, 64, 64, 3) and dataset.state_names == (
        "shoulder", "wrist",
    )  # fmt: skip
    np.testing.assert_allclose(dataset.states, GRID.round(dataset.states), atol=1e-6)
    np.testing.assert_allclose(dataset.states.std(0), 1.0, atol=0.15)
    for camera, images in enumerate(dataset.images):
        shown = rows_shown(images[:50], camera, folder)
        np.testing.assert_array_equal(shown, GRID.index(dataset.states[:50]))
    assert dataset.split_state.sum() == 200
    again = dataclasses.replace(SMALL, seed=1).load(folder)
    assert (again.states != dataset.states).any()


def test_pairs_of_the_process_have_its_correlation_and_differ_between_agents(folder):
    feed = open_feed(dataclasses.replace(SMALL, rho=(0.9, 0.5)), folder)
    assert not isinstance(feed, WalkFeed) and feed.good.all()
    frames = np.asarray(feed.at(0).frames)
    assert frames.shape == (3, 400, 2, 64, 64, 3)
    first, second = (angles_shown(frames[0, :, k], 0, folder) for k in (0, 1))
    near = (np.abs(first) < 2.5).all(1) & (np.abs(second) < 2.5).all(1)  # no turn between them
    found = [np.polyfit(first[near, k], second[near, k], 1)[0] for k in (0, 1)]
    np.testing.assert_allclose(found, [0.9, 0.5], atol=0.12)
    others = angles_shown(frames[2, :, 0], 0, folder)
    assert (np.abs(others - first).max(1) > 0).mean() > 0.9


def test_pairs_of_trajectories_are_a_stride_apart_in_episodes_that_are_not_measured(folder):
    data = dataclasses.replace(SMALL, process="trajectory", stride=5)
    episodes = arm.controlled()
    measured = {tuple(z) for z in GRID.round(episodes[::4]).reshape(-1, 2).round(6)}
    states = data.load(folder).states.astype(np.float64)
    assert {tuple(z) for z in GRID.round(states).round(6)} <= measured
    process, params = data.world(folder)
    assert process.stride == 5
    kept = np.delete(episodes, np.arange(0, 40, 4), axis=0)
    np.testing.assert_allclose(params["episodes"], kept, atol=1e-6)
    frames = np.asarray(open_feed(data, folder).at(0).frames)
    first, second = (angles_shown(frames[0, :, k], 0, folder) for k in (0, 1))
    step = (second - first + np.pi) % (2 * np.pi) - np.pi
    expected = (episodes[:, 5:] - episodes[:, :-5]).std()
    assert step.std() == pytest.approx(np.hypot(expected, GRID.pitch.mean() / 6**0.5), rel=0.2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "motion"}, "kind='motion'"),
        ({"process": "walk"}, "process='walk'"),
        ({"image_size": 48}, "image_size=64 must be a multiple of 48"),
        ({"pool": 0}, "pool=0"),
        ({"stride": 0}, "stride=0"),
        ({"rho": (0.9, 0.8, 0.7)}, "must be 1 or 2 correlations"),
        ({"rho": (1.0,)}, "rho=1.0"),
        ({"tilts": (0.0,)}, r"tilts=\(0.0,\) and turns"),
        ({"tilts": (0.0, 0.0), "turns": (9.0, 9.0)}, "two cameras are one"),
        ({"tilts": (0.0, 85.0)}, "tilt=85.0"),
        ({"grid": (9, 9)}, r"grid=\(9, 9\)"),
    ],
)
def test_what_cannot_be_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(SMALL, **fields)


def test_a_pool_below_a_batch_and_too_few_episodes_are_refused(folder, tmp_path):
    with pytest.raises(InputError, match=r"config\.data\.pool=4 is less"):
        open_feed(dataclasses.replace(SMALL, pool=4), folder)
    np.savez(tmp_path / "few.npz", qpos=np.zeros((3, 9, 2)))
    few = dataclasses.replace(
        SMALL, process="trajectory", trajectories=str(tmp_path / "few.npz"), stride=1
    )
    with pytest.raises(InputError, match="only 3 episodes"):
        few.measured(tmp_path)
