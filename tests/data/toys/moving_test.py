"""Worlds in motion as data: states, pairs of every transition, walks; who shares what with whom.

Where a test is about states, the renderer is replaced by one whose pixels are the latents.
"""

import dataclasses
import functools
import itertools
import logging
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from scipy import stats

from socialjepa_jax import build, config, sharding
from socialjepa_jax.data import Splits
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.protocols import Opening, WalkFeed
from socialjepa_jax.data.toys import MotionData, motion, moving
from socialjepa_jax.dynamics.driven import Driven
from socialjepa_jax.errors import InputError
from socialjepa_jax.models.patch_net import PatchNetConfig
from socialjepa_jax.objectives.pairs.frames import FramePairs

CAMERAS, SEEDS, BATCH = (0, 1, 0), (0, 1, 2), 8
REAL = MotionData(image_size=16, pool=64, states=40, walk=20)
# Latents as pixels: one for each latent, of every channel.
SIDE, LOW, HIGH = 4, -5.0, 5.0
NUM = 2000  # of states, pairs and steps, always: other shapes would be compiled for
PLAIN = MotionData(image_size=SIDE, flicker=0.0, pool=NUM, states=NUM, walk=0)
RESOLUTION = (HIGH - LOW) / 255
ARM = {"latents": ("shoulder", "elbow"), "actions": 2}


@pytest.fixture(scope="module", autouse=True)
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moving, "_BLOCK", 256)
        yield


@pytest.fixture
def plain(monkeypatch):
    """Replaces the renderer by one that writes the latents into the first pixels."""

    def render(stage, z_BL, camera):
        assert stage.image_size == SIDE  # or a compiled program would outlive this test
        pixels = jnp.zeros((len(z_BL), SIDE * SIDE)).at[:, : z_BL.shape[1]].set(z_BL)
        pixels = (pixels - LOW) / (HIGH - LOW)
        shown = pixels.reshape(-1, SIDE, SIDE, 1)
        return jnp.broadcast_to(shown, (*shown.shape[:3], stage.channels)) + 0.0 * camera

    monkeypatch.setattr(motion.Stage, "render", render)


def read(images, latents=3):
    """The latents f64[..., L] in images [..., H, W, C] on the scale [0, 255], of `plain`."""
    first = np.asarray(images, np.float64)[..., 0]
    return LOW + RESOLUTION * first.reshape(*first.shape[:-2], -1)[..., :latents]


def opening(devices=1, seeds=SEEDS, cameras=CAMERAS, **fields):
    known = {
        "cameras": cameras, "train_rows": np.arange(20), "augmentation": Augment(),
        "mesh": sharding.make_mesh(len(seeds), BATCH, jax.devices()[:devices]),
        "seeds": jnp.asarray(seeds, jnp.uint32), "batch_size": BATCH, "steps_per_call": 1,
        "total_steps": 4, "chunk": 16, "workdir": None, "cache": None,
    }  # fmt: skip
    return Opening(**known | fields)


@functools.cache
def loaded(data):
    return data.load(None)


def open_feed(data, dataset=None, **fields):
    return data.open_feed(loaded(REAL) if dataset is None else dataset, opening(**fields))


@functools.cache
def real_feed():
    """A feed of rendered images with three agents."""
    return open_feed(REAL)


def batches(feed, steps, size=BATCH):
    """Batches of some steps, of all agents, as an agent's step would see them: [A, S, B, ...]."""
    mesh, source = feed.mean.sharding.mesh, feed.at(0)

    def of_agent(source, seed):
        return jax.lax.map(lambda step: source.batch(step, seed, size), jnp.asarray(steps))

    stacked, alone = P("agent", None, "data"), P("agent")
    mapped = jax.shard_map(
        lambda source, seeds: jax.lax.map(lambda args: of_agent(*args), (source, seeds)),
        mesh=mesh,
        in_specs=(source.specs(), alone),
        out_specs={"image": stacked, "next": stacked, "index": stacked, "mean": alone,
                   "std": alone},
    )  # fmt: skip
    seeds = jnp.asarray(feed._seeds, jnp.uint32)
    return {name: np.asarray(value) for name, value in jax.jit(mapped)(source, seeds).items()}


def pixels(found, name):
    """Images of batches on the scale [0, 255]."""
    mean, std = (found[key][:, :, None, None, None] for key in ("mean", "std"))
    return 255 * (found[name] * std + mean)


# What the world is.


