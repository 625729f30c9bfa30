"""Two views of a picture: fixed draws for what is measured, fresh draws of each camera to train."""

import contextlib
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from socialjepa_jax import sharding
from socialjepa_jax.data.augment import VIEW_A, VIEW_B, Augment, augment
from socialjepa_jax.data.augment.colour import Colour
from socialjepa_jax.data.protocols import Opening
from socialjepa_jax.data.records.views import TwoViews
from socialjepa_jax.errors import InputError
from socialjepa_jax.keys import Stream, agent_key
from tests.data.image_folder import write_table
from tests.data.records.record_files import COUNT, SIZE, WRITERS, pictures

INVERTED = Augment(colours=Colour(solarize=1.0))
PLAIN_AND_INVERTED = TwoViews(on=True, a=Augment(), b=INVERTED)
CROPPED_AND_INVERTED = TwoViews(on=True, a=Augment(crop_scale=(0.2, 0.6)), b=INVERTED)
CAMERAS = (0, 1, 1)  # of the agents
BATCH = 4
NOTHING = Augment()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    written = WRITERS["array_record"](tmp_path_factory.mktemp("records"), pictures())
    return dataclasses.replace(written, workers=0, views=CROPPED_AND_INVERTED)


def opening(dataset, folder, devices, augmentation=NOTHING):
    mesh = sharding.make_mesh(len(CAMERAS), BATCH, jax.devices()[:devices])
    seeds = sharding.put(np.array([5, 6, 6], np.uint32), sharding.by_agent(mesh))
    return Opening(
        cameras=CAMERAS, train_rows=dataset.train_rows, augmentation=augmentation, mesh=mesh,
        seeds=seeds, batch_size=BATCH, steps_per_call=2, total_steps=8, chunk=10,
        workdir=folder, cache=folder,
    )  # fmt: skip


def inverted(pixels):
    return np.where(pixels < 0.5, pixels, 1 - pixels)


def test_recipes_are_those_of_the_paper():
    assert (TwoViews().a, TwoViews().b, TwoViews().on) == (VIEW_A, VIEW_B, False)


@pytest.mark.nightly
def test_both_cameras_see_every_picture_by_their_recipe(data, tmp_path):
    data = dataclasses.replace(data, views=TwoViews(on=True))
    dataset = data.load(tmp_path)
    plain = dataclasses.replace(data, views=TwoViews()).load(tmp_path)
    assert data.num_cameras == dataset.num_cameras == 2 and dataset.num_states == COUNT
    np.testing.assert_array_equal(dataset.labels, plain.labels)
    images = jnp.asarray(np.asarray(plain.images)[0], jnp.float32) / 255
    for camera, recipe in enumerate((VIEW_A, VIEW_B)):
        key = agent_key(camera, Stream.VIEW)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, dataset.state_ids)
        expected = np.rint(
            255 * np.asarray(jax.jit(augment, static_argnums=2)(images, keys, recipe))
        )
        found = np.asarray(dataset.images[camera]).astype(float)
        assert (found != expected).mean() < 2e-3  # hues of ties, where rounding decides
    assert (np.asarray(dataset.images[0]) != np.asarray(dataset.images[1])).mean() > 0.5


@pytest.mark.parametrize("read", ["resident", "stream"])
def test_a_fixed_view_is_the_same_wherever_it_is_asked_for(data, tmp_path, read):
    dataset = dataclasses.replace(data, read=read).load(tmp_path)
    whole = np.asarray(dataset.images)
    np.testing.assert_array_equal(dataset.images[1, 3], whole[1, 3])
    np.testing.assert_array_equal(np.asarray(dataset.images[:, [5, 2]]), whole[:, [5, 2]])
    keep = np.arange(COUNT) % 3 > 0
    np.testing.assert_array_equal(np.asarray(dataset.subset(keep).images), whole[:, keep])
    given = opening(dataset, tmp_path, 1)
    with contextlib.closing(data.open_feed(dataset, given)) as feed:
        assert feed.good.all() and feed.cameras == CAMERAS
        shown = np.concatenate(list(feed.states()), axis=1)
    np.testing.assert_array_equal(shown[:, :COUNT], whole[list(CAMERAS)])
    np.testing.assert_array_equal(shown[:, COUNT:], shown[:, COUNT - 1 : COUNT].repeat(6, axis=1))


