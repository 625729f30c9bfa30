"""Streams: every call's batch by its number, the same as of resident data; broken files."""

import contextlib
import dataclasses
import threading
import time

import grain
import jax
import numpy as np
import pytest

from experiments.reliability import data
from socialjepa_jax import keys
from socialjepa_jax.build import build
from socialjepa_jax.data import order
from socialjepa_jax.data.indexed import Passes
from socialjepa_jax.data.prefetch import Prefetcher
from socialjepa_jax.errors import Stopped


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    return data.experiment(data.write_files(tmp_path_factory.mktemp("files")), workers=0)


@pytest.fixture(scope="module")
def calls(experiment):
    return data.calls(experiment)


@pytest.fixture
def damaged(tmp_path):
    return data.calls(data.experiment(data.write_files(tmp_path), workers=0))


@pytest.mark.parametrize("num_rows", [1, 2, 7, 65, 1036])
def test_the_order_on_the_host_is_that_of_the_device(num_rows):
    for seed in range(3):
        key, positions = jax.random.key(seed), np.arange(num_rows)
        found = order.permute_on_host(np.asarray(order.round_keys(key)), positions, num_rows)
        expected = order.epoch_permutation(key, positions.astype(np.int32), num_rows)
        np.testing.assert_array_equal(found, expected)


def test_a_call_holds_what_resident_data_would_show(experiment, calls):
    dataset = experiment.data.load(None)
    images, rows = np.asarray(dataset.images), dataset.train_rows
    seeds = build(experiment).hparams["seed"]
    for call in (0, 1, 9):
        element = calls[call]
        assert element["images"].dtype == np.uint8 and not element["broken"]
        for agent, camera in enumerate(experiment.agents.cameras):
            key = keys.agent_key(seeds[agent], keys.Stream.ORDER)
            for s in range(2):
                expected = rows[order.batch_rows(key, 2 * call + s, len(rows), 8)]
                np.testing.assert_array_equal(element["rows"][agent, s], expected)
                np.testing.assert_array_equal(element["images"][agent, s], images[camera, expected])


def test_batches_that_are_passed_over_are_never_drawn(calls):
    later = dataclasses.replace(calls, passed_over=np.array([4, 0]))
    np.testing.assert_array_equal(later[1]["rows"][0], calls[3]["rows"][0])
    np.testing.assert_array_equal(later[1]["rows"][1], calls[1]["rows"][1])


@pytest.mark.nightly
def test_processes_and_first_calls_do_not_matter(calls):
    expected = data.batch_digests([calls], 0, 0, 10)
    assert len(set(expected)) == 10
    for processes, first in ((2, 0), (4, 0), (1, 7), (2, 3)):
        found = data.batch_digests(data.parts(calls, processes), first, 0, 10 - first)
        assert found == expected[first:]
    reader = iter(grain.MapDataset.source(calls)[4:].to_iter_dataset())
    np.testing.assert_array_equal(next(reader)["images"], calls[4]["images"])


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_do_not_matter(calls, workers):
    expected = data.batch_digests([calls], 0, 0, 9)
    assert data.batch_digests([calls], 2, workers, 7) == expected[2:]


def test_a_broken_file_gives_its_place_to_a_later_picture_and_moves_nothing(damaged):
    calls = damaged
    before = [calls[number] for number in range(10)]
    victim = before[0]["rows"][0, 1, 3]
    place = int(calls.files.places[0, victim])
    (calls.files.folder / calls.files.names[place]).write_bytes(b"")
    after = [calls[number] for number in range(10)]
    same = [b["rows"] == a["rows"] for b, a in zip(before, after)]
    assert np.argwhere(~same[0]).tolist() == [[0, 1, 3]]
    for b, a, kept in zip(before, after, same):
        np.testing.assert_array_equal(b["images"][kept], a["images"][kept])
        assert len(a["broken"]) == (~kept).sum() == (b["rows"][0] == victim).sum()
    assert after[0]["broken"][0][0] == calls.files.names[place]
    # The same place of the next batch of the epoch, and no picture twice in a batch.
    assert after[0]["rows"][0, 1, 3] == before[1]["rows"][0, 0, 3]
    for element in after:
        for batch in element["rows"].reshape(-1, 8):
            assert len(set(batch.tolist())) == 8


def test_where_nothing_is_whole_the_stream_ends(damaged):
    calls = damaged
    data.damage(calls.files.folder, list(range(192)))
    with contextlib.closing(Prefetcher(calls, 0, 0)) as feed:
        with pytest.raises(Stopped, match=r"16 pictures in a row cannot be read; \d+\.png"):
            feed.take()


def test_passes_show_every_state_in_turn(experiment):
    images = experiment.data.load(None).images
    passes = Passes(images, (1,), 36)
    assert passes.chunks == 3 and images.shape[1] == 96
    found = np.concatenate([passes[number]["images"][0] for number in range(3, 6)])[:96]
    np.testing.assert_array_equal(found, np.asarray(images[1]))
    assert passes[5]["good"].all() and passes.rows(5)[-13:].tolist() == [95] * 13


class _Slow:
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        if index == 3:
            raise RuntimeError("the disk is gone")
        time.sleep(0.05)
        return {"number": index}


def test_a_feed_gives_what_comes_next_and_says_what_is_wrong():
    asked = []
    with contextlib.closing(Prefetcher(_Slow(), 1, 0)) as feed:
        found = [feed.take(lambda: asked.append(1))["number"] for _ in range(2)]
        assert found == [1, 2] and feed.position == 3
        with pytest.raises(Stopped, match=r"can no longer be read.*the disk is gone"):
            feed.take()
    assert not any("_work" in thread.name for thread in threading.enumerate())


def test_waiting_can_be_interrupted():
    class Forever(_Slow):
        def __getitem__(self, index):
            time.sleep(0.5)
            return {}

    def check():
        raise Stopped("by a signal")

    with contextlib.closing(Prefetcher(Forever(), 0, 0)) as feed:
        with pytest.raises(Stopped, match="by a signal"):
            feed.take(check)


def test_a_broken_file_has_substitutes_even_where_a_batch_is_the_whole_epoch(damaged):
    calls = dataclasses.replace(damaged, train_rows=damaged.train_rows[:8])
    victim = int(calls.files.places[0, calls[0]["rows"][0, 0, 3]])
    (calls.files.folder / calls.files.names[victim]).write_bytes(b"")
    element = calls[0]
    assert {name for name, _ in element["broken"]} == {calls.files.names[victim]}
    assert len(set(element["rows"][0, 0].tolist())) == 7  # another state stands in
