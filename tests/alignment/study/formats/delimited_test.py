"""CSV and TSV: what is an embedding, what is a column, and what is refused."""

import csv
import json

import numpy as np
import pytest

from socialjepa_jax.alignment.study import files
from socialjepa_jax.errors import InputError

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(6, 3)) * 10.0 ** RNG.integers(-30, 30, (6, 3))
NAMES = ["a", "007", "NA", "d ", "e,f", 'quoted "g"\nand more']


def write(path, head, *rows, **options):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, **options)
        writer.writerows([*([head] if head else []), *rows])
    return path


def lines(*columns):
    """Rows of columns of single values, and of matrices."""
    return np.column_stack([np.asarray(c, object) for c in columns]).tolist()


def test_numbered_columns_are_one_matrix(tmp_path):
    order = ["emb_2", "emb_0", "emb_1"]
    path = write(tmp_path / "z.csv", ["id", *order, "label"], *lines(NAMES, Z[:, [2, 0, 1]], NAMES))
    for key in (None, "emb"):
        found = files.read_latents(path, key)
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, Z)  # to the last bit
    for name in ("id", "label"):
        assert files.read_column(path, name).tolist() == NAMES
    assert files.read_layers(path, found)["emb"] is found
    with pytest.raises(InputError, match="choose one with --labels_key; it holds id, label"):
        files.read_column(path, option="--labels_key")


@pytest.mark.parametrize(
    ("head", "names"),
    [
        (["x[0]", "x[1]", "x[2]"], ["x"]),
        (["z1", "z2", "z3"], ["z"]),
        (["emb_000", "emb_001", "emb_002"], ["emb"]),
        (["", "0", "1", "2"], ["*"]),  # as pandas writes an array
        (["0", "1", "2"], ["*"]),
        (["id", "width", "height", "depth"], ["*"]),
        (None, ["*"]),
        (["a_0", "a_1", "b"], ["a"]),
        (["a_0", "a_1", "a_3"], ["*"]),  # a gap
        (["z2", "z3", "z4"], ["*"]),
    ],
)
def test_other_names_of_features(tmp_path, head, names):
    rows = lines(range(6), Z) if head and len(head) == 4 else lines(Z)
    path = write(tmp_path / "z.csv", head, *rows)
    expected = Z[:, :2] if names == ["a"] else Z
    np.testing.assert_array_equal(files.read_latents(path), expected)
    np.testing.assert_array_equal(files.read_latents(path, names[0]), expected)


def test_two_sets_of_columns_need_a_key(tmp_path):
    head = ["old_0", "old_1", "old_2", "new_0", "new_1", "new_2"]
    path = write(tmp_path / "z.csv", head, *lines(Z, -Z))
    np.testing.assert_array_equal(files.read_latents(path, "new"), -Z)
    with pytest.raises(InputError, match="choose one with --key; it holds new, old"):
        files.read_latents(path)
    assert set(files.read_layers(path, Z)) == {"old", "new"}


def test_a_column_of_lists_and_tabs(tmp_path):
    cells = [json.dumps(row) for row in Z.tolist()]
    path = write(tmp_path / "z.tsv", ["id", "embedding"], *lines(NAMES, cells), delimiter="\t")
    np.testing.assert_array_equal(files.read_latents(path), Z)
    assert files.read_column(path).tolist() == NAMES
    cells[4] = str(Z[4])  # as NumPy prints it, without commas
    path = write(tmp_path / "z.tsv", ["id", "embedding"], *lines(NAMES, cells), delimiter="\t")
    with pytest.raises(InputError, match=r"z.tsv: 'embedding' of row 4 is no list of JSON: '\["):
        files.read_latents(path)