def drawn(data, folder, *, devices=1, mapped=False, steps=(0,), augmentation=NOTHING):
    """Images f32[steps, A, B, H, W, C] in [0, 1] and rows of some steps, as the agents see them."""
    dataset = data.load(folder)
    given = opening(dataset, folder, devices, augmentation)

    def one(source, seed, step):
        batch = source.batch(step, seed, BATCH)
        return batch["image"] * batch["std"] + batch["mean"], batch["index"]

    def several(source, seeds, step):
        if mapped:
            return jax.lax.map(lambda args: one(*args, step), (source, seeds))
        return jax.vmap(one, (0, 0, None))(source, seeds, step)

    found = []
    with contextlib.closing(data.open_feed(dataset, given)) as feed:
        feed.begin(np.zeros(3, int))
        draw = jax.jit(
            jax.shard_map(
                several,
                mesh=given.mesh,
                in_specs=(feed.at(0).specs(), P(sharding.AGENT), P()),
                out_specs=P(sharding.AGENT, sharding.DATA),
            )
        )
        for step in steps:
            source = feed.at(step - step % 2)
            with jax.numpy_rank_promotion("allow"):
                found.append(jax.device_get(draw(source, given.seeds, jnp.int32(step))))
    images, rows = zip(*found)
    return np.stack(images), np.stack(rows)


@pytest.mark.parametrize(
    "read, mapped", [("resident", True), pytest.param("stream", False, marks=pytest.mark.nightly)]
)
def test_an_agent_trains_on_what_its_camera_sees(data, tmp_path, read, mapped):
    data = dataclasses.replace(data, read=read, views=PLAIN_AND_INVERTED)
    images, rows = drawn(data, tmp_path, mapped=mapped)
    plain = np.asarray(dataclasses.replace(data, views=TwoViews()).load(tmp_path).images)[0] / 255
    np.testing.assert_allclose(images[0, 0], plain[rows[0, 0]], atol=1e-5)
    np.testing.assert_allclose(images[0, 1:], inverted(plain[rows[0, 1:]]), atol=1e-5)
    assert not np.array_equal(rows[0, 0], rows[0, 1])  # another agent, another order


@pytest.mark.nightly
def test_training_draws_anew_and_devices_do_not_matter(data, tmp_path):
    resident = dataclasses.replace(data, read="resident")
    images, rows = drawn(resident, tmp_path, steps=range(8))
    again, same = drawn(resident, tmp_path, devices=2, steps=range(8))
    np.testing.assert_array_equal(rows, same)
    np.testing.assert_allclose(images, again, atol=1e-5)
    first, second = np.flatnonzero(rows[:, 0].ravel() == rows[0, 0, 0])  # of two epochs
    seen = images[:, 0].reshape(-1, SIZE, SIZE, 3)
    assert np.abs(seen[first] - seen[second]).max() > 0.05


@pytest.mark.nightly
def test_the_run_s_augmentation_is_of_what_the_camera_sees(data, tmp_path):
    data = dataclasses.replace(data, views=dataclasses.replace(PLAIN_AND_INVERTED, a=INVERTED))
    once, _ = drawn(data, tmp_path)
    twice, _ = drawn(data, tmp_path, augmentation=INVERTED)
    np.testing.assert_allclose(twice, inverted(once), atol=1e-5)


def test_files_have_two_views_too(tmp_path):
    config = write_table(tmp_path)
    with pytest.raises(InputError, match=r"azimuths=\(0, 180\) must be one camera"):
        dataclasses.replace(config, views=TwoViews(on=True))
    one = dataclasses.replace(config.protocol, azimuths=(0,), sector=(0, 360))
    two = dataclasses.replace(config, protocol=one, views=PLAIN_AND_INVERTED)
    plain = np.asarray(dataclasses.replace(config, protocol=one).load(tmp_path).images)[0]
    seen = np.asarray(two.load(tmp_path).images)
    assert "one fixed draw" in dict(two.load(tmp_path).facts)["Views"]
    np.testing.assert_array_equal(seen[0], plain)
    np.testing.assert_array_equal(seen[1], np.where(plain < 128, plain, 255 - plain))
