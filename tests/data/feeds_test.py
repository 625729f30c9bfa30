"""Feeds: a stream trains and encodes to the bit as resident images do."""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import time
import types

import chex
import jax
import numpy as np
import pytest

from experiments.reliability import data
from socialjepa_jax import build, evaluation, loop, sharding
from socialjepa_jax.data import prefetch, streaming
from socialjepa_jax.data.files import Files
from socialjepa_jax.data.indexed import BrokenFiles
from socialjepa_jax.errors import InputError, Stopped
from socialjepa_jax.report.run import page as run_page

STEPS_PER_CALL, CALLS = 2, 12  # beyond the first epoch


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return data.write_files(tmp_path_factory.mktemp("files"))


@functools.cache
def make_parts(folder):
    """One program for resident and streamed data."""
    return build.build(data.experiment(pathlib.Path(folder)))


def train(experiment, workdir, first=0, state=None, calls=CALLS):
    """Losses of some calls, the last state and its latents."""
    parts, dataset = make_parts(experiment.data.path), experiment.data.load(workdir)
    trainer, hparams = parts.trainer, parts.hparams
    by_agent = sharding.by_agent(trainer.mesh)
    state = trainer.init(hparams) if state is None else sharding.put(state, by_agent)
    losses = []
    opened = build.open_feed(experiment, dataset, parts, workdir, workdir / "cache")
    with contextlib.closing(opened) as feed:
        feed.begin(sharding.fetch(state.passed_over))
        for call in range(first, first + calls):
            source = feed.at(call * STEPS_PER_CALL)
            state, metrics = trainer.step(state, source, hparams)
            losses.append(np.asarray(metrics["loss"]))
        latents = evaluation.encode_states(trainer.encode, state, feed)
        again = evaluation.encode_states(trainer.encode, state, feed)  # the stream's next pass
        np.testing.assert_array_equal(latents, again)
    return np.stack(losses), jax.device_get(state), latents, feed


@pytest.fixture(scope="module")
def resident(folder, tmp_path_factory):
    return train(data.experiment(folder, read="resident"), tmp_path_factory.mktemp("resident"))


@pytest.mark.nightly
def test_a_stream_is_the_same_run_on_many_devices(folder, resident, tmp_path):
    assert len(jax.devices()) == 8
    losses, state, latents, feed = train(data.experiment(folder, workers=0), tmp_path)
    np.testing.assert_array_equal(losses, resident[0])
    chex.assert_trees_all_equal(state, resident[1])
    np.testing.assert_array_equal(latents, resident[2])
    assert feed.good.all() and feed.scalars(1.0)["broken_files"] == 0
    (cached,) = (tmp_path / "cache").glob("pixels_*.npy")
    before = cached.read_bytes()
    # Going on elsewhere is asking for a later step; another number of steps a call, too.
    half = train(data.experiment(folder, workers=0), tmp_path, calls=5)[1]
    rest = train(data.experiment(folder, workers=0), tmp_path, 5, half, CALLS - 5)
    np.testing.assert_array_equal(rest[0], resident[0][5:])
    chex.assert_trees_all_equal(rest[1], resident[1])
    assert cached.read_bytes() == before


@pytest.mark.nightly
def test_batches_are_passed_over_as_of_resident_data(folder, resident, tmp_path):
    found = []
    for read in ("resident", "stream"):
        state = dataclasses.replace(
            resident[1],
            step=np.full(2, 4, np.int32),
            passed_over=np.array([6, 0], np.int32),
        )
        experiment = data.experiment(folder, read=read, workers=0)
        found.append(train(experiment, tmp_path, 2, state, 3)[0])
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0][:, 0] != resident[0][2:5, 0]).all()


def test_a_broken_file_costs_its_state_and_is_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(run_page, "write_run_report", lambda workdir, *_: workdir / "page")
    files = tmp_path / "files"
    files.mkdir()
    experiment = data.experiment(data.write_files(files), workers=0)
    run = dataclasses.replace(experiment.run, steps=8, eval_every=8, log_every=4)
    experiment = dataclasses.replace(experiment, run=run)
    (files / "7.png").write_bytes(b"\x89PNG")
    workdir = tmp_path / "run"
    result = loop.fit(experiment, workdir)
    lines = (workdir / "broken_files.txt").read_text().splitlines()
    assert len(lines) == 1 and lines[0].startswith("7.png: ")
    assert result.dataset.num_states == 95 and result.dataset.num_dropped == 1
    assert 3 not in result.dataset.state_ids  # files 6 and 7 are the two cameras' of state 3
    assert isinstance(result.dataset.images, Files)
    with np.load(workdir / "latents" / "agent_0.npz") as saved:
        np.testing.assert_array_equal(saved["state_ids"], result.dataset.state_ids)
        assert len(saved["latents"]) == 95
    logged = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    assert [line["broken_files"] for line in logged if line["kind"] == "train"] == [1.0, 1.0]
    assert json.loads((workdir / "alignment.json").read_text())["rows"]