def test_states_are_seen_by_all_cameras_and_half_are_held_out():
    dataset = loaded(REAL)
    assert dataset.images.shape == (2, 40, 16, 16, 3) and dataset.images.dtype == np.uint8
    assert dataset.states.shape == (40, 3) and dataset.state_names == ("x", "y", "yaw")
    assert dataset.split_state.sum() == 20 and not dataset.split_instance.any()
    np.testing.assert_array_equal(
        np.sort(dataset.train_rows), np.flatnonzero(dataset.split_state == 0)
    )
    again, other = REAL.load(None), dataclasses.replace(REAL, seed=1).load(None)
    np.testing.assert_array_equal(again.images, dataset.images)
    assert not np.isin(other.states, dataset.states).any()
    kept = dataset.subset(np.arange(40) < 10)
    np.testing.assert_array_equal(kept.states, dataset.states[:10])
    calm = [REAL.photograph(dataset.states, k, jax.random.key(0), 0.0) for k in (0, 1)]
    gains = np.log(dataset.images / np.maximum(calm, 1.0))[:, :, 0, 0]  # of a pixel of the ground
    assert (np.abs(gains).max(-1) > 0.01).mean() > 0.9
    assert abs(stats.pearsonr(*gains.mean(-1)).statistic) < 0.5  # each camera has its own


def test_images_do_not_depend_on_the_block_they_are_rendered_in():
    states, key = np.random.default_rng(0).normal(size=(moving._BLOCK + 4, 3)), jax.random.key(3)
    whole, calm = (REAL.photograph(states, 1, key, strength) for strength in (None, 0.0))
    np.testing.assert_array_equal(REAL.photograph(states[:2], 1, key), whole[:2])
    np.testing.assert_array_equal(REAL.photograph(states[-4:], 1, key, 0.0), calm[-4:])
    assert len(whole) == len(states) and (whole[-4:] != calm[-4:]).any((1, 2, 3)).all()


LAWS = {
    "ou": stats.norm.cdf,
    "uniform": stats.uniform(-(3**0.5), 2 * 3**0.5).cdf,
    "gennorm": stats.gennorm(4.0, scale=(stats.gennorm(4.0).var()) ** -0.5).cdf,
    "goals": lambda z: (stats.norm(-0.9, 0.19**0.5).cdf(z) + stats.norm(0.9, 0.19**0.5).cdf(z)) / 2,
}


@pytest.mark.parametrize("process", LAWS)
def test_processes_have_the_stated_marginal_in_states_and_both_images(process, plain):
    data = dataclasses.replace(PLAIN, process=process, alpha=4.0)
    dataset = data.load(None)
    assert stats.kstest(dataset.states[:, 0], LAWS[process]).pvalue > 1e-4
    frames = read(open_feed(data, dataset, seeds=(0,), cameras=(0,)).at(0).frames[0])
    for frame in (0, 1):  # rounding is far below what the test can tell
        assert stats.kstest(frames[:, frame, 1], LAWS[process]).pvalue > 1e-4
    follow = stats.spearmanr(frames[:, 0, 2], frames[:, 1, 2]).statistic
    assert 0.5 < follow < 0.95


@pytest.mark.parametrize("process", LAWS)
def test_a_film_shows_the_process(process, plain):
    film = dataclasses.replace(PLAIN, process=process, alpha=4.0, flicker=0.3).film(NUM + 1)
    assert film.images.shape == film.calm.shape == (2, NUM + 1, SIDE, SIDE, 3)
    np.testing.assert_allclose(read(film.calm[0]), film.states, atol=RESOLUTION)
    np.testing.assert_array_equal(film.calm[0], film.calm[1])  # `plain` ignores the camera
    assert (film.images != film.calm).mean() > 0.5 and (film.images[0] != film.images[1]).any()
    z = film.states
    assert 0.7 < np.corrcoef(z[1:].T, z[:-1].T)[:3, 3:].diagonal().mean() < 0.97
    if process == "uniform":
        assert np.abs(z).max() < 1.8
    if process == "goals":
        assert stats.kurtosis(z, axis=None) < -0.8
    if process == "ou":
        assert np.abs(z).max() > 2.2


