"""The alignment tool on files: its outputs, and its refusals of bad input."""

import csv
import importlib
import json
import re
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from absl import flags
from safetensors.numpy import load_file, save_file

from socialjepa_jax import alignment
from socialjepa_jax.align import define_flags, main
from socialjepa_jax.errors import GateClosed, InputError
from socialjepa_jax.running import launch
from tests.commands import Command
from tests.report import reading

ROWS = 90
QUICK = ["--permutations=2", "--resamples=40", "--noumap"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files that belong together, of every kind."""
    path = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 3)).astype(np.float32)
    y = (x @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(ROWS, 4))).astype(np.float32)
    order = rng.permutation(ROWS)
    for name, array in {
        "x": x,
        "y": y,
        "shuffled": y[order],
        "unrelated": rng.normal(size=(ROWS, 4)).astype(np.float32),
        "ids_x": np.arange(ROWS),
        "ids_y": order,
        "labels": (x[:, 0] > 0).astype(int),
        "groups": np.arange(ROWS) // 3,
        "x\udcff": x,  # a name that is no UTF-8
        "most_ids": np.append(np.arange(ROWS - 1), 1000),
        "formulas": np.array([f"={i}" for i in range(ROWS)]),
        "other_formulas": np.array([f"={i + 10}" for i in range(ROWS)]),
    }.items():
        np.save(path / f"{name}.npy", array)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(y[order].ravel()), 4)
    factors = {"light": order % 2, "pose": order % 3}
    table = {"name": [f"item {i}" for i in order], "embedding": lists, **factors}
    pq.write_table(pa.table(table), path / "y.parquet")
    names = pa.table({"name": [f"item {i}" for i in range(ROWS)]})
    pq.write_table(names, path / "names.parquet")
    np.savez(path / "layers.npz", first=x, last=2 * x + 1, labels=np.arange(ROWS) % 3)
    save_file({"block": y, "head": y[:, :2].copy()}, path / "layers.safetensors")
    return path


@pytest.fixture
def run(folder, tmp_path, monkeypatch, capsys):
    """Runs the tool in this process; returns what it said on stdout. Bad input raises."""
    monkeypatch.chdir(folder)

    def go(*arguments):
        values = flags.FlagValues()
        define_flags(values)
        values(["align", f"--out={tmp_path / 'out'}", *QUICK, *arguments])
        main(values)
        return capsys.readouterr().out

    return go


def rows_of(out):
    return json.loads((out / "alignment.json").read_text())["rows"]


def test_a_pair_of_files_becomes_a_report_and_a_map(run, folder, tmp_path):
    out = tmp_path / "out"
    arguments = ["--x=x.npy", "--y=shuffled.npy", "--ids_x=ids_x.npy", "--ids_y=ids_y.npy"]
    arguments += ["--labels=labels.npy", "--groups=groups.npy"]
    mixed = "groups hold several classes, so the split is not stratified by label"
    said = run(*arguments).splitlines()
    assert said[0] == mixed and said[-1] == f"Report: {out / 'report.html'}"
    given = {row["back"]: row for row in rows_of(out) if row["row"] == "given"}
    shuffled = {row["back"]: row for row in rows_of(out) if row["row"] == "mismatched"}
    assert set(given) == set(shuffled) == {"inverse", "regression", "none", "forward"}
    metrics, intervals = given["forward"]["metrics"], given["forward"]["intervals"]
    assert metrics["r2"] > 0.8 > 0.5 > shuffled["forward"]["metrics"]["r2"]
    for key in ("r2", "dsc", "nos@10", "cka_debiased"):
        assert intervals[key][0] <= metrics[key] <= intervals[key][1], key
    linear_map = alignment.LinearMap.load(out / "map.npz")
    x, y = (np.load(folder / f"{name}.npy") for name in ("x", "y"))
    assert alignment.r2(linear_map, x, y) > 0.8
    page = (out / "report.html").read_text()
    for words in (
        "A linear map carries x over to shuffled",
        "oracle",
        "held-out groups, each about",
        "NOS@10",
        f"{mixed}.",
    ):
        assert words in page
    with (out / "items.csv").open() as file:
        items = list(csv.DictReader(file))
    errors = [float(item["cosine_distance"]) for item in items]
    assert errors == sorted(errors, reverse=True)
    assert len(items) == metrics["n_test"]
    with pytest.raises(InputError, match="already holds a report; give --overwrite"):
        run(*arguments)
    run(*arguments, "--overwrite")
    assert not list(out.glob(".part*"))


@pytest.mark.nightly
def test_the_saved_map_can_be_that_of_all_pairs_and_what_is_measured_stays(run, folder, tmp_path):
    out, given = tmp_path / "out", ["--x=x.npy", "--y=y.npy"]
    run(*given)
    measured = rows_of(out)
    held_out = ROWS - alignment.LinearMap.load(out / "map.npz").n_train
    assert held_out > 0 and "of the fitted pairs" in (out / "report.html").read_text()
    run(*given, "--all_pairs", "--overwrite")
    assert rows_of(out) == measured
    assert "of all pairs, the held-out ones too" in (out / "report.html").read_text()
    x, y = (np.load(folder / f"{name}.npy") for name in ("x", "y"))
    ridge = json.loads((out / "alignment.json").read_text())["settings"]["ridge"]
    expected, saved = alignment.fit(x, y, ridge=ridge), alignment.LinearMap.load(out / "map.npz")
    assert saved.n_train == ROWS
    np.testing.assert_array_equal(saved.w, expected.w)
    forward = load_file(out / "map.safetensors")["forward.weight"]
    np.testing.assert_allclose(forward.T, expected.affine()[0], rtol=1e-6)


@pytest.mark.nightly
def test_columns_of_a_parquet_file_pair_and_stratify(run, tmp_path):
    arguments = ["--x=y.parquet", "--y=x.npy", "--ids_key=name", "--ids_x=y.parquet"]
    arguments += ["--ids_y=names.parquet", "--strata=y.parquet", "--strata_key=light,pose"]
    run(*arguments, "--labels=y.parquet", "--labels_key=pose")
    found = json.loads((tmp_path / "out" / "alignment.json").read_text())
    assert found["rows"][0]["metrics"]["r2"] > 0.5
    assert set(found["probes"]) >= {"own", "inverse", "regression", "oracle"}
    assert set(found["probes"]["own"]) == {"logistic", "ridge"}


@pytest.mark.nightly
def test_files_with_several_arrays_get_a_heat_map_of_layers(run, tmp_path):
    with pytest.raises(InputError, match="there is no 'last'; it holds block, head"):
        run("--x=layers.npz", "--y=layers.safetensors", "--key=last")
    run("--x=layers.npz", "--y=y.npy", "--key=last", "--labels=layers.npz")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Layer by layer" in page
    assert (tmp_path / "out" / "report_layers.png").exists()


def test_queries_and_gates(run, folder, tmp_path):
    """The exit code of a gate; the results are there all the same."""
    pair = ["--x=x.npy", "--y=y.npy", "--overwrite", "--similarity=l2"]
    queries = ["--queries_x=x.npy", "--queries_y=y.npy", "--answers=ids_x.npy"]
    run(*pair, *queries, "--gate=search", "--labels=labels.npy")  # the queries are the documents
    found = json.loads((tmp_path / "out" / "alignment.json").read_text())
    assert found["verdict"]["search"] == "keep"
    assert found["queries"]["measured"] + found["queries"]["left_out"] == ROWS
    assert {entry["name"] for entry in found["retrieval"]} >= {"x_in_x", "y_in_y", "mixed"}
    with pytest.raises(GateClosed, match="--gate=search: measure with queries"):
        run(*pair, "--gate=search")
    assert (tmp_path / "out" / "report.html").exists()
    assert launch.exit_status(GateClosed("no")) == (4, "stopped: no")


@pytest.mark.nightly
def test_without_null_and_intervals_the_page_has_neither(run, tmp_path):
    """Nor measures that 11 held-out items determine: 10 of the 10 others are near."""
    nothing = ["--permutations=0", "--resamples=0", "--test_fraction=0.12"]
    run("--x=x.npy", "--y=y.npy", *nothing, "--labels=labels.npy")
    found = json.loads((tmp_path / "out" / "alignment.json").read_text())
    assert found["verdict"]["related"] == "not tested"
    assert {row["row"] for row in found["rows"]} == {"given"} and found["null"] == {}
    assert found["rows"][0]["intervals"]["r2"] == [None, None]
    page = reading.Page((tmp_path / "out" / "report.html").read_text()).text
    assert "shuffled pairs were not tried" in page and "n/a" not in page and "nan" not in page
    assert found["rows"][0]["metrics"]["n_test"] == 11
    assert not any("@10" in key for row in found["rows"] for key in row["metrics"])
    assert found["without_news"] == {"mutual_knn@10": 1.0}
    assert found["similarity"].keys() >= {"svcca", "cknna@10"} - found["without_news"].keys()
    assert "mutual_knn@10" not in found["similarity"]
    assert "with so few items: mutual 10-NN, NOS@10." in page


@pytest.mark.nightly
def test_two_columns_of_one_file(run, folder, tmp_path):
    x, y = (np.load(folder / f"{name}.npy") for name in "xy")
    pq.write_table(pa.table({"old": list(x), "new": list(y)}), folder / "both.parquet")
    both = ["--x=both.parquet", "--y=both.parquet"]
    run(*both, "--key_x=old", "--key_y=new", "--ridge=1")
    found = json.loads((tmp_path / "out" / "alignment.json").read_text())
    assert found["rows"][0]["metrics"]["r2"] > 0.8
    said = run(*both, "--key=new", "--overwrite")
    assert "both (1) and both (2) hold the same embeddings\n" in said


@pytest.mark.nightly
def test_text_files_and_quantised_embeddings(run, folder, tmp_path):
    """Paired by the ids beside them; queries, answers and labels are columns of them too."""
    x, y = (np.load(folder / f"{name}.npy").astype(float) for name in "xy")
    with (folder / "x.csv").open("w", newline="") as file:
        head = ["id", "x_0", "x_1", "x_2", "class"]
        rows = ([f"a{i}", *z.tolist(), z[0] > 0] for i, z in enumerate(x))
        csv.writer(file).writerows([head, *rows])
    whole = np.round(20 * y).astype(int).tolist()
    lines = [json.dumps({"id": f"a{i}", "z": z}) for i, z in enumerate(whole)]
    (folder / "y.jsonl").write_text("\n".join(reversed(lines)))
    ids = ["--ids_x=x.csv", "--ids_y=y.jsonl", "--ids_key=id"]
    queries = ["--queries_x=x.csv", "--answers=x.csv", "--answers_key=id"]
    labels = ["--labels=x.csv", "--labels_key=class"]
    run("--x=x.csv", "--y=y.jsonl", "--ridge=1", *ids, *queries, *labels)
    found = json.loads((tmp_path / "out" / "alignment.json").read_text())
    assert found["rows"][0]["metrics"]["r2"] > 0.8 and found["probes"]
    assert found["queries"]["measured"] + found["queries"]["left_out"] == ROWS


@pytest.mark.nightly
def test_unrelated_and_mismatched_spaces_are_called_so(run, tmp_path):
    for y in ("unrelated.npy", "shuffled.npy"):
        run("--x=x.npy", f"--y={y}", "--overwrite")
        page = (tmp_path / "out" / "report.html").read_text()
        assert "No linear relation" in page or "at most a weak linear relation" in page
        assert "pair them by ids" in page


@pytest.mark.nightly
def test_identical_spaces_are_called_so(run, tmp_path):
    run("--x=x.npy", "--y=x.npy", "--method=procrustes")
    metrics = {row["back"]: row["metrics"] for row in rows_of(tmp_path / "out")[:4]}
    for found in metrics.values():
        np.testing.assert_allclose([found["r2"], found["dsc"], found["cka"]], 1, rtol=1e-9)
        assert found["nos@10"] == 0
    assert (
        "x (1) and x (2) hold the same embeddings."
        in (tmp_path / "out" / "report.html").read_text()
    )


def test_three_spaces_become_heat_maps_and_a_hub(run, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    spaces = "--spaces=~/x.npy,y.npy,~/shuffled.npy"
    said = run(spaces, "--ids=~/ids_x.npy", "--groups=~/groups.npy")
    out = tmp_path / "out"
    r2 = {(row["x"], row["y"]): row["metrics"]["r2"] for row in rows_of(out)}
    assert len(r2) == 6
    assert r2["x", "y"] > 0.8 > r2["x", "shuffled"]
    assert alignment.LinearMap.load(out / "hub_2.npz").w.shape == (4, 4)
    assert "2 of 6 directions are linearly related" in (out / "report.html").read_text()
    assert said == f"Report: {out / 'report.html'}\n"
    arguments = ["--ids=~/most_ids.npy,ids_x.npy,ids_y.npy", "--labels=~/labels.npy", "--overwrite"]
    said = run(spaces, *arguments)
    page = (out / "report.html").read_text()
    assert "6 of 6 directions" in page
    for name in ("x", "y", "shuffled"):
        line = f"{name}: 1 of 90 rows left out (1 without a partner by id)"
        assert f"{line}\n" in said and f"{line}." in page
    found = json.loads((out / "alignment.json").read_text())
    counts = {"rows": ROWS, "unpaired": 1, "not_finite": 0}
    assert found["input_rows"] == [{"space": n, **counts} for n in ("x", "y", "shuffled")]
    probes = np.asarray(found["probes"])
    assert probes.shape == (3, 3) and (probes > 0.7).all()
    assert (out / "items.csv").read_text().startswith("item,row,squared_error: x -> y")


@pytest.fixture(scope="module")
def bad(folder):
    """Files that must be refused."""
    x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
    holes = y.copy()
    holes[3, 1], holes[5, 2] = np.nan, -np.inf
    for name, array in {
        "short": y[:-1],
        "tiny": y[:10],
        "holes": holes,
        "flat": np.ones((ROWS, 2), np.float32),
        "other_ids": np.arange(ROWS) + 1000,
        "same_ids": np.arange(ROWS) // 2,
        "truths": y > 0,
        "structured": np.zeros(ROWS, dtype=[("a", "f4"), ("b", "f4")]),
        "one_group": np.zeros(ROWS, int),
        "three_groups": np.arange(ROWS) % 3,
        "faint": x * np.float32([1, 1, 1e-13]),
    }.items():
        np.save(folder / f"{name}.npy", array)
    np.save(folder / "objects.npy", np.array([{}] * ROWS, object), allow_pickle=True)
    raw = (folder / "y.npy").read_bytes()
    (folder / "truncated.npy").write_bytes(raw[:-5])
    (folder / "trailing.npy").write_bytes(raw + b"x")
    (folder / "overlong.safetensors").write_bytes((10**9).to_bytes(8, "little") + b"{}")
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "y.npy", "z.npy")
    bomb = bytearray((folder / "bomb.npz").read_bytes())
    size = bomb.index(b"PK\1\2") + 24  # of the unpacked array, in the directory
    bomb[size : size + 4] = (1 << 30).to_bytes(4, "little")
    (folder / "bomb.npz").write_bytes(bomb)
    with zipfile.ZipFile(folder / "path.npz", "w") as archive:
        archive.writestr("../y.npy", raw)
    (folder / "file").write_text("")
    assert x.shape == (ROWS, 3)


BAD = [
    (["--x=x.npy"], "give --x and --y, or --spaces"),
    (["--x=x.npy", "--y=missing.npy"], "missing.npy: no such file"),
    (["--x=x.npy", "--y=objects.npy"], "objects.npy: holds Python objects, which are never"),
    (["--x=x.npy", "--y=truncated.npy"], "truncated.npy: is truncated"),
    (["--x=x.npy", "--y=overlong.safetensors"], "overlong.safetensors: header of 1000000000 bytes"),
    (["--x=x.npy", "--y=trailing.npy"], "trailing.npy: has trailing bytes"),
    (["--x=x.npy", "--y=bomb.npz"], "bytes unpack to 1073741824 bytes, refused"),
    (["--x=x.npy", "--y=path.npz"], "path.npz: member '../y.npy' has a path in its name"),
    (["--x=x.npy", "--y=structured.npy"], "structured.npy: structured dtype"),
    (["--x=x.npy", "--y=truths.npy"], "truths.npy: embeddings must be numbers, got bool"),
    (["--x=x.npy", "--y=y.npy", "--labels=objects.npy"], "save text as array.astype(str)"),
    (
        ["--x=x.npy", "--y=holes.npy"],
        "holes.npy: 2 of 90 rows hold NaN or Inf (rows 3, 5; row 3 in column 1)",
    ),
    (["--x=x.npy", "--y=short.npy"], "x.npy has 90 rows but short.npy has 89"),
    (
        ["--x=x.npy", "--y=y.npy", "--ids_x=same_ids.npy", "--ids_y=ids_y.npy"],
        "same_ids.npy: 0 occurs 2 times",
    ),
    (["--x=x.npy", "--y=y.npy", "--ids_x=ids_x.npy", "--ids_y=other_ids.npy"], "no id in common"),
    (["--x=tiny.npy", "--y=tiny.npy"], "10 pairs are too few, at least 20 are needed"),
    (["--x=x.npy", "--y=y.npy", "--test_fraction=0.02"], "2 rows are held out, at least 4"),
    (["--x=x.npy", "--y=y.npy", "--groups=one_group.npy"], "1 group(s) cannot be split"),
    (["--x=x.npy", "--y=y.npy", "--groups=three_groups.npy"], "at least 4 are needed, 2 on"),
    (["--x=x.npy", "--y=~nobody0/y.npy"], "--y=~nobody0/y.npy: no such user"),
    (["--x=x.npy", "--y=y.npy", "--out=~nobody0/out"], "--out=~nobody0/out: no such user"),
    (["--x=x.npy", "--y=y.npy", f"--out={300 * 'z'}"], "File name too long"),
    (["--x=x.npy", "--y=y.npy", f"--groups={300 * 'z'}.npy"], "File name too long"),
    (["--x=x.npy", "--y=y.npy", f"--seed={10**80}"], "must be in [0, 9223372036854775807]"),
    (["--x=x.npy", "--y=y.npy", f"--resamples={10**80}"], "must be in [0, 100000]"),
    (["--x=x.npy", "--y=flat.npy"], "flat.npy: all 2 features are constant over 90 rows"),
    (["--x=x.npy", "--y=y.npy", "--ridge=big"], "--ridge=big is neither a number nor auto"),
    (["--x=x.npy", "--y=y.npy", "--test_fraction=1.5"], "test_fraction=1.5"),
    (["--x=x.npy", "--y=y.npy", "--ids_x=ids_x.npy"], "--ids_x and --ids_y go together"),
    (["--x=x.npy", "--y=y.npy", "--groups=y.npy"], "expected a column of integers or text"),
    (["--x=x.npy", "--y=y.npy", "--groups=tiny.npy"], "expected a column of integers or text"),
    (["--x=x.npy", "--y=y.npy", "--labels=one_group.npy"], "one_group.npy: all labels are alike"),
    (["--x=x.npy", "--y=y.npy", "--method=reduced_rank"], "rank=None"),
    (["--x=x.npy", "--y=y.npy", "--strata=y.parquet"], "choose one with --strata_key; it holds"),
    (["--x=layers.npz", "--y=y.npy"], "choose one with --key; it holds first, last"),
    (["--x=x.npy", "--y=y.npy", "--queries_x=x.npy"], "give --answers with --queries_x"),
    (["--x=x.npy", "--y=y.npy", "--answers=labels.npy"], "give --answers with --queries_x"),
    (["--x=x.npy", "--y=y.npy", "--queries_x=y.npy", "--answers=ids_x.npy"], "queries of x have 4"),
    (["--spaces=x.npy,y.npy", "--gate=search"], "--gate goes with --x and --y"),
    (["--spaces=x.npy,y.npy", "--all_pairs"], "--all_pairs goes with --x and --y"),
    (["--spaces=x.npy,y.npy", "--key_x=a"], "--key_x and --key_y go with --x and --y"),
    (["--spaces=x.npy,y.npy", "--answers=ids_x.npy"], "--queries_x and --queries_y go with"),
    (["--spaces=x.npy"], "--spaces needs at least 2 files, got 1"),
    (["--spaces=x.npy,y.npy,short.npy"], "x.npy has 90 rows but short.npy has 89"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_one_line_and_nothing_is_written(run, bad, tmp_path, arguments, message):
    with pytest.raises(InputError) as caught:
        run(*arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
def test_rows_that_are_not_finite_are_left_out_when_asked(run, bad, tmp_path):
    ids = ["--ids_x=formulas.npy", "--ids_y=other_formulas.npy"]
    out, used = tmp_path / "out\udcff", ROWS - 10 - 2
    said = run("--x=x\udcff.npy", "--y=holes.npy", "--drop_nonfinite", *ids, f"--out={out}")
    assert said.endswith(f"Report: {tmp_path}/out\ufffd/report.html\n")
    page = (out / "report.html").read_text()
    for name in ("x\ufffd", "holes"):
        line = f"{name}: 12 of 90 rows left out (10 without a partner by id, 2 with NaN or Inf)"
        assert f"{line}\n" in said and f"{line}." in page
    counts = {"rows": ROWS, "unpaired": 10, "not_finite": 2}
    written = json.loads((out / "alignment.json").read_text())
    assert written["input_rows"] == [{"space": n, **counts} for n in ("x\ufffd", "holes")]
    found = written["rows"][0]["metrics"]
    assert found["n_train"] + found["n_test"] == used
    with (out / "items.csv").open() as file:
        items = [row["item"] for row in csv.DictReader(file)]
    assert items and all(item.startswith("'=") for item in items)


def test_a_refused_run_leaves_the_old_report_alone(run, bad, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.html").write_text("old")
    with pytest.raises(InputError, match="are constant"):
        run("--x=x.npy", "--y=flat.npy", "--overwrite")
    assert [p.name for p in out.iterdir()] == ["report.html"]
    assert (out / "report.html").read_text() == "old"


def test_a_user_s_own_files_are_not_replaced(run, folder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "items.csv").write_text("label\n" + "\n".join("ab"[i % 2] for i in range(ROWS)) + "\n")
    pair = ["--x=x.npy", "--y=y.npy"]
    with pytest.raises(InputError, match=r"items\.csv exists; give --overwrite to replace it"):
        run(*pair)
    mine = [f"--labels={out / 'items.csv'}", "--labels_key=label", "--overwrite"]
    with pytest.raises(InputError, match=r"items\.csv is an input, and a result would replace it"):
        run(*pair, *mine)
    assert (out / "items.csv").read_text().startswith("label\na\n")


def test_a_file_in_the_place_of_the_folder_is_named(run, bad, folder):
    with pytest.raises(InputError, match="is a file"):
        run("--x=x.npy", "--y=y.npy", f"--out={folder / 'file'}")


@pytest.mark.nightly
def test_without_umap_learn_the_page_says_so(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    run("--x=x.npy", "--y=y.npy", "--umap", "--test_fraction=0.3")
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("UMAP figures need umap-learn: pip install umap-learn.") == 1


TRAINING = "flax optax orbax grain ml_collections tensorboard tensorflow chex umap".split()


def in_python(code, *arguments):
    """Runs code in a fresh interpreter: exit code, stdout and stderr."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def test_importing_the_tool_imports_none_of_the_training_libraries():
    names = [*TRAINING, "PIL", "matplotlib"]
    code = (
        "import sys, socialjepa_jax.align\n"
        f"print([name for name in {names} if name in sys.modules])"
    )
    assert in_python(code) == (0, "[]\n", "")


@pytest.mark.nightly
def test_the_console_script_runs_where_only_the_base_requirements_are_installed(folder, tmp_path):
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({TRAINING}))  # importing one of them raises\n"
        "from socialjepa_jax.align import cli\n"
        "cli()"
    )
    out = tmp_path / "out"
    pair = [f"--x={folder / 'x.npy'}", f"--y={folder / 'y.npy'}", "--test_fraction=0.3"]
    labels = [f"--labels={folder / 'labels.npy'}", f"--out={out}", *QUICK, "--umap"]
    done, said, stages = in_python(code, *pair, *labels)
    assert (done, said) == (0, f"Report: {out / 'report.html'}\n")
    assert re.fullmatch(r"( *\d+\.\d s  [\w ,-]+\n)+", stages)
    assert "UMAP figures need umap-learn" in (out / "report.html").read_text()
    for arguments, example, flag in [
        (["--help"], "socialjepa-align --x=old.npy", "--test_fraction: Share of the rows"),
        (["apply", "--help"], "socialjepa-align apply --map=", "--[no]unit_norm: Divide"),
    ]:
        status, said, _ = in_python(code, *arguments)
        assert status == 1  # as absl has it
        assert said.index(example) < said.index(f"\n  {flag}")


