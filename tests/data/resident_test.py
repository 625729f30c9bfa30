"""Resident images: the batch by hand, the exact pixel statistics, all states in order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from socialjepa_jax import sharding
from socialjepa_jax.data import resident
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.shuffle import Shuffle
from socialjepa_jax.data.protocols import Opening


def test_a_batch_is_normalised_and_carries_its_statistics():
    images = np.random.default_rng(0).integers(0, 256, (9, 4, 5, 3), np.uint8)
    mean, std = resident.channel_statistics(images)
    rows = jnp.array([8, 0, 3])
    batch = jax.jit(
        lambda images: resident.image_batch(
            images[rows], rows, jax.random.key(0), Augment(), jnp.asarray(mean), jnp.asarray(std)
        )
    )(jnp.asarray(images))
    expected = (images[np.array(rows)] / 255.0 - mean) / std
    assert batch["image"].dtype == jnp.float32
    np.testing.assert_allclose(batch["image"], expected, atol=1e-6)
    np.testing.assert_array_equal(batch["index"], rows)
    np.testing.assert_array_equal(batch["mean"], mean)
    np.testing.assert_array_equal(batch["std"], std)


def test_changes_follow_the_state_and_not_its_place():
    images = jnp.asarray(np.random.default_rng(1).random((12, 4, 5, 3)) * 255, jnp.uint8)
    draw = jax.jit(lambda rows: resident.image_batch(
        images[rows], rows, jax.random.key(0), Augment(flip=True), jnp.zeros(3), jnp.ones(3)
    )["image"])  # fmt: skip
    order = np.random.default_rng(2).permutation(12)
    batch = draw(jnp.arange(12))
    np.testing.assert_array_equal(draw(jnp.asarray(order)), batch[order])
    mirrored = (np.asarray(batch) != np.asarray(images / 255.0, np.float32)).any((1, 2, 3))
    assert 0 < mirrored.sum() < 12


def test_all_states_come_in_order_and_the_last_chunk_is_padded():
    images = np.random.default_rng(0).integers(0, 256, (2, 7, 4, 4, 1), np.uint8)
    checks = []
    feed = resident.ResidentFeed(images, Opening(
        cameras=(1, 0, 1), train_rows=np.arange(5), augmentation=Augment(),
        mesh=sharding.make_mesh(3, 4, jax.devices()[:1]), seeds=jnp.arange(3), batch_size=4,
        steps_per_call=1, total_steps=1, chunk=3, workdir=None, cache=None,
        check=lambda: checks.append(1),
    ))  # fmt: skip
    chunks = list(feed.states())
    assert [chunk.shape for chunk in chunks] == [(3, 3, 4, 4, 1)] * 3 and len(checks) == 3
    whole = np.concatenate(chunks, axis=1)
    np.testing.assert_array_equal(whole[:, :7], images[[1, 0, 1]])
    np.testing.assert_array_equal(whole[:, 7:], images[[1, 0, 1], 6:7].repeat(2, axis=1))
    trained_on = images[[1, 0, 1], :5] / 255.0
    np.testing.assert_allclose(feed.mean, trained_on.mean(axis=(1, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(feed.std, trained_on.std(axis=(1, 2, 3)), rtol=1e-6)
    assert feed.at(0) is feed.at(5) and feed.good.all() and not feed.scalars(1.0)


@pytest.mark.parametrize("per", ["agent", "image"])
def test_training_and_evaluation_see_one_order_and_agents_their_own(per):
    images = np.random.default_rng(3).permutation(256)[: 4 * 16].reshape(1, 4, 4, 4, 1)
    images = images.repeat(2, axis=0).astype(np.uint8)
    feed = resident.ResidentFeed(images, Opening(
        cameras=(0, 1), train_rows=np.arange(4), augmentation=Augment(),
        mesh=sharding.make_mesh(2, 4, jax.devices()[:1]), seeds=jnp.arange(2), batch_size=4,
        steps_per_call=1, total_steps=1, chunk=3, workdir=None, cache=None,
        shuffle=Shuffle("patch", per, 2),
    ))  # fmt: skip
    shown = np.concatenate(list(feed.states()), axis=1)[:, :4]
    assert (np.sort(shown.reshape(2, 4, -1)) == np.sort(images.reshape(2, 4, -1))).all()
    assert (shown[0] != shown[1]).any() and (shown != images).any((1, 2, 3, 4)).all()
    mapped = jax.shard_map(
        lambda source, seeds: jax.vmap(lambda one, seed: one.batch(0, seed, 4))(source, seeds),
        mesh=feed.mean.sharding.mesh,
        in_specs=(feed.at(0).specs(), P("agent")),
        out_specs={"image": P("agent", "data"), "index": P("agent", "data"), "mean": P("agent"),
                   "std": P("agent")},
    )  # fmt: skip
    batch = jax.jit(mapped)(feed.at(0), jnp.arange(2))
    pixels = batch["image"] * feed.std[:, None, None, None] + feed.mean[:, None, None, None]
    expected = np.stack([own[rows] for own, rows in zip(shown, np.asarray(batch["index"]))])
    np.testing.assert_allclose(pixels * 255, expected, atol=1e-3)


def test_channel_statistics_are_the_exact_moments():
    images = np.random.default_rng(0).integers(0, 256, (20, 8, 9, 3), np.uint8)
    images[..., 1] = 77
    images[..., 2] = np.where(images[..., 2] > 2, 255, 254)  # small spread beside a large mean
    mean, std = resident.channel_statistics(images)
    exact = images.astype(np.float64) / 255
    np.testing.assert_allclose(mean, exact.mean(axis=(0, 1, 2)), rtol=1e-7)
    np.testing.assert_allclose(std[[0, 2]], exact.std(axis=(0, 1, 2))[[0, 2]], rtol=1e-6)
    assert std[1] == 1  # a constant channel is not divided by zero
    assert mean.dtype == std.dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "lies_as"),
    [
        ((8, 8, 3), (192,)),
        ((128, 256, 1), (1 << 15,)),
        ((192, 192, 1), (288, 128)),
        ((2, 105, 105, 3), (517, 128)),  # 66,150 bytes and 26 zeros
    ],
)
def test_wide_images_lie_in_rows_of_128(shape, lies_as):
    images = np.random.default_rng(0).integers(1, 256, (2, 3, *shape), dtype=np.uint8)
    rows = resident.flat_rows(images)
    assert rows.shape == (2, 3, *lies_as) == (2, 3, *resident.row_shape(np.prod(shape)))
    assert (rows == 0).sum() == rows.size - images.size
    np.testing.assert_array_equal(resident.from_rows(jnp.asarray(rows), shape), images)
    np.testing.assert_array_equal(
        resident.from_rows(jnp.asarray(rows)[1, [2]], shape), images[1, [2]]
    )