@pytest.mark.parametrize("process", [pytest.param("ou", marks=pytest.mark.nightly), "policy"])
def test_dependent_joints_are_those_of_their_process(process, plain):
    data = dataclasses.replace(PLAIN, **ARM, process=process, dependence=-0.5, walk=10)
    dataset = data.load(None)
    feed = open_feed(data, dataset, seeds=(0,), cameras=(0,))
    assert feed.walks is None  # actions do not drive these
    frames = read(feed.at(0).frames[0], 2)
    for states in (dataset.states, frames[:, 0], frames[:, 1], data.film(NUM + 1).states):
        np.testing.assert_allclose(states.std(0), 1.0, atol=0.15)
        assert stats.spearmanr(states).statistic == pytest.approx(-0.48, abs=0.12)
        assert (stats.kurtosis(states[:, 1]) < -1.5) == (process == "policy")


def test_private_latents_come_last(plain):
    data = dataclasses.replace(PLAIN, private=True, rho=(0.9, 0.9, 0.9, 0.2, 0.6))
    assert data.state_names == ("x", "y", "yaw", "private_0", "private_1")
    assert (data.num_latents, data.latents_in_view) == (5, 4)
    dataset = data.load(None)
    assert dataset.states.shape == (NUM, 5)
    np.testing.assert_allclose(read(dataset.images[1], 5), dataset.states, atol=RESOLUTION)


# What agents see.


def test_pairs_correlate_as_stated_and_strangers_do_not(plain):
    data = dataclasses.replace(PLAIN, rho=(0.95, 0.8, 0.3))
    dataset = data.load(None)
    feed = open_feed(data, dataset)
    frames = read(feed.at(0).frames)
    bound = 5 / NUM**0.5
    for agent, found in enumerate(frames):
        states = feed.pool_states(agent).swapaxes(0, 1)
        np.testing.assert_allclose(found, states, atol=RESOLUTION)
        both = np.concatenate([found[:, 0], found[:, 1]], axis=1)
        expected = np.eye(6)
        expected[:3, 3:] = expected[3:, :3] = np.diag(data.rho)
        np.testing.assert_allclose(np.cov(both.T), expected, atol=1.5 * bound)
    strangers = dataclasses.replace(data, transition="strangers")
    apart = read(open_feed(strangers, dataset).at(0).frames)
    np.testing.assert_array_equal(apart[:, :, 0], frames[:, :, 0])  # the same moments,
    np.testing.assert_array_equal(apart[:, :, 1], np.roll(frames[:, :, 1], 1, axis=1))
    cross = np.corrcoef(apart[0, :, 0].T, apart[0, :, 1].T)[:3, 3:]
    assert np.abs(cross).max() < bound


def test_agents_share_no_pair_and_no_walk(plain):
    data = dataclasses.replace(PLAIN, walk=NUM)
    dataset = data.load(None)
    feed = open_feed(data, dataset)
    groups = [*read(feed.at(0).frames[:, :, 0]), *read(feed.walks), dataset.states]
    groups = [group[:200] for group in groups]
    for one, other in itertools.combinations(groups, 2):
        assert (np.abs(one[:, None] - other[None]).max(-1) <= RESOLUTION).mean() < 5e-4  # by chance
        assert np.abs(np.corrcoef(one.T, other.T)[:3, 3:]).max() < 0.6
    again = open_feed(data, dataset, seeds=(7, 2), cameras=(1, 0))
    np.testing.assert_array_equal(again.at(0).frames[1], feed.at(0).frames[2])  # by the seed alone
    np.testing.assert_array_equal(again.walks[1], feed.walks[2])


def test_a_walk_follows_its_actions(plain):
    data = dataclasses.replace(PLAIN, walk=NUM, actions=2, seed=4, rho=(0.9, 0.8, 0.7))
    feed = open_feed(data, data.load(None))
    assert isinstance(feed, WalkFeed)
    assert feed.actions.shape == (3, NUM, 2) and feed.walks.shape == (3, NUM + 1, SIDE, SIDE, 3)
    np.testing.assert_array_equal(feed.rho, data.rho)
    expected = np.sqrt(0.3) * Driven(3, 2, 0.3, 4).directions
    for states, actions in zip(read(feed.walks), feed.actions):
        rho = np.array(data.rho)
        innovations = (states[1:] - rho * states[:-1]) / np.sqrt(1 - rho**2)
        fitted = np.linalg.lstsq(actions, innovations, rcond=None)[0].T
        np.testing.assert_allclose(fitted, expected, atol=5 / NUM**0.5)
    whole = np.concatenate(list(feed.walked()), axis=1)
    assert whole.shape[1] == 2016  # padded to chunks of 16
    np.testing.assert_array_equal(whole[:, :2001], feed.walks)


