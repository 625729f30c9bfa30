"""The page of a run read back: every number of a table or figure is that of its file.

alignment.json holds another number under every key of every row, so that a cell or a bar with the
number of a neighbour shows.
"""

# ruff: noqa: RUF001 (a true minus sign is meant)

import itertools
import json
import re
import shutil

import numpy as np
import pytest

from socialjepa_jax.config import Alignment
from socialjepa_jax.report.run.page import write_run_report
from tests.evaluation import oracle
from tests.report import reading
from tests.report.reading import shown

CAMERAS = (0, 1, 0)
SPLITS = {"instance": "Held-out objects", "state": "Held-out states"}
TESTED = {"instance": 60.0, "state": 71.0}
LABELS = {
    "trained": "trained", "same_camera": "same camera (ceiling)",
    "untrained": "untrained, other init", "untrained_same_init": "untrained, same init",
    "pixel_pca": "pixel PCA", "shared_factors": "shared factors",
    "mismatched_cell": "shuffled within cell", "mismatched": "shuffled",
    "partialled": "factors removed", "untrained_partialled": "untrained, factors removed",
    "pixel_pca_partialled": "pixel PCA, factors removed",
}  # fmt: skip
CONTROLS = ("untrained", "untrained_same_init", "pixel_pca", "shared_factors", "mismatched_cell",
            "mismatched")  # fmt: skip
METRICS = {
    "R²": ("r2", 3), "MSE": ("mse", 3), "DSC": ("dsc", 3), "NOS@10": ("nos@10", 3),
    "CKA": ("cka_debiased", 3), "κ eff.": ("kappa_effective", 1), "rank": ("rank", 0),
}  # fmt: skip
HIGHER = {"R²": max, "MSE": min, "DSC": max, "NOS@10": min, "CKA": max}
PROBES = {"own probe": "probe_own", "carried over by W": "probe_transferred",
          "carried over without W": "probe_raw"}  # fmt: skip
BACKS = {
    "inverse": "inverse of W (eq. 5, the paper's)",
    "regression": "reverse regression",
    "none": "no map",
    "forward": "forward, W x against y",
}
WAYS = ("inverse", "none", "forward", "regression")  # in the order of the file
KS = (1, 5, 10, 20, 50)
KEYS = ("r2", "mse", "mse_sum", "mse_raw", "r2_uniform", "r2_raw", "dsc", "cka", "cka_debiased",
        "procrustes_error", "orthogonality", "kappa", "kappa_effective", "rank", "effective_rank",
        "rankme", "shared_dims", "probe_own", "probe_transferred", "probe_regression",
        "probe_raw", *(f"{name}@{k}" for name in ("nos", "nos_expected") for k in KS))  # fmt: skip


def make_rows():
    """Rows of all pairs, splits and ways back, every metric a number of its own."""
    rng = np.random.default_rng(0)
    rows = []
    for (i, j), split in itertools.product(((0, 1), (0, 2), (1, 2)), SPLITS):
        same = CAMERAS[i] == CAMERAS[j]
        for row in ("same_camera",) if same else (name for name in LABELS if name != "same_camera"):
            keys = ("r2",) if row == "shared_factors" else KEYS
            common = {"x": f"agent_{i}", "y": f"agent_{j}", "row": row, "split": split}
            common |= {"method": "ridge", "seed": 0}
            for back in WAYS if row == "trained" else WAYS[:1]:
                metrics = {key: float(value) for key, value in zip(keys, rng.random(len(keys)))}
                metrics |= {"n_train": 200.0, "n_test": TESTED[split]}
                metrics |= {"rank": float(rng.integers(1, 90))} if "rank" in keys else {}
                rows.append({**common, "back": back, "metrics": metrics})
    return rows


ROWS = make_rows()


def numbers(row, split, key, back=None):
    """The metric of every pair, of one way back or of the first in the file."""
    first = {}
    for found in ROWS:
        if (found["row"], found["split"]) == (row, split) and back in (None, found["back"]):
            first.setdefault((found["x"], found["y"]), found["metrics"].get(key))
    return [value for value in first.values() if value is not None]


def cell(values, digits=3):
    """Text and small print of a cell: the mean of pairs, from the lowest to the highest."""
    if not values:
        return "\N{EN DASH}", ""
    texts = [shown(v, digits) for v in (np.mean(values), min(values), max(values))]
    return texts[0], "" if len(set(texts)) == 1 else f"[{texts[1]}, {texts[2]}]"


@pytest.fixture(scope="module")
def written(finished_run, dataset, tmp_path_factory):
    """The page, its figures by name, and its folder."""
    folder = shutil.copytree(finished_run, tmp_path_factory.mktemp("readback") / "run")
    (folder / "alignment.json").write_text(json.dumps({"schema": 1, "rows": ROWS}))
    with pytest.MonkeyPatch.context() as patch:
        figures = reading.watched(patch)
        text = write_run_report(folder, dataset).read_text()
    return reading.Page(text), figures, folder


