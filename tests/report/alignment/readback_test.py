"""The pages of the alignment tool read back against alignment.json, and that against NumPy."""

# ruff: noqa: RUF001 (a true minus sign is meant)

import csv
import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from socialjepa_jax.alignment import LinearMap, permutation
from socialjepa_jax.alignment.migration.decision import decide
from socialjepa_jax.alignment.migration.queries import Queries
from socialjepa_jax.alignment.study import outputs
from socialjepa_jax.alignment.study.inputs import Spaces
from socialjepa_jax.alignment.study.settings import Settings
from socialjepa_jax.alignment.study.spaces import compare_spaces
from socialjepa_jax.alignment.study.study import run_study
from socialjepa_jax.collaboration import scoring
from socialjepa_jax.report.alignment.page import write_pair_page
from socialjepa_jax.report.alignment.spaces import write_spaces_page
from tests.alignment.migration.cases import unit
from tests.evaluation import oracle
from tests.report import reading
from tests.report.reading import shown

COLUMNS = {
    "R²": "r2",
    "R², raw": "r2_raw",
    "DSC": "dsc",
    "NOS@10": "nos@10",
    "CKA, debiased": "cka_debiased",
}
BACKS = {"none": "no map", "forward": "forward", "regression": "back by regression",
         "inverse": "back by the inverse"}  # fmt: skip
SEARCHES = {"x -> y, forward": "x → y, forward", "y -> x, regression": "y → x, regression",
            "y -> x, inverse": "y → x, inverse"}  # fmt: skip
PROBES = {
    "own": "x, its own probe (before)",
    "raw": "y, the probe of x as it is",
    "regression": "y, the probe of x carried by the reverse regression (after)",
    "inverse": "y, the probe of x carried by W⁻¹ (after)",
    "procrustes": "y, the probe of x carried by the rotation in W (after)",
    "oracle": "y, a probe trained on y (oracle)",
    "frequent": "always the most frequent class",
}
SIMILARITIES = {"r2_whitened": "whitened R²", "svcca": "SVCCA", "pwcca": "PWCCA",
                "shape_correlation": "shape", "mutual_knn@10": "mutual 10-NN",
                "cknna@10": "CKNNA@10"}  # fmt: skip
WAYS = {"x_in_x": "x in x", "y_in_y": "y in y", "naive": "y in x, as it is",
        "y_back_in_x": "y mapped back, in x", "x_forward_in_y": "x mapped, in y",
        "y_in_x_forward": "y in mapped x", "mixed": "y in a mixed index",
        "y_back_in_x_csls": "y mapped back, hubs rated lower",
        "chance": "chance", "shuffled": "shuffled pairs"}  # fmt: skip
HOW = SimpleNamespace(
    method="ridge", ridge=5.0, kappa_max=1e6, neighbors=(1, 5, 10, 20, 50), probe_ridge=1.0
)
SETTINGS = Settings(ridge=5.0, test_fraction=0.3, permutations=9, resamples=20, seed=3)


def make_spaces(widths):
    """Spaces that share 3 of their dimensions, with scales and offsets of their own."""
    rng = np.random.default_rng(0)
    groups = np.arange(180) // 2
    labels = rng.integers(0, 3, 90)[groups]
    hidden = rng.normal(size=(3, 3))[labels] + rng.normal(size=(180, 3))
    latents = tuple(
        (hidden @ rng.normal(size=(3, width)) + rng.normal(size=(180, width)))
        * rng.uniform(0.1, 9, width)
        + 20
        for width in widths
    )
    names, layers = tuple("ABC"[: len(widths)]), tuple({"": z} for z in latents)
    items = np.array([f"item {n}" for n in range(180)])
    return Spaces(names, latents, items, groups, labels, None, layers)