@pytest.mark.parametrize("change", [{"walk": 0}, {"process": "uniform"}])
def test_without_known_actions_there_is_no_walk(change, plain):
    data = dataclasses.replace(PLAIN, walk=NUM)
    feed = open_feed(dataclasses.replace(data, **change), data.load(None))
    assert feed.walks is None and feed.actions is None
    np.testing.assert_array_equal(feed.rho, [0.9] * 3)  # one value for all latents


@pytest.mark.parametrize("pool", [64, pytest.param(0, marks=pytest.mark.nightly)])
def test_batches_are_functions_of_seed_and_step_on_any_devices(pool):
    data = dataclasses.replace(REAL, pool=pool, walk=0)
    found = batches(real_feed() if pool else open_feed(data), [0, 5, 1])
    assert found["image"].shape == found["next"].shape == (3, 3, BATCH, 16, 16, 3)
    halves = batches(open_feed(data, devices=2), [0, 5, 1])
    np.testing.assert_array_equal(halves["index"], found["index"])
    for name in ("image", "next"):
        one, two = pixels(found, name), pixels(halves, name)
        np.testing.assert_allclose(one, np.round(one), atol=1e-3)
        assert np.abs(one - two).max() < 1.01 and (np.abs(one - two) > 0.5).mean() < 1e-3
    distinct = found["image"].reshape(3 * 3 * BATCH, -1).round(3)
    assert len(np.unique(distinct, axis=0)) == len(distinct)  # 24 of 64 pairs, and 24 fresh ones
    assert np.abs(found["image"] - found["next"]).max() > 0.1
    assert np.isfinite(found["image"]).all()


def test_a_pool_s_batch_is_its_rows(plain):
    data = dataclasses.replace(PLAIN, pool=32)
    feed = open_feed(data, data.load(None))
    found = batches(feed, range(8))
    frames = np.asarray(feed.at(0).frames)
    for agent in range(3):
        for step in range(8):
            rows = found["index"][agent, step]
            for frame, name in enumerate(("image", "next")):
                shown = pixels(found, name)[agent, step]
                np.testing.assert_allclose(shown, frames[agent, rows, frame], atol=1e-3)
        for epoch in (slice(0, 4), slice(4, 8)):
            assert sorted(found["index"][agent, epoch].ravel()) == list(range(32))
    assert (found["index"][0] != found["index"][2]).any()


