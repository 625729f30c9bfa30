import json

import numpy as np
import pytest

from socialjepa_jax import align, alignment

ROWS = 60


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Runs the tool in this process; returns its exit code and what it said."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 3)).astype(np.float32)
    y = (x @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(ROWS, 4))).astype(np.float32)
    order = rng.permutation(ROWS)
    for name, array in {
        "x": x,
        "y": y,
        "shuffled": y[order],
        "ids_x": np.arange(ROWS),
        "ids_y": order,
        "labels": (x[:, 0] > 0).astype(int),
        "groups": np.arange(ROWS) // 3,
    }.items():
        np.save(tmp_path / f"{name}.npy", array)

    def go(*arguments):
        code = 0
        for name in align.FLAGS:
            align.FLAGS[name].unparse()
        try:
            align.main(["align", "--out=out", "--permutations=2", "--resamples=3", *arguments])
        except SystemExit as stop:
            code = stop.code
        said = capsys.readouterr()
        return code, said.out + said.err

    return go


def test_a_pair_of_files_becomes_a_report_and_a_map(run, tmp_path):
    arguments = ["--x=x.npy", "--y=shuffled.npy", "--ids_x=ids_x.npy", "--ids_y=ids_y.npy"]
    arguments += ["--labels=labels.npy", "--groups=groups.npy"]
    code, said = run(*arguments)
    assert (code, said) == (0, "Report: out/report.html\n")
    rows = json.loads((tmp_path / "out/alignment.json").read_text())["rows"]
    by_back = {row["back"]: row["metrics"] for row in rows if row["row"] == "given"}
    assert set(by_back) == {"inverse", "regression", "none", "forward"}
    assert by_back["forward"]["r2"] > 0.8 > 0.5 > rows[-1]["metrics"]["r2"]
    linear_map = alignment.LinearMap.load(tmp_path / "out/map.npz")
    x, y = (np.load(tmp_path / f"{name}.npy") for name in ("x", "y"))
    assert alignment.r2(linear_map, x, y) > 0.8
    page = (tmp_path / "out/report.html").read_text()
    assert "linearly related" in page
    assert "oracle" in page
    code, said = run(*arguments)
    assert code == 2
    assert "already holds a report" in said


def test_three_spaces_become_a_heat_map_and_a_hub(run, tmp_path):
    code, _ = run("--spaces=x.npy,y.npy,shuffled.npy", "--ridge=0.1")
    assert code == 0
    rows = json.loads((tmp_path / "out/alignment.json").read_text())["rows"]
    r2 = {(row["x"], row["y"]): row["metrics"]["r2"] for row in rows}
    assert len(r2) == 6
    assert r2["x", "y"] > 0.8 > r2["x", "shuffled"]
    assert alignment.LinearMap.load(tmp_path / "out/hub_y.npz").w.shape == (4, 4)


def test_bad_input_is_one_line_and_nothing_is_written(run, tmp_path):
    np.save(tmp_path / "short.npy", np.load(tmp_path / "y.npy")[:-1])
    np.save(tmp_path / "tiny.npy", np.load(tmp_path / "y.npy")[:10])
    bad = np.load(tmp_path / "y.npy")
    bad[[3, 5]] = np.nan
    np.save(tmp_path / "nan.npy", bad)
    np.save(tmp_path / "flat.npy", np.ones((ROWS, 2), np.float32))
    np.save(tmp_path / "other_ids.npy", np.arange(ROWS) + 1000)
    for arguments, message in [
        (["--x=x.npy"], "give --x and --y"),
        (["--x=x.npy", "--y=missing.npy"], "missing.npy: no such file"),
        (["--x=x.npy", "--y=short.npy"], "60 rows but short.npy has 59"),
        (["--x=tiny.npy", "--y=tiny.npy"], "10 pairs are too few, at least 20"),
        (["--x=x.npy", "--y=nan.npy"], "2 pairs hold NaN or Inf (rows 3, 5 of"),
        (["--x=x.npy", "--y=flat.npy"], "y: the 12 test rows are too few or all alike"),
        (["--x=x.npy", "--y=y.npy", "--ridge=big"], "--ridge=big"),
        (["--x=x.npy", "--y=y.npy", "--test_fraction=1.5"], "test_fraction=1.5"),
        (["--x=x.npy", "--y=y.npy", "--ids_x=ids_x.npy"], "go together"),
        (["--x=x.npy", "--y=y.npy", "--groups=tiny.npy"], "column of integers or text"),
        (
            ["--x=x.npy", "--y=y.npy", "--ids_x=ids_x.npy", "--ids_y=other_ids.npy"],
            "no id in common",
        ),
        (["--spaces=x.npy,y.npy"], "at least 3 files, got 2"),
        (["--x=x.npy", "--y=y.npy", "--nonsense=1"], "nonsense"),
        (["--x=x.npy", "--y=y.npy", "--seed=few"], "seed"),
        (["extra"], "unexpected argument 'extra'"),
    ]:
        code, said = run(*arguments)
        assert code == 2, arguments
        assert said.startswith("error: ")
        assert said.count("\n") == 1
        assert message in said
    assert not (tmp_path / "out").exists()
