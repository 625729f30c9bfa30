"""The page of a run in a world in motion, read cell by cell against the run's own files."""

# ruff: noqa: RUF001 (the page has true minus signs and dashes)

import base64
import dataclasses
import io
import json
import math
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from socialjepa_jax.data.base import Film, ViewDataset
from socialjepa_jax.report.looks import look
from socialjepa_jax.report.run import data, moving, theory
from socialjepa_jax.report.run.page import write_run_report

CAMERAS, NAMES, NUM = (0, 1, 0), ("x", "y", "yaw"), 120
CONTROLS = (
    "untrained", "untrained_hidden", "pixel_pca", "pixel_pca_wide", "random_projection",
    "mismatched",
)  # fmt: skip
FIGURES = {"strip", "states", "plane_before", "plane_after", "state_r2", "loss", "rankme",
           "feature_std"}  # fmt: skip


@pytest.fixture(scope="module")
def world():
    """A data set of noise whose states are known, and a film of it."""
    rng = np.random.default_rng(0)
    zeros, states = np.zeros(NUM, np.int32), rng.normal(size=(NUM, 3)).astype(np.float32)
    dataset = ViewDataset(
        name="motion", images=rng.integers(0, 256, (2, NUM, 8, 8, 3), np.uint8),
        state_ids=np.arange(NUM) * 3, instance_ids=zeros, labels=zeros, label_names=("world",),
        factors=zeros[:, None], factor_names=("category",),
        split_state=(np.arange(NUM) % 2).astype(np.int32), split_instance=zeros, overlap=0.0,
        states=states, state_names=NAMES,
    )  # fmt: skip
    shots = rng.integers(0, 256, (2, 2, 12, 8, 8, 3), np.uint8)
    return dataset, Film(shots[0], states[:12], shots[1])


BOUND = {
    "recovery_error": "error: min E‖h − Qz‖²", "bound": "bound: D + (ε + D)²",
    "bound_epsilon": "ε", "bound_nonlinearity": "D",
}  # fmt: skip
DYNAMICS = {
    "rho_recovered": "mean eigenvalue of A", "rho_true": "mean ρ of the state",
    "rho_error": "largest |eigenvalue − ρ|", "transition_error": "‖QᵀAQ − diag ρ‖/√n",
}  # fmt: skip


def of_agent(agent, key):
    """A number of an agent, the same in all of its pairs; errors are below their bounds."""
    place = [*BOUND, *DYNAMICS].index(key)
    return 0.01 + agent / 10 + place / 100


def make_rows():
    """Rows of alignment.json whose numbers all differ."""
    rng, rows = np.random.default_rng(1), []

    def add(x, y, row, method="ridge", back="inverse", **more):
        keys = ["state_r2_x", "state_r2", *(f"state_r2/{n}" for n in NAMES)]
        metrics = {k: rng.uniform(0.2, 0.7) for k in keys} | {"n_test": 60.0}
        if row != "all_pixels":
            metrics |= {
                "r2": rng.uniform(0.1, 0.5),
                "orthogonality": rng.uniform(),
                "n_train": 60.0,
            }
        names = {"x": f"agent_{x}", "y": f"agent_{y}", "row": row, "split": "state"}
        how = {"method": method, "back": back, "seed": 0}
        rows.append({**names, **how, "metrics": metrics | more})

    for x, y in ((0, 1), (1, 2)):
        for back in ("inverse", "forward"):
            add(
                x, y, "trained", back=back, r2=rng.uniform(0.95, 0.99),
                state_r2=rng.uniform(0.9, 0.95), state_r2_x=rng.uniform(0.9, 0.95),
                few_pairs_r2=rng.uniform(0.8, 0.9), readout_carried=rng.uniform(0.8, 0.9),
                rotation_angle=rng.uniform(1, 9), w_shrinkage=rng.uniform(0.8, 1.0),
                w_shrinkage_predicted=rng.uniform(0.8, 1.0),
                **{f"{key}{end}": of_agent(k, key)
                   for k, end in ((x, "_x"), (y, "")) for key in (*BOUND, *DYNAMICS)},
                **{f"readout_own@{n}": rng.uniform(0.4, 0.8) for n in (5, 20, 100)},
            )  # fmt: skip
        add(x, y, "orthogonal", "procrustes", readout_carried=0.5)
        add(x, y, "actions", "actions", r2=rng.uniform(0.9, 0.95), n_train=3000.0,
            readout_carried=rng.uniform(0.7, 0.9))  # fmt: skip
        for name in CONTROLS:
            add(x, y, name)
        add(x, y, "all_pixels", "none", "none")
    add(0, 2, "same_camera")
    return rows