def test_columns_without_header_and_integers(tmp_path):
    path = write(tmp_path / "ids.csv", None, *lines(range(10, 16)))
    found = files.read_column(path)
    assert found.dtype == np.int64 and found.tolist() == list(range(10, 16))
    path = write(tmp_path / "ids.csv", ["id"], ["7"], ["007"], ["8"])
    assert files.read_column(path).tolist() == ["7", "007", "8"]
    path = write(tmp_path / "ids.csv", ["id"], ["a"], [""])  # which csv quotes, as it must
    assert files.read_column(path).tolist() == ["a", ""]
    path = write(tmp_path / "ids.csv", ["id"], [2**63], [1])  # text with the same digits
    assert files.read_column(path).tolist() == [str(2**63), "1"]
    path = write(tmp_path / "answers.csv", ["row_0", "row_1"], [3, -1], [4, 2])
    found = files.read_array(path)
    assert found.dtype == np.int64 and found.tolist() == [[3, -1], [4, 2]]
    path = write(tmp_path / "answers.csv", ["id_0", "id_1"], ["a", "b"], ["c", '""'])
    assert files.read_array(path).tolist() == [["a", "b"], ["c", '""']]


def test_empty_cells_and_nan_are_found_by_row(tmp_path):
    path = write(tmp_path / "z.csv", ["z0", "z1"], [1, 2], ["", 3], [4, "nan"], [5, "inf"], [1, 1])
    found = files.read_latents(path)
    np.testing.assert_array_equal(found, [[1, 2], [np.nan, 3], [4, np.nan], [5, np.inf], [1, 1]])
    np.testing.assert_array_equal(files.find_bad_rows(found), [1, 2, 3])


def test_a_byte_order_mark_and_line_ends_of_windows(tmp_path):
    (tmp_path / "z.csv").write_bytes(b"\xef\xbb\xbfid,z0,z1\r\na,1,2.5\r\nb,3,4\r\n")
    np.testing.assert_array_equal(files.read_latents(tmp_path / "z.csv"), [[1, 2.5], [3, 4]])
    assert files.read_column(tmp_path / "z.csv", "id").tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begins with an empty line"),
        ("\n1,2\n", "begins with an empty line"),
        ("z0,z1,z0\n1,2,3\n", "two columns have one name"),
        ("z0,z1\n1,2\n3,4,5\n", "Expected 2 columns, got 3"),
        ("z0,z1\n1,2\n3,oops\n", "row 1 holds 'oops' in column 'z1', no number"),
        ("z0,z1\n1,2\noops,oops\n", "row 1 holds 'oops' in column 'z0', no number"),
        ("z0,z1\n1,1_000\n2,3\n", "numbers of an unknown form"),
        ("z0,z1\n1,2020-01-01\n", "row 0 holds '2020-01-01' in column 'z1'"),
        ("z0,z1\na,b\n", "embeddings must be numbers, got <U1"),
        ("z0,z1\n", r"samples x features, got \(0, 2\)"),
        ("z0;z1;z2\n1;2;3\n", "columns are separated by ;, expected ','"),
        ("a,b,doc\n0.5,1.5,1\n0.5,1.5,2\n", "column 'doc' holds integers, others do not"),
        ("name,a,b\nx,1,2\n", "choose one with --key; it holds a, b, name"),
        ("id,text\n1,2\n", r"choose one with --key; it holds id, text"),
        ("z\n[1,2]\n", "damaged"),
        ('z\n"[1,2]"\n"[1,true,""x""]"\n', "'z' of row 1 is no list of numbers"),
        ('z\n"[1,2]"\n"[1,2,3]"\n', "'z' of row 1 has shape"),
        ('z\n"[1,2]"\n\n', "column 'z' has no value in row 1"),
        ('z\n"[1,2]"\n' + "[" * 100_000 + "\n", "'z' of row 1 is no list of JSON"),
        ("z\n[" + "1" * 200_000 + "\n", "field larger than field limit"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        files.read_latents(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_ids_are_neither_missing_nor_mended(tmp_path):
    (tmp_path / "z.csv").write_text("id\na\n\nb\n")
    with pytest.raises(InputError, match="column 'id' has no value in row 1"):
        files.read_column(tmp_path / "z.csv")
    (tmp_path / "z.csv").write_bytes(b"id\na\n\xff\n")
    with pytest.raises(InputError, match=r"damaged or not a \.csv file .*UTF8"):
        files.read_column(tmp_path / "z.csv")
    (tmp_path / "z.csv").write_text("id\n" + 9_000 * "x" + "\n" + 20_000 * "y\n")
    with pytest.raises(InputError, match="bytes unpack to 720036000 bytes, refused"):
        files.read_column(tmp_path / "z.csv")
