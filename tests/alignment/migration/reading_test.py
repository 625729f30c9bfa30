"""Queries read from files: rows or ids of their answers, and what is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from socialjepa_jax.alignment.migration.reading import QuerySources, read_queries
from socialjepa_jax.alignment.study.inputs import Column, Sources, read_spaces
from socialjepa_jax.errors import InputError

N = 30


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 3))
    bad = x[:4].copy()
    bad[2, 1] = np.nan
    arrays = {
        "x": x, "y": x[::-1].copy(), "ids_x": np.arange(N) + 100,
        "ids_y": np.arange(N)[::-1] + 101,  # 100 has no partner
        "queries": x[:4], "bad": bad, "short": x[:3],
        "rows": np.array([3, 0, 29, 3]), "many": np.array([[3, 4], [0, -1], [29, 2], [1, -1]]),
        "asked": np.array([103, 100, 129, 103]), "words": np.array(["103", "", "129", "104"]),
        "unknown": np.array([103, 7, 129, 103]), "far": np.array([0, 1, 30, 2]),
        "none": np.full(4, -1), "real": np.ones(4), "wraps": np.full(4, 2**64 - 1, np.uint64),
    }  # fmt: skip
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    table = {"a": list(x), "b": list(x[:, :2]), "answer": np.arange(N)}
    pq.write_table(pa.table(table), tmp_path / "both.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(x="queries.npy", y=None, answers="rows.npy", ids=False, **options):
    columns = tuple(Column(f"ids_{name}.npy", None, "--ids_key") for name in "xy") if ids else ()
    sources = Sources(("x.npy", "y.npy"), ids=columns, **options)
    spaces = read_spaces(sources)
    queries = QuerySources(x, y, Column(answers, None, "--answers_key"))
    return read_queries(queries, sources, spaces), spaces


def test_answers_are_rows_of_x(folder):
    found, _ = read()
    np.testing.assert_array_equal(found.answers, [[3], [0], [29], [3]])
    np.testing.assert_array_equal(found.x, np.load("queries.npy"))
    assert found.y is None and found.left_out == 0
    several, _ = read(x=None, y="queries.npy", answers="many.npy")
    np.testing.assert_array_equal(several.answers, [[4, 3], [0, -1], [29, 2], [1, -1]])
    assert several.x is None


def test_answers_are_ids_where_rows_are_paired_by_ids(folder):
    for answers in ("asked.npy", "words.npy"):
        found, spaces = read(answers=answers, ids=True)
        assert len(spaces.items) == N - 1
        items = spaces.items[found.answers[:, 0]].astype(int).tolist()
        assert items == [103, 129, {"asked.npy": 103, "words.npy": 104}[answers]]
        assert found.left_out == 1  # of 100, which has no partner, and of none
        np.testing.assert_array_equal(found.x, np.load("queries.npy")[[0, 2, 3]])


def test_queries_that_are_not_finite_are_refused_or_left_out(folder):
    with pytest.raises(InputError, match="row 2 holds NaN or Inf"):
        read(x="bad.npy")
    found, _ = read(x="bad.npy", drop_nonfinite=True)
    np.testing.assert_array_equal(found.answers, [[3], [0], [3]])
    assert found.left_out == 1


def test_columns_of_one_file(folder):
    sources = Sources(("both.parquet", "both.parquet"), keys=("a", "b"))
    spaces = read_spaces(sources)
    asked = QuerySources("both.parquet", "both.parquet", Column("both.parquet", "answer"))
    found = read_queries(asked, sources, spaces)
    assert found.x.shape == (N, 3) and found.y.shape == (N, 2)
    np.testing.assert_array_equal(found.answers[:, 0], np.arange(N))
    assert spaces.remarks() == []
    same = read_spaces(Sources(("both.parquet", "both.parquet"), keys=("a", "a")))
    assert same.remarks() == ["both (1) and both (2) hold the same embeddings"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"answers": "far.npy"}, "far.npy: row 2 names row 30, x has rows 0 to 29"),
        ({"answers": "unknown.npy", "ids": True}, "row 1 names 7, which is no id of ids_x.npy"),
        ({"answers": "words.npy"}, "words.npy: answers are text; give --ids_x and --ids_y"),
        ({"answers": "none.npy"}, "none.npy: no query has an answer among the paired rows"),
        ({"answers": "wraps.npy"}, "row 0 names row 18446744073709551615"),
        ({"answers": "real.npy"}, "real.npy: answers must be integers or text"),
        ({"x": "short.npy"}, "short.npy has 3 rows for 4 of rows.npy"),
        ({"x": "missing.npy"}, "missing.npy: no such file"),
    ],
)
def test_refusals_name_file_and_row(folder, options, message):
    with pytest.raises(InputError, match=message):
        read(**options)
