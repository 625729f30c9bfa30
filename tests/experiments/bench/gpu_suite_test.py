"""The GPU suite's rehearsal, and that it goes on where it stopped."""

import dataclasses
import itertools
import json

import numpy as np
import pytest

from experiments.bench import gpu_sections, gpu_suite, results, steps
from experiments.bench.gpu_sections import REHEARSAL, SECTIONS, MissingPart
from experiments.bench.results import Result
from socialjepa_jax.agents import AgentData
from socialjepa_jax.errors import InputError
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.performance import hardware
from socialjepa_jax.performance.hardware import Hardware
from socialjepa_jax.sharding import Reduce

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
    found = gpu_suite.run(tmp_path, list(QUICK), REHEARSAL)
    check(found, QUICK)
    saved = json.loads((tmp_path / "gpu_suite.json").read_text())
    assert set(saved["sections"]) == set(QUICK) and saved["rehearsal"] is True
    text = (tmp_path / "gpu_suite.txt").read_text()
    assert "matmul peak, TFLOP/s" in text and "REHEARSAL" in text
    assert "attention='cudnn' needs a GPU" in text


def test_a_part_that_does_not_exist_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_sections, "OBJECTIVES", {})
    found = gpu_suite.run(tmp_path, ["mae"], REHEARSAL)
    assert found["sections"]["mae"]["status"] == "skipped"
    text = (tmp_path / "gpu_suite.txt").read_text()
    assert "[mae] skipped: there is no objective 'mae'" in text


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in SECTIONS if name not in QUICK])
def test_every_section_runs_through(name, tmp_path):
    check(gpu_suite.run(tmp_path, [name], REHEARSAL), [name])


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
    monkeypatch.setattr(gpu_suite, "SECTIONS", table)
    return calls


def test_a_second_call_does_what_the_first_one_left(sections, tmp_path):
    first = gpu_suite.run(tmp_path, [], REHEARSAL)
    assert first["sections"]["shaky"]["why"] == "RuntimeError: out of memory"
    text = (tmp_path / "gpu_suite.txt").read_text()
    assert "[shaky] failed" in text and "late " in text  # what it found before it failed
    assert "[missing] skipped: there is no such part" in text
    assert "1 of 2 targets met" in text
    second = gpu_suite.run(tmp_path, [], REHEARSAL)
    assert sections == ["fine", "shaky", "shaky"]  # what is done is not done again
    assert second["sections"]["shaky"]["status"] == "done"
    assert second["sections"]["fine"] == first["sections"]["fine"]
    assert gpu_suite.table(json.loads((tmp_path / "gpu_suite.json").read_text()))


def test_no_section_begins_after_the_time(sections, tmp_path):
    found = gpu_suite.run(tmp_path, [], REHEARSAL, limit=-1.0)
    assert sections == [] and found["sections"]["fine"]["status"] == "left"
    assert "[fine] left: nothing was measured" in (tmp_path / "gpu_suite.txt").read_text()
    assert gpu_suite.run(tmp_path, ["fine"], REHEARSAL)["sections"]["fine"]["status"] == "done"


def test_a_section_goes_no_further_after_the_time(sections, tmp_path, monkeypatch):
    clock = itertools.count(0.0, 10.0)  # begin, start, after the first figure
    monkeypatch.setattr(gpu_suite.time, "monotonic", lambda: next(clock))
    figures = [Result("figure", 1.0), Result("other", 3.0)]
    monkeypatch.setitem(gpu_suite.SECTIONS, "fine", lambda sizes: iter(figures))
    section = gpu_suite.run(tmp_path, ["fine"], REHEARSAL, limit=15.0)["sections"]["fine"]
    assert section["status"] == "left" and section["why"] == "no time was left for the rest"
    assert [row["name"] for row in section["rows"]] == ["figure"]


def test_a_section_that_ends_after_the_time_is_done(sections, tmp_path, monkeypatch):
    """What gives all its figures at once has nothing left to measure."""
    clock = itertools.count(0.0, 10.0)
    monkeypatch.setattr(gpu_suite.time, "monotonic", lambda: next(clock))
    section = gpu_suite.run(tmp_path, ["fine"], REHEARSAL, limit=15.0)["sections"]["fine"]
    assert section["status"] == "done"
    assert [row["name"] for row in section["rows"]] == ["figure", "other"]


def test_what_was_found_before_a_kill_is_saved(sections, tmp_path, monkeypatch):
    def killed(sizes):
        yield Result("first", 1.0)
        raise KeyboardInterrupt

    monkeypatch.setitem(gpu_suite.SECTIONS, "fine", killed)
    with pytest.raises(KeyboardInterrupt):
        gpu_suite.run(tmp_path, ["fine"], REHEARSAL)
    saved = json.loads((tmp_path / "gpu_suite.json").read_text())["sections"]["fine"]
    assert saved["status"] == "left" and [row["name"] for row in saved["rows"]] == ["first"]
    no_time = gpu_suite.run(tmp_path, ["fine"], REHEARSAL, limit=-1.0)
    assert no_time["sections"]["fine"] == saved
    monkeypatch.setitem(gpu_suite.SECTIONS, "fine", lambda sizes: [Result("all", 1.0)])
    again = gpu_suite.run(tmp_path, ["fine"], REHEARSAL)["sections"]["fine"]
    assert again["status"] == "done" and [row["name"] for row in again["rows"]] == ["all"]


def test_the_peak_is_measured_before_a_step_fills_the_memory(monkeypatch):
    order = []
    peak = Hardware("H", "gpu", 1, "bfloat16", 1e12, 1e9)
    step = steps.Step(lambda: np.zeros(1), _Compiled(), 2, 1e9, 1.0)
    monkeypatch.setattr(hardware, "measured", lambda: order.append("peak") or peak)
    monkeypatch.setattr(steps, "make_step", lambda *a, **k: order.append("step") or step)
    list(gpu_sections.ijepa(dataclasses.replace(REHEARSAL, ijepa=(2,))))
    assert order[:2] == ["peak", "step"]