@pytest.fixture(scope="module")
def finished(world, tmp_path_factory):
    """A complete workdir: copy it before changing it."""
    dataset, _ = world
    workdir = tmp_path_factory.mktemp("moving")
    config = {"name": "in motion", "agents": {"cameras": CAMERAS, "seeds": [0, 1, 2]}}
    (workdir / "config.json").write_text(json.dumps(config))
    (workdir / "alignment.json").write_text(json.dumps({"schema": 2, "rows": make_rows()}))
    lines = []
    for step in (0, 50, 100):
        found = {f"agent_{k}/{n}": 1.5 + step / 100 + k for k in range(3)
                 for n in ("rankme", "feature_std", "latent_norm")}  # fmt: skip
        found |= {f"agent_{k}/state_r2": 0.2 + step / 150 for k in range(3)}
        lines += [{"step": step, "time": 0.0, "kind": "eval", **found}]
        lines += [{"step": step, "time": 0.0, "kind": "train", "agent_0/loss": 1.0 / (step + 1)}]
    (workdir / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    (workdir / "latents").mkdir()
    rng = np.random.default_rng(2)
    for k in range(3):
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        z = dataset.states @ turn + 0.1 * rng.normal(size=(NUM, 3))
        np.savez(
            workdir / "latents" / f"agent_{k}.npz",
            latents=z.astype(np.float32), state_ids=dataset.state_ids,
            split_state=dataset.split_state, split_instance=dataset.split_instance,
        )  # fmt: skip
    return workdir


@pytest.fixture
def workdir(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


@pytest.fixture(scope="module")
def page(finished, world, tmp_path_factory):
    workdir = shutil.copytree(finished, tmp_path_factory.mktemp("page") / "run")
    return write_run_report(workdir, *world)


class Tables(HTMLParser):
    """The tables of a page by their section: rows (label, note, {column: (value, bounds)})."""

    def __init__(self, text):
        super().__init__()
        self.found, self.section, self.cell = {}, "", None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "section":
            self.section = dict(attrs)["id"]
        elif tag == "table":
            self.head, self.rows = [], []
        elif tag == "tr":
            self.row = []
        elif tag in ("th", "td"):
            self.cell = ["", ""]
        self.small = tag == "small"

    def handle_data(self, text):
        if self.cell is not None:
            self.cell[self.small] += text

    def handle_endtag(self, tag):
        self.small = False
        if tag in ("th", "td"):
            self.row.append(tuple(self.cell))
            self.cell = None
        elif tag == "tr" and not self.head:
            self.head = [title.rstrip(" \N{NO-BREAK SPACE}↑↓") for title, _ in self.row]
        elif tag == "tr":
            label, *cells = self.row
            self.rows.append((*label, dict(zip(self.head[1:], cells, strict=True))))
        elif tag == "table":
            self.found.setdefault(self.section, []).append(self.rows)


@pytest.fixture(scope="module")
def tables(page):
    return Tables(page.read_text()).found


def values(row, key):
    """A metric of all pairs, of the first way back."""
    found = {}
    for each in make_rows():
        if each["row"] == row and key in each["metrics"]:
            found.setdefault((each["x"], each["y"]), each["metrics"][key])
    return list(found.values())


def cell(row, key, digits=3):
    """What a table shows of a metric: the mean over pairs, and the lowest and highest."""
    found = values(row, key)
    if not found:
        return ("–", "")
    shown = [f"{v:.{digits}f}" for v in (np.mean(found), min(found), max(found))]
    if digits == 0 and found[0] >= 100:
        shown = [f"{v:.0f}" for v in (np.mean(found), min(found), max(found))]
    return (shown[0], "" if len(set(shown)) == 1 else f"[{shown[1]}, {shown[2]}]")


def test_the_state_of_every_row_beside_w(tables):
    (rows,) = tables["state"]
    keys = {"state, first agent": "state_r2_x", "state, second agent": "state_r2",
            "R² of W": "r2", **{name: f"state_r2/{name}" for name in NAMES}}  # fmt: skip
    order = ["trained", "same_camera", *CONTROLS, "all_pixels"]
    assert [label for label, _, _ in rows] == [look(name).label for name in order]
    for name, (_, _, cells) in zip(order, rows):
        expected = {title: cell(name, key) for title, key in keys.items()}
        if name.startswith("mismatched"):  # pairs are wrong, and the first agent is the trained one
            expected["state, first agent"] = ("–", "")
        assert cells == expected, name
    assert rows[-1][2]["R² of W"] == ("–", "")


def test_maps_by_what_they_were_fitted_to(tables):
    (rows,) = tables["maps"]
    known = {label: cells for label, _, cells in rows}
    assert list(known) == [
        "ridge regression, all pairs", "orthogonal (Procrustes), all pairs",
        "orthogonal, five pairs", "from actions, no pair at all",
    ]  # fmt: skip
    for label, name in zip(known, ("trained", "orthogonal", None, "actions")):
        if name:
            assert known[label]["R² of W"] == cell(name, "r2")
            assert known[label]["‖WᵀW − I‖/‖I‖"] == cell(name, "orthogonality")
            assert known[label]["fitted to"] == cell(name, "n_train", 0)
    few = known["orthogonal, five pairs"]
    assert few["R² of W"] == cell("trained", "few_pairs_r2") and few["fitted to"][0] == "5"


def test_readouts_by_the_labels_they_cost(tables):
    (rows,) = tables["readout"]
    shown = [(label, note, cells["R² of the state"]) for label, note, cells in rows]
    assert shown == [
        ("carried over by W", "0 labels", cell("trained", "readout_carried")),
        ("carried over by W from actions", "0 labels, 0 pairs", cell("actions", "readout_carried")),
        *(
            ("its own", f"{n} labels, mean of 20 draws", cell("trained", f"readout_own@{n}"))
            for n in (5, 20, 100)
        ),
        ("its own", "all labels", cell("trained", "state_r2")),
    ]


def test_w_against_the_theory(tables):
    ((label, _, cells),) = tables["theory"][0]
    assert label == "trained"
    assert cells == {
        "angle to Q₂Q₁ᵀ, degrees": cell("trained", "rotation_angle", 2),
        "mean singular value of W": cell("trained", "w_shrinkage"),
        "if errors were independent": cell("trained", "w_shrinkage_predicted"),
    }


def test_every_agent_beside_its_bound_and_the_state_s_dynamics(tables, page):
    for shown, titles in zip(tables["theory"][1:], (BOUND, DYNAMICS), strict=True):
        assert [label for label, *_ in shown] == [
            "agent 0 (camera 0)", "agent 1 (camera 1)", "agent 2 (camera 0)"
        ]  # fmt: skip
        for agent, (_, _, cells) in enumerate(shown):
            assert cells == {
                title: (f"{of_agent(agent, key):.3f}", "") for key, title in titles.items()
            }
    assert "error is below its bound" in page.read_text()


@pytest.mark.parametrize(
    ("error", "says", "leaves_out"),
    [(0.5, "exceeds the bound of agent 1:", "is below"), (math.nan, "n/a", "bound of agent")],
)
def test_an_error_beyond_its_bound_is_said(workdir, world, error, says, leaves_out):
    def exceed(row):
        for key, agent in (("recovery_error_x", row["x"]), ("recovery_error", row["y"])):
            if key in row["metrics"] and agent == "agent_1":
                row["metrics"][key] = error

    edit(workdir, exceed)
    text = str(theory.section(data.read_run(workdir)))
    assert says in text and leaves_out not in text and "is below its bound" not in text


def test_agents_without_walks_are_compared_in_w_alone(workdir):
    def forget(row):
        row["metrics"] = {k: v for k, v in row["metrics"].items() if not k.startswith("rho_rec")}
        row["metrics"] = {k: v for k, v in row["metrics"].items() if not k.startswith("bound")}

    edit(workdir, forget)
    text = str(theory.section(data.read_run(workdir)))
    assert text.count("<table") == 1 and "Theorem 3" not in text


def test_cycles_of_three_cameras(workdir, world, tables, page):
    """Triples with the same ends differ in the agent between them."""
    assert "cycles" not in tables and "Three cameras" not in page.read_text()
    path = workdir / "alignment.json"
    rows = json.loads(path.read_text())["rows"]
    titles = {
        "direct_r2": "R², 1 → 3", "composed_r2": "R², 1 → 2 → 3",
        "cycle_r2": "R², 1 → 2 → 3 → 1", "cycle_identity": "‖W₃₁W₂₃W₁₂ − I‖/√D",
    }  # fmt: skip
    labels = {
        "cycle": "ridge regression, all pairs",
        "cycle_orthogonal": "orthogonal (Procrustes), all pairs",
        "cycle_actions": "from actions, no pair at all",
        "cycle_untrained": "untrained, ridge regression",
    }
    for place, name in enumerate(labels):
        for via in (1, 2):
            metrics = {k: place / 10 + via / 50 + n / 1000 for n, k in enumerate(titles)}
            rows.append({
                "x": "agent_0", "y": "agent_3", "via": f"agent_{via}", "row": name,
                "split": "state", "method": "m", "back": "none", "seed": 0, "metrics": metrics,
            })  # fmt: skip
    path.write_text(json.dumps({"schema": 2, "rows": rows}))
    text = write_run_report(workdir, *world).read_text()
    (shown,) = Tables(text).found["cycles"]
    assert [label for label, *_ in shown] == list(labels.values())
    for place, (_, _, cells) in enumerate(shown):
        for n, title in enumerate(titles.values()):
            low, high = (place / 10 + via / 50 + n / 1000 for via in (1, 2))
            assert cells[title] == (f"{(low + high) / 2:.3f}", f"[{low:.3f}, {high:.3f}]")
    assert "Means over 2 triples of agents" in text


def test_the_headline_says_what_the_scores_say(page):
    text = page.read_text()
    low = min(values("trained", "state_r2") + values("trained", "state_r2_x"))
    r2, actions, few = (
        np.mean(values(*which))
        for which in (("trained", "r2"), ("actions", "r2"), ("trained", "few_pairs_r2"))
    )
    assert f"at least {low:.0%} of the variance of the state in every agent" in text
    assert f"(R² {low:.3f})" in text
    assert f"explains {r2:.0%} of the variance of the other&#x27;s latents (R² {r2:.3f})" in text
    assert f"reaches R² {actions:.3f}" in text and f"already give {few:.3f}" in text
    best = max(CONTROLS, key=lambda name: np.mean(values(name, "r2")))
    assert f"best control, R² of W: {look(best).label}" in text
    tiles = re.findall(r"<(?:b|strong)[^>]*>([\d.]+)</", text[: text.index("<nav")])
    assert tiles == [f"{v:.3f}" for v in (low, r2, actions, np.mean(values(best, "r2")))]


def test_page_and_images_are_written(page):
    text = page.read_text()
    assert len(text) < 3e6 and 'class="missing"' not in text.replace(*_REPETITIONS)
    assert {path.stem for path in page.parent.glob("*.png")} == {f"report_{n}" for n in FIGURES}
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert all(re.match(r"data:image/(png|gif);base64,|#", source) for source in sources)
    assert not re.search(r"https?://|<script|<link|@import|url\(", text)


# The stored table of repetitions comes with the package, or not.
_REPETITIONS = ('<p class="missing">This installation', "")


def test_the_animation_shows_all_cameras_side_by_side(page, world):
    (encoded,) = re.findall(r"data:image/gif;base64,([^\"]*)", page.read_text())
    film = Image.open(io.BytesIO(base64.b64decode(encoded)))
    assert film.n_frames == 12 and film.info["loop"] == 0 and film.info["duration"] in (120, 125)
    assert film.size == (2 * 8 * 6 + 6, 8 * 6)
    film.seek(3)
    shown = np.asarray(film.convert("RGB"), int)
    calm = world[1].calm
    for camera, start in ((0, 0), (1, 54)):
        middle = shown[3::6, start + 3 : start + 48 : 6]
        assert np.abs(middle - calm[camera, 3]).mean() < 12  # of 256 colours a frame
    assert (shown[:, 48:54] > 240).all()


def test_grey_worlds_have_an_animation_too(world):
    shown = moving._side_by_side(world[1].calm[:, 0, ..., :1])
    assert shown.shape == (48, 102, 3) and (shown[..., 0] == shown[..., 2]).all()


def test_the_page_is_deterministic(page, workdir, world):
    assert write_run_report(workdir, *world).read_bytes() == page.read_bytes()


def test_missing_files_are_said(tmp_path, world):
    dataset, _ = world
    text = write_run_report(tmp_path, dataset).read_text()
    for sentence in (
        "The run has no alignment.json yet.", "cannot show its world in motion",
        "no latents of two agents", "No readouts were measured", "differ in width",
        "holds no R² of the state", "no config.json", "no training curves",
    ):  # fmt: skip
        assert sentence in text, sentence
    assert "<img" not in text and "nan" not in text.lower()


def edit(workdir, change):
    path = workdir / "alignment.json"
    rows = [row for row in json.loads(path.read_text())["rows"] if change(row) is not False]
    path.write_text(json.dumps({"schema": 2, "rows": rows}))


def test_a_run_without_walks_and_controls_has_a_page(workdir, world):
    edit(workdir, lambda row: row["row"] == "trained" and row["y"] == "agent_1")
    shutil.rmtree(workdir / "latents")
    text = write_run_report(workdir, *world).read_text()
    assert "shared actions alone" not in text and "best control" not in text
    tables = Tables(text).found
    assert [label for label, *_ in tables["state"][0]] == ["trained"]
    assert [label for label, *_ in tables["maps"][0]] == [
        "ridge regression, all pairs", "orthogonal, five pairs"
    ]  # fmt: skip
    assert "no latents of two agents" in text
    assert not any(bounds for *_, cells in tables["state"][0] for _, bounds in cells.values())


def test_numbers_that_are_missing_are_not_available(workdir, world):
    def spoil(row):
        row["metrics"] = {k: math.nan if k != "n_test" else v for k, v in row["metrics"].items()}

    edit(workdir, spoil)
    shutil.rmtree(workdir / "latents")
    (workdir / "metrics.jsonl").unlink()
    text = write_run_report(workdir, *world).read_text()
    assert "could not be measured" in text and "n/a" in text
    assert "nan" not in re.sub(r'"data:[^"]*"', "", text).lower()


def test_a_run_that_failed_is_not_flattered(finished, world):
    run, dataset = data.read_run(finished), world[0]
    worse = [
        dataclasses.replace(s, metrics={**s.metrics, "r2": -0.2, "state_r2": -0.1})
        if s.row == "trained" else s
        for s in run.scores
    ]  # fmt: skip
    text = str(moving.headline(dataclasses.replace(run, scores=worse), dataset)[0])
    assert "none of the variance of the state" in text and "(R² \u22120.100)" in text
    assert "explains none of the variance" in text and "%" not in text
    evals = [{**line, "agent_1/rankme": 1.0} for line in run.evals]
    shown = "".join(moving.headline(dataclasses.replace(run, evals=evals), dataset))
    assert "But agent 1 collapsed, and R² with collapsed latents is void." in shown


def test_latents_of_one_dimension_have_no_plane(workdir, world):
    for path in (workdir / "latents").glob("*.npz"):
        with np.load(path) as arrays:
            narrow = {**arrays, "latents": arrays["latents"][:, :1]}
        np.savez(path, **narrow)
    text = write_run_report(workdir, *world).read_text()
    assert "one dimension" in text and not (workdir / "report_plane_before.png").exists()


def test_an_animation_loops_and_is_described():
    frames = [np.full((4, 6, 3), level, np.uint8) for level in (0, 100, 200)]
    shown = moving.animation(frames, "a <moving> thing", "caption & more")
    (encoded,) = re.findall(r'src="data:image/gif;base64,([^"]*)"', shown)
    film = Image.open(io.BytesIO(base64.b64decode(encoded)))
    assert (film.n_frames, film.size, film.info["loop"]) == (3, (6, 4), 0)
    for number, level in enumerate((0, 100, 200)):
        film.seek(number)
        assert np.abs(np.asarray(film.convert("RGB"), int) - level).max() <= 2
    assert 'alt="a &lt;moving&gt; thing"' in shown and "caption &amp; more" in shown
