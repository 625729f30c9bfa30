import dataclasses
import json
import math
import re
import shutil

import numpy as np
import pytest

from socialjepa_jax.report.run import data, scores
from socialjepa_jax.report.run import page as page_lib
from socialjepa_jax.report.run.page import write_run_report

FIGURES = {
    "views", "r2_instance", "r2_state", "loss", "rankme", "feature_std", "plane_before",
    "plane_after", "neighbours", "nos_instance", "nos_state", "spectrum", "back_instance",
    "back_state",
}  # fmt: skip


@pytest.fixture(scope="module")
def page(finished_run, dataset, tmp_path_factory):
    workdir = shutil.copytree(finished_run, tmp_path_factory.mktemp("page") / "run")
    return write_run_report(workdir, dataset)


def edit_scores(workdir, change):
    path = workdir / "alignment.json"
    rows = [row for row in json.loads(path.read_text())["rows"] if change(row) is not False]
    path.write_text(json.dumps({"schema": 2, "rows": rows}))


def test_page_and_images_are_written(page):
    text = page.read_text()
    assert page.name == "report.html" and len(text) < 3e6
    assert {path.stem for path in page.parent.glob("*.png")} == {f"report_{n}" for n in FIGURES}
    assert text.count("<img") == len(FIGURES)
    assert 'class="missing"' not in text


def test_page_is_self_contained(page):
    text = page.read_text()
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert all(source.startswith(("data:image/png;base64,", "#")) for source in sources)
    assert not re.search(r"https?://|<script|<link|@import|url\(", text)


def test_the_headline_says_what_the_scores_say(page):
    text = page.read_text()
    assert (
        "On held-out objects, one matrix W explains 29% of the variance of the other agent&#x27;s "
        "latents (R² 0.290); the best control (untrained, same init) reaches 0.235, so training "
        "adds 0.055." in text
    )
    assert text.index("held-out objects") < text.index("held-out states")


def test_the_papers_numbers_stand_beside_ours(page):
    text = page.read_text()
    assert text.count("0.891 ± 0.004") == 2
    assert "0.517 with W and 0.496 without" in text


def test_the_papers_smallnorb_numbers_stand_beside_no_other_data(run):
    assert "smallNORB" in scores.metrics(run) and "smallNORB" in str(page_lib.headline(run))
    other = dataclasses.replace(run, config={**run.config, "data": {"kind": "folder"}})
    for text in (scores.metrics(other), str(page_lib.headline(other))):
        assert "smallNORB" not in text and "0.891" not in text


def test_the_page_is_deterministic(page, workdir, dataset):
    assert write_run_report(workdir, dataset).read_bytes() == page.read_bytes()


def test_hostile_names_are_escaped(workdir, dataset):
    evil = "<script>alert(1)</script>"
    config = {"name": evil, "agents": {"cameras": [0, 1, 0]}, "note": f"{evil}\udcff"}
    (workdir / "config.json").write_text(json.dumps(config))
    (workdir / "environment.json").write_text(json.dumps({"jax": evil}))
    edit_scores(workdir, lambda row: row.update(row=row["row"].replace("pixel_pca", evil)))
    (workdir / "metrics.jsonl").unlink()
    names = (evil, "$x^$", "c", "d", "e", "unseen")
    named = dataclasses.replace(dataset, name=evil, label_names=names)
    text = write_run_report(workdir, named).read_text()
    assert "<script" not in text and "&lt;script&gt;alert(1)" in text
    assert r"\udcff" in text  # not UTF-8, as a path may be
    chances = set(re.findall(r"chance is 1/(\d+)\.", text))
    assert chances == {str(len(np.unique(dataset.labels)))}  # a category without states is none


def test_an_empty_workdir_has_a_page_that_says_so(tmp_path, dataset):
    text = write_run_report(tmp_path, dataset).read_text()
    assert "no alignment.json yet" in text and "no config.json" in text
    assert text.count('class="missing"') == 11
    assert text.count("<img") == 1  # the views need no run


def test_a_run_stopped_early_keeps_its_curves(workdir, dataset):
    (workdir / "alignment.json").unlink()
    shutil.rmtree(workdir / "latents")
    text = write_run_report(workdir, dataset).read_text()
    assert "no alignment.json yet" in text and "latents of two agents" in text
    assert {p.stem for p in workdir.glob("*.png")} == {
        f"report_{n}" for n in ("views", "r2_instance", "r2_state", "loss", "rankme", "feature_std")
    }