def test_attention_is_held_to_what_auto_takes(monkeypatch):
    """A kernel that fails without a word hides nothing; the fastest is not what auto takes here."""
    times = {"xla": 2.0, "pallas": 1.0}

    def layer(sizes, tokens, choice):
        if choice not in times:
            raise NotImplementedError
        return choice

    monkeypatch.setattr(gpu_sections, "_attention_layer", layer)
    monkeypatch.setattr(steps, "seconds", lambda choice, effort: times[choice])
    sizes = dataclasses.replace(REHEARSAL, tokens=(5,))
    found = {result.name: result for result in gpu_sections.attention_choices(sizes)}
    assert found["attention, 5 tokens, cudnn, ms"].note == "NotImplementedError"
    auto = found["attention, 5 tokens, auto / fastest"]
    assert (auto.value, auto.verdict()) == (2.0, "missed")
    assert auto.note == "pallas is 2.00 times as fast as xla"
    assert "((5, 'pallas'),)" in found["attention lengths measured"].note


def test_other_devices_files_and_unknown_sections_are_refused(sections, tmp_path):
    gpu_suite.run(tmp_path, ["fine"], REHEARSAL)
    with pytest.raises(InputError, match="measured with another rehearsal"):
        gpu_suite.run(tmp_path, [], dataclasses.replace(REHEARSAL, batch=2))
    path = tmp_path / "gpu_suite.json"
    path.write_text(path.read_text().replace("cpu (cpu)", "H100 (gpu)"))
    with pytest.raises(InputError, match="measured with another device"):
        gpu_suite.run(tmp_path, [], REHEARSAL)
    own = json.loads(path.read_text()) | {"device": "cpu (cpu)"}
    half = {"status": "done", "rows": [1]}
    others = [own | {"sections": x} for x in (None, [], {"fine": 3}, {"fine": {}}, {"fine": half})]
    for other in ([], *others):
        path.write_text(json.dumps(other))
        with pytest.raises(InputError, match="not a file of this program"):
            gpu_suite.run(tmp_path, [], REHEARSAL)
    with pytest.raises(InputError, match="--only='none' must be one of 'fine'"):
        gpu_suite.run(tmp_path, ["none"], REHEARSAL)


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (Result("x", 0.4, 0.35, stretch=0.47), "met"),
        (Result("x", 0.5, 0.35, stretch=0.47), "stretch"),
        (Result("x", 0.3, 0.35, stretch=0.47), "missed"),
        (Result("x", 1.01, 1.02, at_least=False, stretch=1.005), "met"),
        (Result("x", 1.03, 1.02, at_least=False, stretch=1.005), "missed"),
        (Result("x", float("nan"), 0.35), "missed"),
        (Result("x", 3.0), ""),
    ],
)
def test_verdicts(result, verdict):
    assert result.verdict() == verdict
    assert results.from_row(result.row()).describe() == result.describe()


def test_the_targets_are_those_published():
    """Shares of the peak for steps that the sections build: pass and stretch."""
    sizes = dataclasses.replace(REHEARSAL, ijepa=(2,))
    step = steps.Step(lambda: np.zeros(1), _Compiled(), 2, 1e9, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "make_step", lambda *a, **k: step)
        ijepa, lejepa, mae = (
            list(getattr(gpu_sections, name)(sizes))[-1] for name in ("ijepa", "lejepa", "mae")
        )
    assert (ijepa.target, ijepa.stretch) == pytest.approx((0.35, 0.47))
    assert (lejepa.target, lejepa.stretch) == pytest.approx((0.33, 0.45))
    assert (mae.target, mae.stretch) == pytest.approx((0.33, 0.45))


class _Compiled:
    temporary_bytes, seconds = 1, 1.0


def test_a_bandwidth_that_is_not_known_is_not_said():
    for accessed, said in ((1e6, True), (float("nan"), False)):
        step = steps.Step(lambda: None, _Compiled(), 2, 1e9, accessed)
        assert ("of the bandwidth" in gpu_sections._note(step, 0.1)) is said


def test_results_of_others_are_waited_for_once_a_window(monkeypatch):
    monkeypatch.setattr(steps.jax, "default_backend", lambda: "gpu")
    calls, waits = [], []

    def advance():
        calls.append(1)
        return steps._Awaited(lambda: waits.append(len(calls)))

    steps.seconds(advance, steps.Effort(calls=4, windows=2))
    assert waits == [2, 2, 6, 10]  # both results of warming up, then the last of each window


def test_the_constant_batch_is_taken_as_it_is():
    data = AgentData(*np.zeros((4, 2)))
    batch = steps.ConstantBatch._batch(None, None, data, None)
    assert batch["image"] is data.images and batch["index"] is data.rows


@pytest.mark.nightly
def test_masking_everything_is_the_same_loss():
    """Otherwise the ratio of the times would say nothing."""
    import jax

    vit = ViTConfig(image_size=24, patch_size=4, channels=1, width=16, depth=2, heads=2)
    objectives = [kind(vit=vit, predictor="mlp_patch") for kind in (IJepa, steps.MaskEverything)]
    params, aux = objectives[0].init(jax.random.key(0))
    batch = {
        "image": jax.random.normal(jax.random.key(1), (3, 24, 24, 1)),
        "index": jax.numpy.arange(3),
    }
    losses = [
        float(o.loss(params, aux, batch, jax.random.key(2), {}, Reduce())[0]) for o in objectives
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
