"""The GPU suite: its rehearsal, its files, and a second call."""

import dataclasses
import itertools
import json

import pytest

from experiments.bench.gpu import suite, training
from experiments.bench.gpu.sizes import REHEARSAL, MissingPart
from experiments.bench.gpu.suite import SECTIONS
from experiments.bench.results import Result
from socialjepa_jax.errors import InputError

QUICK = ("hardware", "attention", "alignment", "pytorch")


def check(found, names):
    for name in names:
        section = found["sections"][name]
        assert section["status"] in ("done", "skipped"), section
        if section["status"] == "done":
            assert section["rows"]
            for row in section["rows"]:
                assert row["verdict"] in ("", "met", "stretch", "missed")


def test_quick_sections_run_through(tmp_path):
    found = suite.run(tmp_path, list(QUICK), REHEARSAL)
    check(found, QUICK)
    saved = json.loads((tmp_path / "gpu_suite.json").read_text())
    assert set(saved["sections"]) == set(QUICK) and saved["rehearsal"] is True
    text = (tmp_path / "gpu_suite.txt").read_text()
    assert "matmul peak, TFLOP/s" in text and "REHEARSAL" in text
    assert "attention='cudnn' needs a GPU" in text


def test_a_part_that_does_not_exist_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(training, "OBJECTIVES", {})
    found = suite.run(tmp_path, ["mae"], REHEARSAL)
    assert found["sections"]["mae"]["status"] == "skipped"
    text = (tmp_path / "gpu_suite.txt").read_text()
    assert "[mae] skipped: there is no objective 'mae'" in text


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in SECTIONS if name not in QUICK])
def test_every_section_runs_through(name, tmp_path):
    check(suite.run(tmp_path, [name], REHEARSAL), [name])


@pytest.fixture
def sections(monkeypatch):
    """Three sections: one is fine, one fails at first, one has no part."""
    calls = []

    def fine(sizes):
        calls.append("fine")
        return [Result("figure", 1.0, 2.0), Result("other", 3.0, 2.0, stretch=4.0)]

    def shaky(sizes):
        calls.append("shaky")
        yield Result("late", float("nan"))
        if calls.count("shaky") == 1:
            raise RuntimeError("out of\nmemory")

    def missing(sizes):
        raise MissingPart("there is no such part")

    table = {"fine": fine, "shaky": shaky, "missing": missing}
    monkeypatch.setattr(suite, "SECTIONS", table)
    return calls


def test_a_second_call_measures_the_sections_that_are_not_done(sections, tmp_path):
    first = suite.run(tmp_path, [], REHEARSAL)
    assert first["sections"]["shaky"]["why"] == "RuntimeError: out of memory"
    text = (tmp_path / "gpu_suite.txt").read_text()
    assert "[shaky] failed" in text and "late " in text  # measured before it failed
    assert "[missing] skipped: there is no such part" in text
    assert "1 of 2 targets met" in text
    second = suite.run(tmp_path, [], REHEARSAL)
    assert sections == ["fine", "shaky", "shaky"]  # what is done is not done again
    assert second["sections"]["shaky"]["status"] == "done"
    assert second["sections"]["fine"] == first["sections"]["fine"]
    assert suite.table(json.loads((tmp_path / "gpu_suite.json").read_text()))


def test_no_section_begins_after_the_time(sections, tmp_path):
    found = suite.run(tmp_path, [], REHEARSAL, limit=-1.0)
    assert sections == [] and found["sections"]["fine"]["status"] == "left"
    assert "[fine] left: nothing was measured" in (tmp_path / "gpu_suite.txt").read_text()
    assert suite.run(tmp_path, ["fine"], REHEARSAL)["sections"]["fine"]["status"] == "done"


def test_a_section_goes_no_further_after_the_time(sections, tmp_path, monkeypatch):
    clock = itertools.count(0.0, 10.0)  # begin, start, after the first figure
    monkeypatch.setattr(suite.time, "monotonic", lambda: next(clock))
    figures = [Result("figure", 1.0), Result("other", 3.0)]
    monkeypatch.setitem(suite.SECTIONS, "fine", lambda sizes: iter(figures))
    section = suite.run(tmp_path, ["fine"], REHEARSAL, limit=15.0)["sections"]["fine"]
    assert section["status"] == "left" and section["why"] == "no time was left for the rest"
    assert [row["name"] for row in section["rows"]] == ["figure"]


def test_a_section_that_ends_after_the_time_is_done(sections, tmp_path, monkeypatch):
    """A section that returns a list has nothing left to measure."""
    clock = itertools.count(0.0, 10.0)
    monkeypatch.setattr(suite.time, "monotonic", lambda: next(clock))
    section = suite.run(tmp_path, ["fine"], REHEARSAL, limit=15.0)["sections"]["fine"]
    assert section["status"] == "done"
    assert [row["name"] for row in section["rows"]] == ["figure", "other"]


def test_figures_from_before_a_kill_are_saved(sections, tmp_path, monkeypatch):
    def killed(sizes):
        yield Result("first", 1.0)
        raise KeyboardInterrupt

    monkeypatch.setitem(suite.SECTIONS, "fine", killed)
    with pytest.raises(KeyboardInterrupt):
        suite.run(tmp_path, ["fine"], REHEARSAL)
    saved = json.loads((tmp_path / "gpu_suite.json").read_text())["sections"]["fine"]
    assert saved["status"] == "left" and [row["name"] for row in saved["rows"]] == ["first"]
    no_time = suite.run(tmp_path, ["fine"], REHEARSAL, limit=-1.0)
    assert no_time["sections"]["fine"] == saved
    monkeypatch.setitem(suite.SECTIONS, "fine", lambda sizes: [Result("all", 1.0)])
    again = suite.run(tmp_path, ["fine"], REHEARSAL)["sections"]["fine"]
    assert again["status"] == "done" and [row["name"] for row in again["rows"]] == ["all"]


def test_other_devices_files_and_unknown_sections_are_refused(sections, tmp_path):
    suite.run(tmp_path, ["fine"], REHEARSAL)
    with pytest.raises(InputError, match="measured with another rehearsal"):
        suite.run(tmp_path, [], dataclasses.replace(REHEARSAL, batch=2))
    path = tmp_path / "gpu_suite.json"
    path.write_text(path.read_text().replace("cpu (cpu)", "H100 (gpu)"))
    with pytest.raises(InputError, match="measured with another device"):
        suite.run(tmp_path, [], REHEARSAL)
    own = json.loads(path.read_text()) | {"device": "cpu (cpu)"}
    half = {"status": "done", "rows": [1]}
    others = [own | {"sections": x} for x in (None, [], {"fine": 3}, {"fine": {}}, {"fine": half})]
    for other in ([], *others):
        path.write_text(json.dumps(other))
        with pytest.raises(InputError, match="not a file of this program"):
            suite.run(tmp_path, [], REHEARSAL)
    with pytest.raises(InputError, match="--only='none' must be one of 'fine'"):
        suite.run(tmp_path, ["none"], REHEARSAL)