def test_pixel_statistics_are_those_of_an_agent_s_own_images():
    feed = real_feed()
    first = np.asarray(feed.at(0).frames)[:, :, 0] / 255
    np.testing.assert_allclose(feed.mean, first.mean((1, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(feed.std, first.std((1, 2, 3)), rtol=1e-5)


def test_fresh_pairs_correlate_and_never_return(plain):
    data = dataclasses.replace(PLAIN, pool=0, walk=NUM, rho=(0.9, 0.6, 0.3))
    dataset = data.load(None)
    feed = open_feed(data, dataset)
    found = batches(feed, range(40))
    first, second = (read(pixels(found, name)) for name in ("image", "next"))
    for agent in range(3):
        a, b = first[agent].reshape(-1, 3), second[agent].reshape(-1, 3)
        rho = [np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(3)]
        np.testing.assert_allclose(rho, data.rho, atol=5 / len(a) ** 0.5)
    # Equal keys would show in equal rows, of batches, walks and the measured states.
    drawn = [*first.reshape(-1, BATCH, 3), *read(feed.walks)[:, :BATCH], dataset.states[:BATCH]]
    for one, other in itertools.combinations(drawn, 2):
        assert np.abs(one - other).max(-1).min() > 1e-3


def affine(view, still):
    """Fits view = slope still + offset to the pixels where nothing is clipped: with the error."""
    inside = (view > 1e-4) & (view < view.max() - 1e-4)  # clipped ones are all the same
    if inside.sum() < 20:
        return 0.0, 0.0, np.inf
    columns = np.stack([still[inside], np.ones(inside.sum())], axis=1)
    slope, offset = np.linalg.lstsq(columns, view[inside], rcond=None)[0]
    return slope, offset, np.abs(view[inside] - columns @ [slope, offset]).max()


def shifted(still, most=2):
    """All images whose content is shifted by up to two pixels, edges repeated."""
    padded = np.pad(still, ((most, most), (most, most), (0, 0)), mode="edge")
    size = len(still)
    return {
        (i, j): padded[i : i + size, j : j + size]
        for i, j in itertools.product(range(2 * most + 1), repeat=2)
    }


@functools.cache
def changed(transition):
    """Stills f64[16, H, W, C] in [0, 1] and their two views, of one epoch of two batches."""
    data = dataclasses.replace(REAL, transition=transition, pool=2 * BATCH, walk=0)
    feed = open_feed(data, seeds=(0,), cameras=(0,))
    found = batches(feed, range(4))
    assert feed.at(0).frames.shape == (1, 2 * BATCH, 1, 16, 16, 3)
    epochs = [np.concatenate(pixels(found, name)[0]) / 255 for name in ("image", "next")]
    rows = found["index"].ravel()
    first, again = (np.argsort(rows[part]) for part in (slice(0, 16), slice(16, 32)))
    views = [view[:16][first] for view in epochs]
    if transition != "same_picture":  # every step draws its own changes
        for view, shown in zip(views, epochs):
            assert (np.abs(view - shown[16:][again]).max((1, 2, 3)) > 0.02).mean() > 0.8
    return np.asarray(feed.at(0).frames, np.float64)[0, :, 0] / 255, *views


def test_the_same_picture_twice():
    stills, first, second = changed("same_picture")
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, stills, atol=1e-5)


def test_photometric_changes_are_brightness_and_contrast():
    stills, *views = changed("photometric")
    found = []
    for still, *pair in zip(stills, *views):
        for view in pair:
            slope, offset, error = affine(view, still)
            assert error < 1e-4
            contrast = 1 - offset / still.mean()
            found.append((slope / contrast, contrast))
    found = np.array(found)
    assert (found > 0.6 - 1e-3).all() and (found < 1.4 + 1e-3).all()
    assert (found.std(0) > 0.12).all()  # 0.23 of a uniform draw
    assert np.abs(found[::2] - found[1::2]).mean() > 0.1  # each view draws its own


def test_augmented_stills_are_shifted_too():
    stills, *views = changed("augmented_stills")
    corners = []
    for still, *pair in zip(stills, *views):
        for view in pair:
            errors = {c: affine(view, moved)[2] for c, moved in shifted(still).items()}
            best = min(errors, key=errors.get)
            assert errors[best] < 1e-4 < 5e-3 < sorted(errors.values())[1]
            corners.append(best)
    assert len(set(corners)) > 12  # of 25, in 32 draws
    assert {i for i, _ in corners} == {j for _, j in corners} == set(range(5))
    assert np.mean([a != b for a, b in zip(corners[::2], corners[1::2])]) > 0.8


def test_jittered_stills_have_a_gain_for_every_channel():
    stills, *views = changed("augmented_stills_jitter")
    ratios = []
    for still, *pair in zip(stills, *views):
        for view in pair:
            for moved in shifted(still).values():
                fits = [affine(view[..., c], moved[..., c]) for c in range(3)]
                if max(error for *_, error in fits) < 1e-4:
                    ratios.append(np.log(fits[0][0] / fits[1][0]))
    assert 10 < len(ratios) <= 32  # one shift for each of 32 views, unless nearly all is clipped
    assert 0.15 < np.std(ratios) < 0.4  # 0.25: two independent halves of the variance


def test_all_states_come_in_order_and_the_last_chunk_is_padded():
    feed = real_feed()
    shown = list(feed.states())
    assert [c.shape for c in shown] == [(3, 16, 16, 16, 3)] * 3
    whole, images = np.concatenate(shown, axis=1), loaded(REAL).images
    np.testing.assert_array_equal(whole[:, :40], images[list(CAMERAS)])
    np.testing.assert_array_equal(whole[:, 40:], images[list(CAMERAS), -1:].repeat(8, axis=1))
    assert feed.good.all() and not feed.scalars(1.0) and feed.at(0) is feed.at(5)


# What cannot be.


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "toys"}, "kind='toys'"),
        ({"latents": ("x", "roll")}, "latents='roll'"),
        ({"latents": tuple("x y yaw height size x2 y2 yaw2 size2".split())}, "latents=.*1 to 8"),
        ({"latents": ("x", "shoulder")}, "latents=.*an arm is alone"),
        ({"shape": "car"}, "shape='car'"),
        ({"occluders": 9}, "occluders=9"),
        ({"channels": 2}, "channels=2"),
        ({"process": "brown"}, "process='brown'"),
        ({"transition": "rest"}, "transition='rest'"),
        ({"image_size": 0}, "image_size=0"),
        ({"states": 0}, "states=0"),
        ({"alpha": 0.0}, "alpha=0.0"),
        ({"pool": -1}, "pool=-1"),
        ({"walk": -1}, "walk=-1"),
        ({"flicker": -0.1}, "flicker=-0.1"),
        ({"flicker": float("nan")}, "flicker=nan"),
        ({"seed": -1}, "seed=-1"),
        ({"samples_per_pixel_side": 0}, "samples_per_pixel_side=0"),
        ({"elevation": 90.0}, "elevation=90.0"),
        ({"azimuths": ()}, r"azimuths=\(\)"),
        ({"azimuths": (10.0, 10.0)}, "azimuths="),
        ({"rho": (1.0,)}, "rho=1.0"),
        ({"rho": (0.9, 0.0, 0.9)}, "rho=0.0"),
        ({"rho": (float("nan"),)}, "rho=nan"),
        ({"rho": (0.9, 0.9)}, r"rho=\(0.9, 0.9\) must be 1 or 3"),
        ({"rho": ()}, r"rho=\(\) must be 1 or 3"),
        ({"splits": Splits()}, "splits.test_instances=2 must be 0"),
        ({"actions": 4}, "actions=4"),
        ({"actions": 0}, "actions=0"),
        ({"share": 1.0}, "share=1.0"),
        ({"process": "policy"}, r"latents=.*must be \('shoulder', 'elbow'\) for process='policy'"),
        ({"dependence": 0.1}, "for process='ou' with dependence=0.1"),
        ({**ARM, "private": True, "process": "policy"}, "private_0.*for process='policy'"),
        ({**ARM, "process": "goals", "dependence": 0.1}, "process='goals'"),
        ({**ARM, "dependence": -1.0}, "dependence=-1.0"),
        ({**ARM, "radians": (1.0,)}, "radians="),
    ],
)
def test_bad_fields_are_named_in_one_line(fields, message):
    with pytest.raises(InputError, match=message) as refused:
        MotionData(**fields)
    assert "\n" not in str(refused.value)