def test_one_split_without_probes_and_back_maps(workdir, dataset):
    def keep(row):
        row["metrics"] = {k: v for k, v in row["metrics"].items() if not k.startswith("probe")}
        return row["split"] == "state" and row["back"] == "inverse"

    edit_scores(workdir, keep)
    shutil.rmtree(workdir / "latents")
    (workdir / "metrics.jsonl").unlink()
    text = write_run_report(workdir, dataset).read_text()
    assert "No linear probes were measured" in text
    assert (workdir / "report_back_state.png").exists()
    assert not (workdir / "report_nos_instance.png").exists()
    assert "On held-out objects, one matrix" not in text


def test_missing_numbers_are_not_available(workdir, dataset):
    def spoil(row):
        row["metrics"] = {k: math.nan if k != "n_test" else v for k, v in row["metrics"].items()}

    edit_scores(workdir, spoil)
    shutil.rmtree(workdir / "latents")
    (workdir / "metrics.jsonl").unlink()
    text = write_run_report(workdir, dataset).read_text()
    assert "could not be measured (R² n/a); no control was measured." in text
    assert "nan" not in re.sub(r'"data:[^"]*"', "", text).lower()


def test_one_readable_agent_cannot_be_mapped(workdir, dataset):
    encrypted = bytearray((workdir / "latents" / "agent_1.npz").read_bytes())
    encrypted[encrypted.index(b"PK\1\2") + 8] |= 1
    (workdir / "latents" / "agent_1.npz").write_bytes(encrypted)
    (workdir / "latents" / "agent_2.npz").write_bytes(b"PK\x03\x04 cut short")
    (workdir / "metrics.jsonl").unlink()
    text = write_run_report(workdir, dataset).read_text()
    assert "latents of two agents" in text and "no training curves" in text


def test_latents_of_different_width(workdir, dataset):
    path = workdir / "latents" / "agent_1.npz"
    with np.load(path) as arrays:
        narrow = {**arrays, "latents": arrays["latents"][:, :20]}
    np.savez(path, **narrow)
    (workdir / "metrics.jsonl").unlink()
    (workdir / "alignment.json").unlink()
    text = write_run_report(workdir, dataset).read_text()
    assert "20 of 20" in text and (workdir / "report_plane_before.png").exists()


@pytest.mark.parametrize(
    ("trained", "ending"),
    [
        (0.5, "so training adds 0.165."),
        (0.3, "so training adds nothing (\u22120.035)."),
        (0.3352, "so training adds nothing (0.000)."),
        (-0.2, "so training adds nothing (\u22120.535)."),
    ],
)
def test_the_verdict_does_not_flatter(run, trained, ending):
    scores = [
        dataclasses.replace(score, metrics={**score.metrics, "r2": trained})
        if score.row == "trained"
        else score
        for score in run.scores
    ]
    sentence = page_lib.split_sentence(dataclasses.replace(run, scores=scores), "state")
    assert sentence.endswith(ending)
    assert ("none of the variance" in sentence) == (trained < 0)


def test_collapse_takes_the_verdict_back(run):
    evals = [{**line, "agent_1/rankme": 1.0} for line in run.evals]
    sentence = page_lib.split_sentence(dataclasses.replace(run, evals=evals), "instance")
    assert sentence.endswith("But agent 1 collapsed, and R² with collapsed latents is void.")
    assert "training adds" not in sentence


def test_reading_twice_gives_the_same_run(finished_run):
    first, second = (data.read_run(finished_run) for _ in range(2))
    assert first.scores == second.scores and first.evals == second.evals


def test_hardware_that_was_measured_in_part_is_shown_and_another_files_is_not(run):
    known = {"name": "H100", "platform": "gpu", "devices": 8, "dtype": "bfloat16"}
    known |= {"matmul_flops": 8e14, "copy_bytes": None}
    shown = page_lib.environment(dataclasses.replace(run, performance={"hardware": known}))
    row = r'<tr class="text"><th [^>]*>measured hardware</th><td>([^<]*)</td>'  # may wrap
    assert re.findall(row, shown) == [
        "8 x H100: 800 TFLOP/s in bfloat16 products (each, measured); copies not measured, as "
        "memory was full"
    ]
    for other in (None, [], "H100", {}, {"name": "H100"}, known | {"x": 1},
                  known | {"matmul_flops": "fast"}):  # fmt: skip
        speeds = page_lib.speed(dataclasses.replace(run, performance={"hardware": other}))
        assert "measured hardware" not in speeds