@pytest.mark.parametrize("split", SPLITS)
def test_every_cell_of_the_metrics(written, split):
    table = written[0].named(SPLITS[split] + ".")
    assert list(table.cells) == [*LABELS.values(), "paper"]
    assert table.columns[1:] == list(METRICS)
    for row, label in LABELS.items():
        for column, (key, digits) in METRICS.items():
            found = table.cells[label][column]
            assert (found.text, found.small) == cell(numbers(row, split, key), digits), (row, key)
    assert f" {TESTED[split]:.0f} test pairs." in table.caption


@pytest.mark.parametrize("split", SPLITS)
def test_the_best_of_trained_and_controls_is_bold(written, split):
    table = written[0].named(SPLITS[split] + ".")
    for column, best in HIGHER.items():
        key, _ = METRICS[column]
        ranked = {
            row: round(np.mean(values), 3)
            for row in ("trained", *CONTROLS)
            if (values := numbers(row, split, key))
        }
        expected = {LABELS[row] for row in ranked if ranked[row] == best(ranked.values())}
        assert {label for label, row in table.cells.items() if row[column].bold} == expected


@pytest.mark.parametrize("split", SPLITS)
def test_every_cell_of_the_probes(written, split):
    table = written[0].named(SPLITS[split] + ":")
    rows = [row for row in LABELS if row != "shared_factors"]
    assert list(table.cells) == [LABELS[row] for row in rows]
    for row in rows:
        for column, key in PROBES.items():
            found = table.cells[LABELS[row]][column]
            assert (found.text, found.small) == cell(numbers(row, split, key)), (row, key)


@pytest.mark.parametrize("split", SPLITS)
def test_ways_back_in_the_table_and_in_the_bars(written, split):
    page, figures, _ = written
    table = page.named(f"{SPLITS[split]}, trained")
    assert list(table.cells) == list(BACKS.values())
    (axes,) = figures[f"back_{split}"].axes
    bars = {group.get_label(): [bar.get_height() for bar in group] for group in axes.containers}
    places = [group.patches[0].get_x() for group in axes.containers]
    assert list(bars) == list(BACKS.values()) and places == sorted(places)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["DSC", "1 − NOS@10", "CKA"]
    for back, label in BACKS.items():
        values = {
            c: numbers("trained", split, METRICS[c][0], back) for c in ("DSC", "NOS@10", "CKA")
        }
        for column, found in table.cells[label].items():
            assert (found.text, found.small) == cell(values[column]), (back, column)
        dsc, nos, cka = (np.mean(v) for v in values.values())
        np.testing.assert_allclose(bars[label], [dsc, 1 - nos, cka])
    assert len({patch.get_facecolor() for patch in axes.patches}) == len(BACKS)


@pytest.mark.parametrize("split", SPLITS)
def test_neighbourhoods_are_drawn_from_their_rows(written, split):
    found = reading.curves(written[1][f"nos_{split}"])
    for row in ("trained", "untrained", "pixel_pca", "mismatched"):
        expected = [np.mean(numbers(row, split, f"nos@{k}")) for k in KS]
        np.testing.assert_allclose(found[LABELS[row]], [KS, expected])
    count = TESTED[split]
    chance = f"chance, 1 − k/(N−1), N = {count:.0f}"
    np.testing.assert_allclose(found[chance][1], 1 - np.array(KS) / (count - 1))


@pytest.mark.parametrize("split", SPLITS)
def test_r2_over_training_and_the_levels_of_its_controls(written, split):
    _, figures, folder = written
    found = reading.curves(figures[f"r2_{split}"])
    for row in CONTROLS:
        value = np.mean(numbers(row, split, "r2"))
        np.testing.assert_allclose(found[f"{LABELS[row]}: {shown(value, 2)}"][1], value)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line["kind"] == "eval"]
    for row, pairs in (("trained", ("0_1", "1_2")), ("same_camera", ("0_2",))):
        means = [np.mean([line[f"pair_{p}/{split}/r2"] for p in pairs]) for line in lines]
        steps = [line["step"] for line in lines]
        np.testing.assert_allclose(found[f"{LABELS[row]}: {shown(means[-1], 2)}"], [steps, means])
    (axes,) = figures[f"r2_{split}"].axes
    assert axes.get_title(loc="left") == SPLITS[split]