@pytest.mark.parametrize("name", ["align", "apply"])
def test_help_prints_every_flag_in_one_group(name):
    """And no line is longer than a terminal is wide."""
    command = importlib.import_module(f"socialjepa_jax.{name}")
    values = flags.FlagValues()
    command.define_flags(values)
    grouped = " ".join(command.GROUPS.values()).split()
    assert sorted(grouped) == sorted(values)
    said = launch.grouped_help(command.__doc__, values, command.GROUPS)
    places = [said.index(f"\n\n{title}:\n") for title in command.GROUPS]
    assert places == sorted(places) and len(set(grouped)) == len(grouped)
    _, _, listed = said.partition(f"\n{next(iter(command.GROUPS))}:\n")
    assert max(map(len, listed.splitlines())) <= 80
    assert all(f"{flag}: " in listed for flag in grouped)


def in_a_process(folder, *arguments):
    return Command("socialjepa_jax.align", *arguments, folder=folder).end()


@pytest.mark.nightly
def test_the_command_itself(folder, bad, tmp_path):
    out = tmp_path / "out"
    pair = ["--x=faint.npy", "--y=y.npy", f"--out={out}", *QUICK]
    warned = (
        "warning: x: 1 of 3 features vary by less than 1e-12 of max(1, |mean|) and count as "
        "constant (features 2); rescale them to use them\n"
    )
    code, said, error = in_a_process(folder, *pair)
    *verdict, report = said.splitlines()
    assert (code, report) == (0, f"Report: {out / 'report.html'}")
    assert verdict[0].startswith("Verdict: search: measure with queries; bridge: not known; ")
    assert error.count(warned) == 1
    assert error.startswith("   0.0 s  reading\n")  # something is said from the first second on
    for arguments, message in [
        (["--x=x.npy", "--y=flat.npy", "--out=new"], "error: flat.npy: all 2 features"),
        (["--nonsense=1"], "nonsense"),
        (["--method=magic"], "magic"),
        (["extra"], "error: unexpected argument 'extra'"),
    ]:
        code, said, error = in_a_process(folder, *arguments)
        assert (code, said) == (2, ""), error
        *stages, last = error.splitlines()
        assert last.startswith("error: ") and all(stage.endswith("s  reading") for stage in stages)
        assert message in last
    assert not (folder / "new").exists()


@pytest.mark.nightly
def test_a_stopped_run_leaves_its_map_and_no_unfinished_folder(folder, tmp_path):
    """Nor that of an earlier run, which SIGKILL leaves; but what is linked there is not touched."""
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    for path in (out / ".part-old", elsewhere):
        path.mkdir(parents=True)
        (path / "map.npz").write_text("")
    (out / ".part-link").symlink_to(elsewhere)
    pair = ["--x=x.npy", "--y=y.npy", f"--out={out}", "--ridge=1", "--permutations=0"]
    command = Command("tests.stuck", *pair, "--resamples=0", folder=folder)
    while "drawing" not in command.said():
        assert command.is_running()
        time.sleep(0.05)
    assert len(list(out.glob(".part-*"))) == 2  # the figures are not yet where they belong
    command.send_signal(signal.SIGTERM)
    assert command.end()[0] == 128 + signal.SIGTERM
    assert {path.name for path in out.iterdir()} == {
        *(".part-link", "alignment.json", "apply_map.py", "items.csv", "map.npz", "map.onnx"),
        *("map.safetensors", "novelty.npz"),
    }
    assert (elsewhere / "map.npz").exists()
