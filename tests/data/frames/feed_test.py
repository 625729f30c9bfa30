"""Pairs in time: the same from files and from memory, with workers, and beside broken frames."""

import contextlib
import dataclasses

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from socialjepa_jax import build, sharding
from socialjepa_jax.config import Agents, Experiment, Run
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.colour import Colour
from socialjepa_jax.data.frames import feed
from socialjepa_jax.errors import InputError
from socialjepa_jax.models.patch_net import PatchNetConfig
from socialjepa_jax.objectives.pairs.frames import FramePairs
from tests.data.frames import drive

NET = PatchNetConfig(image_size=(4, 8), patches=(2,), widths=(4,), hidden=4)
STEPS = 8


def experiment(data, **fields):
    run = Run(STEPS, 8, 2, 2, STEPS, STEPS, encode_batch=16)
    return Experiment(
        "test", data, FramePairs(encoder=NET, outputs=2, num_slices=4), run=run,
        agents=Agents((0, 1), (0, 1)), **fields,
    )  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return drive.write(tmp_path_factory.mktemp("drive"), workers=0)


def batches(given, tmp_path, first=0, count=STEPS):
    """Every step's batch of both agents, as the devices see it, and the feed."""
    dataset, parts = given.data.load(tmp_path), build.build(given, devices=jax.devices()[:1])
    opened = build.open_feed(given, dataset, parts, tmp_path, tmp_path / "cache")
    seeds, found = parts.hparams["seed"], []
    mesh, agent, both = parts.trainer.mesh, P(sharding.AGENT), P(sharding.AGENT, sharding.DATA)
    kinds = {"image": both, "next": both, "index": both, "mean": agent, "std": agent}

    def of_agents(source, step, seeds):
        return jax.vmap(lambda source, seed: source.batch(step, seed, 8))(source, seeds)

    source = opened.at(first)
    specs = (source.specs(), P(), agent)
    draw = jax.jit(jax.shard_map(of_agents, mesh=mesh, in_specs=specs, out_specs=kinds))
    with contextlib.closing(opened):
        for step in range(first, first + count):
            found.append(jax.device_get(draw(opened.at(step - step % 2), step, seeds)))
    return dataset, found, opened


NIGHTLY = pytest.mark.nightly


@NIGHTLY  # by day the hashes of `kinds_test`
@pytest.mark.parametrize(
    "transition",
    ["motion", "strangers", "stills"],
)
def test_files_and_memory_give_the_same_pairs(data, tmp_path, transition):
    changed = dataclasses.replace(data, transition=transition, delta=2)
    colours = Colour(jitter=(0.3, 0.3, 0.0, 0.0))
    augment = Augment(colours=colours) if transition == "stills" else Augment()
    found = {}
    for read in ("resident", "stream"):
        given = experiment(dataclasses.replace(changed, read=read), augment=augment)
        dataset, found[read], _ = batches(given, tmp_path)
    for a, b in zip(found["resident"], found["stream"]):
        for name in a:
            np.testing.assert_allclose(a[name], b[name], atol=2e-6)
    train, gaps = set(dataset.train_rows.tolist()), set()
    for batch in found["resident"]:
        index = batch["index"]
        assert set(index.ravel().tolist()) <= train
        for agent in range(2):
            assert len(set(index[agent].tolist())) == 8
            if transition == "stills":
                continue
            image, later = (
                _moments(batch[name][agent], batch["mean"][agent], batch["std"][agent])
                for name in ("image", "next")
            )
            np.testing.assert_array_equal(image[:, 0], dataset.state_ids[index[agent]])
            assert (image[:, 1] == agent).all() and (later[:, 1] == agent).all()
            gaps |= set((later[:, 0] - image[:, 0]).tolist())
        if transition == "stills":
            assert np.abs(batch["image"] - batch["next"]).max() > 0.1
    assert transition == "stills" or (gaps == {2}) == (transition == "motion")
    assert transition != "strangers" or len(gaps) > 5


def _moments(images, mean, std):
    """The first pixels of normalised images, as integers."""
    pixels = images[:, 0, 0] * std[None] + mean[None]
    return np.round(255 * pixels).astype(int)


def test_pairs_do_not_reach_over_what_is_held_out_or_missing():
    times = np.array([0, 1, 2, 4, 5, 6, 9])
    rows = np.array([0, 1, 3, 4, 5, 6])  # moment 2 is held out, 3, 7 and 8 are missing
    pairs = feed.pairs_of(times, rows, 1, "motion")
    assert pairs.rows.tolist() == [0, 3, 4] and pairs.later[pairs.rows].tolist() == [1, 4, 5]
    assert feed.pairs_of(times, rows, 4, "motion").rows.tolist() == [0, 1, 4]
    with pytest.raises(InputError, match=r"delta=30: no two training moments"):
        feed.pairs_of(times, rows, 30, "motion")
    strangers = feed.pairs_of(times, rows, 1, "strangers")
    assert (strangers.later[rows] != rows).all() and set(strangers.later[rows]) == set(rows)


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_read_the_same_batches(data, tmp_path, workers):
    streamed = dataclasses.replace(data, read="stream")
    expected = batches(experiment(streamed), tmp_path)[1]
    given = experiment(dataclasses.replace(streamed, workers=workers))
    for a, b in zip(batches(given, tmp_path)[1], expected):
        jax.tree.map(np.testing.assert_array_equal, a, b)
    resumed = batches(given, tmp_path, 4, 4)[1]
    for a, b in zip(resumed, expected[4:]):
        jax.tree.map(np.testing.assert_array_equal, a, b)


def drawn(given, tmp_path):
    """The states i32[A, steps, B] that a stream draws, its states and its feed."""
    dataset, parts = given.data.load(tmp_path), build.build(given, devices=jax.devices()[:1])
    feed = build.open_feed(given, dataset, parts, tmp_path, tmp_path / "cache")
    with contextlib.closing(feed):
        rows = [np.asarray(feed.at(step).rows) for step in range(0, STEPS, 2)]
    return np.concatenate(rows, axis=1), dataset, feed


@pytest.mark.nightly
def test_a_broken_second_frame_gives_its_place_to_another_pair(tmp_path):
    data = drive.write(tmp_path, workers=0, read="stream", max_broken=0.1)
    before = drawn(experiment(data), tmp_path)[0]
    moment = int(data.load(tmp_path).state_ids[before[0, 0, 0]]) + 1
    (tmp_path / "left" / f"f_{moment}.png").write_bytes(b"")
    after, dataset, feed = drawn(experiment(data), tmp_path)
    assert dataset.state_ids[~feed.good].tolist() == [moment]
    lost = np.flatnonzero(np.isin(dataset.state_ids, (moment, moment - 1)))
    assert not np.isin(after[0], lost).any()
    bad = np.isin(before, lost) & np.array([True, False])[:, None, None]  # the left camera
    np.testing.assert_array_equal(before[~bad], after[~bad])
    assert bad.any() and (before[bad] != after[bad]).all()
    text = (tmp_path / "broken_files.txt").read_text()
    assert text.startswith(f"left/f_{moment}.png: cannot identify")


def test_a_batch_of_more_than_all_pairs_is_refused(data, tmp_path):
    given = experiment(dataclasses.replace(data, delta=55))
    with pytest.raises(InputError, match=r"batch_size=8 is more than the \d pairs of training"):
        drawn(given, tmp_path)