def test_training_curves_and_collapse_are_those_of_the_log(written):
    page, figures, folder = written
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["kind"] == "eval"][-1]
    first = next(line for line in lines if line["kind"] == "eval")
    table = page.named("agent")
    for k, camera in enumerate(CAMERAS):
        name = f"agent {k} (camera {camera})"
        for key in ("loss", "rankme", "feature_std"):
            points = [(x["step"], x[f"agent_{k}/{key}"]) for x in lines if f"agent_{k}/{key}" in x]
            np.testing.assert_array_equal(reading.curves(figures[key])[name], np.transpose(points))
        assert {column: found.text for column, found in table.cells[name].items()} == {
            "RankMe": shown(last[f"agent_{k}/rankme"], 1),
            "of D": "32",
            "feature std": shown(last[f"agent_{k}/feature_std"]),
            "at the start": shown(first[f"agent_{k}/feature_std"]),
            "latent norm": shown(last[f"agent_{k}/latent_norm"], 2),
            "verdict": "healthy",
        }


@pytest.mark.parametrize("split", SPLITS)
def test_the_headline_is_the_first_row(written, split):
    page, name = written[0], SPLITS[split].lower()
    value = np.mean(numbers("trained", split, "r2"))
    means = {row: np.mean(numbers(row, split, "r2")) for row in CONTROLS}
    best = max(means, key=means.get)
    assert page.tiles[f"R² trained, {name}"] == shown(value)
    assert page.tiles[f"best control: {LABELS[best]}"] == shown(means[best])
    sentence = re.search(f"On {name}, one matrix W explains .*?\\.(?= )", page.text)[0]
    assert f"explains {value:.0%} of the variance" in sentence
    assert f"(R² {shown(value)}); the best control ({LABELS[best]}) reaches" in sentence
    adds = "training adds nothing" if value < means[best] else "training adds"
    assert adds in sentence


def fitted(dataset, folder, split):
    """Maps of agent 0 to agent 1 by the oracle: forward matrix, held-out x and y, training rows."""
    z = [np.load(folder / "latents" / f"agent_{k}.npz")["latents"].astype(float) for k in (0, 1)]
    flags = {"instance": dataset.split_instance, "state": dataset.split_state}[split]
    train, test = np.flatnonzero(flags == 0), np.flatnonzero(flags == 1)
    x, y = (oracle.Standard.of(space[train]) for space in z)
    forward = oracle.solve(x(z[0][train]), y(z[1][train]), Alignment(ridge=1.0))
    return forward, x(z[0][test]), y(z[1][test]), train, test


def test_the_spectrum_is_that_of_the_map_of_training_rows(written, dataset):
    page, figures, folder = written
    for split, name in SPLITS.items():
        forward, *_, train, _ = fitted(dataset, folder, split)
        s = np.linalg.svd(forward, compute_uv=False)
        label = f"W fitted for {name.lower()}"
        found = reading.curves(figures["spectrum"])[label]
        np.testing.assert_allclose(found, [np.arange(1, 33), s], rtol=1e-6)
        row = {column: c.text for column, c in page.named("map").cells[label].items()}
        apart = np.linalg.norm(forward @ forward.T - np.eye(32)) / np.sqrt(32)
        assert row["training pairs"] == str(len(train)) and row["rank"] == "32 of 32"
        assert row["κ eff."] == row["κ(W)"] == shown(s[0] / s[-1], 1)
        assert row["‖WᵀW − I‖/‖I‖"] == shown(apart, 2)


def test_planes_and_neighbours_go_from_agent_0_to_agent_1(written, dataset):
    page, figures, folder = written
    forward, x, y, _, test = fitted(dataset, folder, "instance")
    axes = np.linalg.svd(y - y.mean(axis=0), full_matrices=False)[2][:2].T
    gaps = [np.linalg.norm((z - y) @ axes, axis=1).mean() for z in (x, x @ forward)]
    assert f"over all pairs: {gaps[0]:.2f} before, {gaps[1]:.2f} after." in page.text
    for name, z in (("before", x), ("after", x @ forward)):
        (drawn,) = figures[f"plane_{name}"].axes
        for found, points in zip(drawn.collections[1:], (z @ axes, y @ axes)):
            distances = np.abs(np.abs(found.get_offsets())[:, None] - np.abs(points)[None]).sum(-1)
            assert distances.min(axis=1).max() < 1e-5  # signs of the axes are free
    far = np.linalg.norm((x @ forward)[:, None] - y[None], axis=2)
    ranks = (far <= np.diagonal(far)[:, None]).sum(axis=1)
    recall = ", ".join(
        f"{np.mean(ranks <= k):.1%} at {k} (chance {k / len(test):.1%})" for k in (1, 5, 10)
    )
    labels = dataset.labels[test]
    right = np.mean(labels[far.argmin(axis=1)] == labels)
    assert f"the true state is found {recall}; the nearest is of the right category" in page.text
    assert f"of the right category {right:.1%} of the time" in page.text