def queries_of(spaces):
    """Queries near every seventh document, far enough to miss it at times."""
    rng, rows = np.random.default_rng(7), np.arange(0, 180, 7)
    near = [z[rows] + 0.7 * z.std(axis=0) * rng.normal(size=(len(rows), z.shape[1]))
            for z in spaces.latents]  # fmt: skip
    return Queries(*near, rows[:, None])


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A page, its figures, its alignment.json, the study, the spaces and the folder."""
    folder, spaces = tmp_path_factory.mktemp("pair"), make_spaces((6, 6))
    study = run_study(*spaces.latents, SETTINGS, groups=spaces.groups, queries=queries_of(spaces))
    kinds = ("logistic", "ridge")  # invented, since accuracies of few rows are often equal
    probes = {name: {kind: 0.1 * i + 0.03 * k for k, kind in enumerate(kinds)}
              for i, name in enumerate(PROBES)}  # fmt: skip
    decision = decide(study, probes)
    outputs.write_pair(folder, study, spaces, probes, decision)
    with pytest.MonkeyPatch.context() as patch:
        figures = reading.watched(patch)
        write_pair_page(folder / "report.html", study, spaces, probes, decision, umap=False)
    page = reading.Page((folder / "report.html").read_text())
    document = json.loads((folder / "alignment.json").read_text())
    return SimpleNamespace(
        page=page, figures=figures, document=document, study=study, spaces=spaces, folder=folder
    )


def test_the_saved_map_may_be_that_of_all_pairs(pair, tmp_path):
    settings = dataclasses.replace(pair.study.settings, all_pairs=True)
    study = dataclasses.replace(pair.study, settings=settings)
    outputs.write_pair(tmp_path, study, pair.spaces, {}, decide(study, {}))
    part, whole = (LinearMap.load(folder / "map.npz") for folder in (pair.folder, tmp_path))
    x, y = (oracle.Standard.of(z)(z) for z in pair.spaces.latents)
    np.testing.assert_allclose(whole.w, oracle.solve(x, y, HOW).T, rtol=1e-6)
    assert whole.n_train == 180 > part.n_train == study.linear_map.n_train
    document = json.loads((tmp_path / "alignment.json").read_text())
    assert document["rows"] == pair.document["rows"] and document["settings"]["all_pairs"]


def row_of(document, row, back):
    (found,) = (r for r in document["rows"] if (r["row"], r["back"]) == (row, back))
    return found


def printed(cell):
    return cell.text, cell.small


def expected(value, bounds=None, digits=3):
    texts = [shown(v, digits) for v in (value, *(bounds or ()))]
    return texts[0], f"[{texts[1]}, {texts[2]}]" if len(set(texts)) > 1 else ""


def test_the_numbers_of_the_file_are_those_of_numpy(pair):
    """The map is fitted on the training rows and measured on the others."""
    split, (x, y) = pair.study.split, pair.spaces.latents
    assert not set(pair.spaces.groups[split.train]) & set(pair.spaces.groups[split.test])
    rows = split.train, split.test
    found = oracle.measure(HOW, x, y, pair.spaces.labels, 3, *rows, oracle.BACKS)
    for back, metrics in found.items():
        row = row_of(pair.document, "given", back)["metrics"]
        for key in metrics.keys() & row.keys():
            np.testing.assert_allclose(row[key], metrics[key], rtol=1e-6, atol=1e-9, err_msg=key)
        assert row.keys() - {"dsc_bound"} <= metrics.keys()


def test_common_spaces(pair):
    table = pair.page.named("Small print")
    chance = 1 - 10 / (pair.study.num_test - 1)
    for back, label in BACKS.items():
        row, cells = row_of(pair.document, "given", back), table.cells[label]
        for column, key in COLUMNS.items():
            if key in ("r2", "r2_raw") and back != "forward":
                assert cells[column].text == "–"
                continue
            text = expected(row["metrics"][key], row["intervals"].get(key))
            assert printed(cells[column]) == text, (back, key)
        assert cells["… / chance"].text == shown(row["metrics"]["nos@10"] / chance)
    relative = table.cells["relative representations"]
    for key in ("dsc", "nos@10", "cka_debiased"):
        column = next(name for name, k in COLUMNS.items() if k == key)
        assert relative[column].text == shown(pair.document["relative"][key])


def test_shuffled_pairs(pair):
    refitted = pair.page.named("Small print").cells["shuffled pairs"]
    table = pair.page.named("Mean and range over permutations")
    null = pair.document["null"]

    def cell(key):
        return expected(null[key]["mean"], (null[key]["low"], null[key]["high"]))

    assert printed(refitted["R²"]) == cell("r2")
    for back, label in BACKS.items():
        for column, key in list(COLUMNS.items())[2:]:
            assert printed(table.cells[label][column]) == cell(f"{back}/{key}")
    assert table.cells["forward"]["DSC"] == refitted["DSC"]


def test_every_fit_on_shuffled_pairs_is_a_fit(pair):
    """The order of the pairs is the package's own; what is fitted and measured is NumPy's."""
    split, groups, (x, y) = pair.study.split, pair.spaces.groups, pair.spaces.latents
    parts, rng = (split.train_sample, split.resampled), np.random.default_rng(SETTINGS.seed)
    fit, held = (np.arange(len(rows)) + i * len(parts[0]) for i, rows in enumerate(parts))
    for value in pair.study.null.samples["r2"]:
        order = [rows[permutation.permute(len(rows), rng, groups[rows])] for rows in parts]
        spaces = x[np.concatenate(parts)], y[np.concatenate(order)]
        labels = pair.spaces.labels[np.concatenate(parts)]
        found = oracle.measure(HOW, *spaces, labels, 3, fit, held, ("none",))["none"]
        assert value == pytest.approx(found["r2"], rel=1e-6)


def test_similarities_and_their_p_values(pair):
    table = pair.page.named("Similarity without any map")
    null = pair.study.null
    assert list(table.cells) == list(SIMILARITIES.values())
    for key, label in SIMILARITIES.items():
        cells, entry = table.cells[label], pair.document["null"][key]
        p = (1 + sum(v >= pair.document["similarity"][key] for v in null.samples[key])) / 10
        assert cells["value"].text == shown(pair.document["similarity"][key])
        assert printed(cells["shuffled"]) == expected(entry["mean"], (entry["low"], entry["high"]))
        assert cells["p"].text == shown(p)
        assert null.p_value(key, larger=False) != p  # the other tail would show


def test_other_maps(pair):
    (table,) = (t for t in pair.page.tables if t.caption.startswith("Other ways"))
    entries = pair.document["references"]
    (first, *_) = entries.values()
    for name, entry in entries.items():
        cells = table.cells[name]
        interval = entry["interval"]["low"], entry["interval"]["high"]
        assert printed(cells["R²"]) == expected(entry["r2"], interval)
        if entry is not first:
            apart = entry["difference"]["low"], entry["difference"]["high"]
            found = expected(entry["r2"] - first["r2"], apart)
            assert printed(cells["less this map"]) == found


def test_documents_that_find_themselves(pair):
    """By cosine in raw units, which NumPy computes again."""
    table = pair.page.named("documents")
    (x, y), rows = pair.spaces.latents, pair.study.split.test
    linear_map = pair.study.linear_map
    forward = (x - linear_map.x_mean) / linear_map.x_scale @ linear_map.w.T
    forward = forward * linear_map.y_scale + linear_map.y_mean
    cosines = unit(forward[rows]) @ unit(y[rows]).T
    first = pair.document["self_retrieval"]["x -> y, forward"]["recall@1"]
    assert first == np.mean(cosines.argmax(axis=1) == np.arange(len(rows)))
    for name, label in SEARCHES.items():
        entry = pair.document["self_retrieval"][name]
        for column, key in (("recall@1", "recall@1"), ("recall@10", "recall@10"), ("MRR", "mrr")):
            found = printed(table.cells[label][column])
            assert found == expected(entry[key], entry["intervals"][key]), (name, key)
        assert table.cells[label]["median rank"].text == shown(entry["median_rank"], 1)


def test_neighbours_in_common_with_the_native_index(pair):
    (x, y), rows = pair.spaces.latents, pair.study.split.resampled
    back = pair.study.linear_map.backward(y[rows], "regression")

    def near(a, b):
        cosines = unit(a) @ unit(b).T - 9 * np.eye(len(a))
        return [set(row[:10]) for row in np.argsort(-cosines, axis=1)]

    native = near(y[rows], y[rows])
    shares = [len(a & b) / 10 for a, b in zip(near(back, x[rows]), native)]
    found = pair.document["overlap@10"]["y_back_in_x"]
    assert found["value"] == pytest.approx(np.mean(shares))
    assert found["interval"]["low"] < found["value"] < found["interval"]["high"]
    text = f"{found['value']:.2f} (items of y mapped back into x)"
    assert text in pair.page.named("documents").caption


def test_queries(pair):
    table = pair.page.named("queries")
    entries = {entry["name"]: entry for entry in pair.document["retrieval"]}
    assert list(entries) == list(WAYS) and list(table.cells) == list(WAYS.values())
    columns = {"recall@1": "recall@1", "recall@10": "recall@10", "MRR": "mrr", "nDCG@10": "ndcg@10"}
    for name, label in WAYS.items():
        entry, cells = entries[name], table.cells[label]
        for column, key in columns.items():
            assert printed(cells[column]) == expected(entry[key], entry["intervals"].get(key)), key
        bounds = None if entry["low"] is None else (entry["low"], entry["high"])
        assert printed(cells["retention"]) == expected(entry["retention"], bounds)
        ratio = entry["recall@1"] / entries["y_in_y"]["recall@1"]
        assert entry["retention"] == pytest.approx(ratio)
    assert 0 < entries["y_back_in_x"]["recall@1"] < 1
    counts = pair.document["queries"]
    said = f"{counts['measured']:,} queries in an index of {counts['documents']:,} documents"
    assert said in table.caption and counts["measured"] == 26 and counts["documents"] == 180
    tiles = {
        "answered first by the old index, queries mapped back": "y_back_in_x",
        "answered first after full re-embedding": "y_in_y",
    }
    for tile, name in tiles.items():
        assert pair.page.tiles[tile] == f"{100 * entries[name]['recall@1']:.1f} %"


def test_predicted_retention(pair):
    found = pair.document["predicted_retention"]
    assert found["queries"] == 26 and found["low"] < found["value"] < found["high"]
    said = (
        f"carried to other documents: {found['value']:.2f} (90 % interval {found['low']:.2f} to "
        f"{found['high']:.2f})."
    )
    assert said in pair.page.named("queries").caption
    table = pair.page.named("made queries")
    curve = pair.document["retention_curve"]
    assert len(curve) > 3 and list(table.cells) == [f"{point['scale']:g}" for point in curve]
    for point, cells in zip(curve, table.cells.values()):
        assert cells["y in y"].text == shown(point["recall"])
        assert cells["retention"].text == shown(point["retention"])


def test_answers_of_queries_are_not_fitted(pair):
    answers = np.arange(0, 180, 7)
    assert not set(pair.spaces.groups[answers]) & set(pair.spaces.groups[pair.study.split.train])


def test_the_decision_is_that_of_the_file(pair):
    found = decide(pair.study, pair.document["probes"])
    assert pair.document["verdict"] == {
        "search": found.search, "bridge": found.bridge, "classifiers": found.classifiers,
        "pairs": found.pairs,
        "related": found.related, "warnings": list(found.warnings),
    }  # fmt: skip
    for warning in found.warnings:
        assert " ".join(warning.split()) in pair.page.text


def test_stored_copies(pair):
    table = pair.page.named("storage")
    for name, entry in pair.document["storage"].items():
        cells = table.cells[f"x {name}"]
        assert cells["recall@1"].text == shown(entry["recall@1"])
        assert cells["R², raw"].text == shown(entry["r2_raw"])


def test_probes(pair):
    table = pair.page.named("Labels:")
    assert list(table.cells) == list(PROBES.values())
    for name, label in PROBES.items():
        for kind in ("logistic", "ridge"):
            assert table.cells[label][kind].text == shown(pair.document["probes"][name][kind])


def test_tiles(pair):
    forward = row_of(pair.document, "given", "forward")["metrics"]
    tiles = pair.page.tiles
    assert tiles["R² on unseen pairs, features of equal weight"] == shown(forward["r2"], 2)
    assert tiles["R² on unseen pairs, raw units"] == shown(forward["r2_raw"], 2)
    assert tiles["DSC through W (distances, 1: alike)"] == shown(forward["dsc"], 2)
    number = shown(forward["kappa_effective"], 1)
    said = f"Condition number {number} over the {forward['rank']:.0f} directions that W⁻¹ keeps"
    assert said in pair.page.text


@pytest.mark.parametrize(
    ("name", "key", "corner"),
    [("pairs", "pair_budget", "Pairs fitted"), ("epsilon", "pair_noise", "Share of pairs")],
)
def test_curves_in_figures_and_numbers(pair, name, key, corner):
    rows, drawn = pair.document[key], reading.curves(pair.figures[name])
    table = pair.page.named(corner)
    values = sorted({row[name] for row in rows})
    for label, metric in (("R²", "r2"), ("DSC", "dsc"), ("NOS@10", "nos@10")):
        means = [np.mean([row[metric] for row in rows if row[name] == v]) for v in values]
        np.testing.assert_allclose(drawn[label], [values, means])
        column = [row[label].text for row in table.cells.values()]
        assert column == [shown(mean) for mean in means]


def test_groups_and_items(pair):
    (axes,) = pair.figures["groups"].axes
    named = dict(zip([t.get_text() for t in axes.get_yticklabels()], axes.get_yticks()))
    group_r2 = pair.document["group_r2"]
    heights = {bar.get_y() + bar.get_height() / 2: bar.get_width() for bar in axes.patches}
    assert len(named) == 16
    for name, place in named.items():
        drawn = min(heights, key=lambda y, place=place: abs(y - place))
        assert heights[drawn] == pytest.approx(max(-1.0, group_r2[name]))
    with (pair.folder / "items.csv").open() as file:
        items = {line["item"]: line for line in csv.DictReader(file)}
    for corner, order in (("Worst", list(items)), ("Best", list(items)[::-1])):
        table = pair.page.named(corner)
        assert list(table.cells) == order[:8]
        for name, cells in table.cells.items():
            line = items[name]
            assert cells["1 − cosine"].text == shown(float(line["cosine_distance"]))
            assert cells["rank when searched"].text == shown(
                float(line["rank: x -> y, forward"]), 0
            )
            for z in "xy":
                assert cells[f"novelty of {z}"].text == shown(float(line[f"novelty_{z}"]), 2)
    (x, y), row = pair.spaces.latents, int(next(iter(items.values()))["row"])
    mapped, squared = pair.study.linear_map.forward(x[[row]])[0], pair.study.squared_errors.max()
    cosine = mapped @ y[row] / np.linalg.norm(mapped) / np.linalg.norm(y[row])
    assert float(next(iter(items.values()))["cosine_distance"]) == pytest.approx(1 - cosine, 1e-4)
    assert max(float(line["squared_error"]) for line in items.values()) == pytest.approx(
        squared, 1e-4
    )


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """The same for three spaces."""
    folder, spaces = tmp_path_factory.mktemp("three"), make_spaces((4, 6, 5))
    settings = Settings(ridge=5.0, test_fraction=0.3, permutations=3, resamples=20)
    comparison = compare_spaces(spaces.latents, settings, groups=spaces.groups)
    probes = scoring.space_probes(comparison, spaces)
    outputs.write_spaces(folder, comparison, spaces, settings, probes)
    with pytest.MonkeyPatch.context() as patch:
        figures = reading.watched(patch)
        write_spaces_page(folder / "report.html", comparison, spaces, probes)
    page = reading.Page((folder / "report.html").read_text())
    return page, figures, json.loads((folder / "alignment.json").read_text()), comparison, spaces


def test_probes_are_fitted_on_training_rows_and_scored_on_the_others(pair, three):
    """By softmax regression of another library; within one row, which rounding may turn."""

    def fitted(z, rows, labels):
        standard = oracle.Standard.of(z[rows])
        model = LogisticRegression(C=1.0, tol=1e-8, max_iter=2000)
        model.fit(standard(z[rows]), labels[rows])
        return lambda raw: model.predict(standard(raw))

    found = scoring.probe_scores(pair.study, pair.spaces)
    split, labels = pair.study.split, pair.spaces.labels
    x, y = pair.spaces.latents
    for name, z, source in (("own", x, x), ("raw", y, x), ("oracle", y, y)):
        expected = np.mean(fitted(source, split.train, labels)(z[split.test]) == labels[split.test])
        near = pytest.approx(expected, abs=1.01 / len(split.test))
        assert found[name]["logistic"] == near, name
    document, comparison, spaces = three[2:]
    split, diagonal = comparison.split, np.diagonal(document["probes"])
    for z, value in zip(spaces.latents, diagonal, strict=True):
        right = fitted(z, split.train, labels)(z[split.test]) == labels[split.test]
        assert value == pytest.approx(np.mean(right), abs=1.01 / len(split.test))


def test_every_pair_of_spaces(three):
    page, _, document, *_ = three
    table = page.named("On held-out items")
    assert len(table.cells) == 6
    for row in document["rows"]:
        cells, metrics = table.cells[f"{row['x']} → {row['y']}"], row["metrics"]
        assert printed(cells["R²"]) == expected(metrics["r2"], row["intervals"]["r2"])
        assert cells["shuffled, at most"].text == shown(row["null_r2_max"])
        assert cells["through the hub"].text == shown(row["hub_r2"])
        assert cells["DSC"].text == shown(metrics["dsc"])
        assert cells["condition number"].text == shown(metrics["kappa_effective"], 1)


def test_heat_maps_of_spaces(three):
    _, figures, document, *_ = three
    names = document["names"]
    direct, hub = np.eye(3), np.eye(3)
    for row in document["rows"]:
        place = names.index(row["x"]), names.index(row["y"])
        direct[place], hub[place] = row["metrics"]["r2"], row["hub_r2"]
    drawn = {
        "r2": direct,
        "hub": hub,
        "cka": document["cka_debiased"],
        "labels": document["probes"],
    }
    for name, values in drawn.items():
        (axes,) = figures[name].axes
        (image,) = axes.images
        np.testing.assert_allclose(image.get_array(), values, err_msg=name)
        assert [t.get_text() for t in axes.get_yticklabels()] == names
        assert [t.get_text() for t in axes.get_xticklabels()] == names
        texts = {(t.get_position()[1], t.get_position()[0]): t.get_text() for t in axes.texts}
        for place, value in np.ndenumerate(np.asarray(values)):
            assert texts[place] == shown(round(value, 2) + 0.0, 2)


def test_metrics_of_spaces_are_those_of_numpy(three):
    *_, document, comparison, spaces = three
    names, rows = document["names"], (comparison.split.train, comparison.split.test)
    for row in document["rows"]:
        x, y = (spaces.latents[names.index(row[side])] for side in ("x", "y"))
        found = oracle.measure(HOW, x, y, spaces.labels, 3, *rows, ("forward",))["forward"]
        for key in found.keys() & row["metrics"].keys():
            np.testing.assert_allclose(row["metrics"][key], found[key], rtol=1e-6, err_msg=key)