def test_too_many_broken_files_end_the_run_before_it_trains(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    experiment = data.experiment(data.write_files(files), workers=0, max_broken=0.02)
    data.damage(files, [1, 3, 5])
    dataset = experiment.data.load(tmp_path)
    parts = build.build(experiment)
    build.open_feed(experiment, dataset, parts, tmp_path, tmp_path / "cache").close()
    data.damage(files, [1, 3, 5, 7])  # 4 of 192
    with pytest.raises(Stopped, match=r"4 of 192 files are broken, more than .*=0\.02; .*\.txt"):
        build.open_feed(experiment, dataset, parts, tmp_path, tmp_path / "cache")
    lines = (tmp_path / "broken_files.txt").read_text().splitlines()
    assert {line.split(":")[0] for line in lines} == {"1.png", "3.png", "5.png", "7.png"}


def test_more_states_than_there_are_cannot_be_in_a_batch(folder, tmp_path):
    experiment = data.experiment(folder, workers=0)
    run = dataclasses.replace(experiment.run, batch_size=80)
    experiment = dataclasses.replace(experiment, run=run)
    with pytest.raises(InputError, match=r"batch_size=80 is more than the \d+ training"):
        train(experiment, tmp_path)


def test_images_that_memory_does_not_hold_are_not_read_ahead(folder, tmp_path, monkeypatch):
    """2 agents x 2 steps x 8 images of 64 bytes: one call is read while two wait."""
    experiment = data.experiment(folder, workers=0)
    dataset, parts = experiment.data.load(tmp_path), make_parts(str(folder))
    monkeypatch.setattr(streaming, "_memory", lambda: 3 * 2048 - 1)
    with pytest.raises(InputError, match=r"steps_per_call=2 .*workers=0: 3 calls of 2\.05e-06 GB"):
        build.open_feed(experiment, dataset, parts, tmp_path, tmp_path / "cache")
    monkeypatch.setattr(streaming, "_memory", lambda: 3 * 2048)
    build.open_feed(experiment, dataset, parts, tmp_path, tmp_path / "cache").close()
    assert prefetch.elements_held(2) == 9  # each worker keeps two and makes one


def test_one_process_lists_broken_files_for_all():
    broken = BrokenFiles(None, 10, 0.15)
    broken.note([("a.png", "cut"), ("a.png", "cut")])
    assert broken.names == {"a.png"}
    with pytest.raises(Stopped, match=r"2 of 10 files .*=0\.15; the first process lists them"):
        broken.note([("b.png", "cut")])


def test_the_list_of_broken_files_holds_names_that_are_not_utf8(tmp_path):
    BrokenFiles(tmp_path / "list", 10, 0.5).note([(os.fsdecode(b"\xff.png"), "cut")])
    assert (tmp_path / "list").read_bytes() == b"\xff.png: cut\n"


class _Slow:
    is_ready = False

    def take(self, check):
        time.sleep(0.3)
        return {"seconds": 1.0}


def test_the_wait_is_measured_and_cores_are_counted():
    watch, begin, settled = streaming.WaitTimer(), time.monotonic(), []
    for _ in range(3):
        watch.take(_Slow(), lambda: settled.append(1), lambda: None)
        time.sleep(0.1)  # the step
    assert len(settled) == 3
    stepping = time.monotonic() - begin
    time.sleep(0.4)  # an evaluation
    share, cores = watch.report(stepping)
    assert 0.6 < share < 0.8  # 0.3 of 0.4 s
    assert 7 <= cores <= 10  # 1 s of reading in 0.1 s of computing
    assert watch.report(1.0)[0] < 0.1


@pytest.mark.nightly
def test_going_elsewhere_leaves_earlier_waits_behind(folder, tmp_path, monkeypatch):
    """As a run that rolls back does, whose stopwatch begins anew."""
    clock = [0.0]
    monkeypatch.setattr(streaming, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    take = streaming.Prefetcher.take

    def slow(ahead, check):
        clock[0] += 10.0
        return take(ahead, check)

    experiment = data.experiment(folder, workers=0)
    parts, dataset = make_parts(str(folder)), experiment.data.load(tmp_path)
    opened = build.open_feed(experiment, dataset, parts, tmp_path, tmp_path / "cache")
    with contextlib.closing(opened) as feed:
        monkeypatch.setattr(streaming.Prefetcher, "take", slow)
        for call in (0, 1, 2, 0, 1):  # three calls fail
            feed.at(call * STEPS_PER_CALL)
        assert feed.scalars(80.0)["data_wait"] == 0.25


@pytest.mark.nightly
def test_the_page_of_a_streamed_run(folder, tmp_path):
    experiment = data.experiment(folder, workers=1)
    page = loop.fit(experiment, tmp_path / "run").report
    assert page.stat().st_size > 10_000