def test_latents_that_no_camera_sees_are_refused(monkeypatch):
    monkeypatch.setitem(motion.RANGES, "yaw", 1e-6)
    data = dataclasses.replace(REAL, image_size=12, states=4)
    with pytest.raises(InputError, match=r"^latents: no camera sees 'yaw'$"):
        data.load(None)


def test_a_pool_smaller_than_a_batch_is_refused():
    with pytest.raises(InputError, match=r"config.data.pool=7 is less than .*batch_size=8$"):
        open_feed(dataclasses.replace(REAL, pool=7))


def open_run(data, outputs):
    """Opens the feed of a run on these data with this many latent features."""
    encoder = PatchNetConfig(image_size=SIDE, patches=(2,), widths=(4,), hidden=8)
    experiment = config.Experiment(
        "run", data, FramePairs(encoder=encoder, outputs=outputs),
        agents=config.Agents((1,), (0,)), run=config.Run(batch_size=BATCH),
    )  # fmt: skip
    mesh = sharding.make_mesh(1, BATCH, jax.devices()[:1])
    parts = types.SimpleNamespace(
        trainer=types.SimpleNamespace(mesh=mesh), hparams={"seed": jnp.zeros(1, jnp.uint32)}
    )
    return build.open_feed(experiment, data.load(None), parts, None, None)


@pytest.mark.parametrize(
    ("change", "outputs", "warned"),
    [({}, 2, True), ({}, 3, False), ({"private": True}, 3, True), ({"private": True}, 4, False)],
)
def test_fewer_latents_than_the_world_has_are_warned_of(change, outputs, warned, caplog, plain):
    data = dataclasses.replace(PLAIN, states=40, pool=8, **change)
    with caplog.at_level(logging.WARNING, logger="absl"):
        open_run(data, outputs)
    needed = data.latents_in_view
    line = f"objective.outputs={outputs} is less than the world's {needed} latents: they cannot be"
    assert (line in caplog.text) == warned


def test_a_walk_that_fits_no_response_is_refused_before_training(plain):
    data = dataclasses.replace(PLAIN, states=40, pool=8, walk=6)
    with pytest.raises(
        InputError, match=r"config.data.walk=6 must be 0 or at least 7: the response"
    ):
        open_run(data, 4)
    assert open_run(data, 3).walks.shape[1] == 7
