"""JSONL: fields of one object per line."""

import json

import numpy as np
import pytest

from socialjepa_jax.alignment.study import files
from socialjepa_jax.errors import InputError

Z = np.random.default_rng(0).normal(size=(5, 3)) * 1e-7


def write(path, *entries):
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return path


def test_embeddings_ids_and_answers(tmp_path):
    entries = [
        {"id": f"é{i}", "doc": i, "embedding": z, "more": {"a": 1}, "answers": [i, -1]}
        for i, z in enumerate(Z.tolist())
    ]
    path = write(tmp_path / "z.jsonl", *entries)
    np.testing.assert_array_equal(files.read_latents(path, "embedding"), Z)
    assert files.read_column(path, "id").tolist() == [f"é{i}" for i in range(5)]
    for name, expected in (("doc", [0, 1, 2, 3, 4]), ("answers", [[i, -1] for i in range(5)])):
        found = files.read_array(path, name)
        assert found.dtype == np.int64 and found.tolist() == expected
    assert list(files.read_layers(path, Z)) == ["embedding"]  # the answers may be tokens
    with pytest.raises(InputError, match="choose one with --key; it holds answers, embedding"):
        files.read_latents(path)
    with pytest.raises(InputError, match=r"'more' of row 0 is \{'a': 1\}"):
        files.read_array(path, "more")


def test_null_and_nan_are_found_by_row(tmp_path):
    path = write(tmp_path / "z.jsonl", {"z": [1, 2]}, {"z": [1.5, None]}, {"z": [float("nan"), 0]})
    np.testing.assert_array_equal(files.find_bad_rows(files.read_latents(path)), [1, 2])


def test_other_shapes_and_kinds(tmp_path):
    path = write(
        tmp_path / "z.jsonl", {"z": [[1, 2], [3, 4]], "t": ["a", "bc"], "s": 0.5, "b": True}
    )
    assert files.read_array(path, "z").tolist() == [[[1, 2], [3, 4]]]
    assert files.read_array(path, "t").tolist() == [["a", "bc"]]
    assert files.read_array(path, "s").tolist() == [0.5]
    assert files.read_array(path, ndim=3).shape == (1, 2, 2)
    with pytest.raises(InputError, match="expected a column of integers or text, got bool"):
        files.read_column(path, "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it holds nothing"),
        ("[1, 2]\n", "row 0 is no object of JSON"),
        ('{"z": [1, 2]}\n\n', "row 1 is no object of JSON"),
        ('{"z": [1, 2]}\n{"z": [1', "row 1 is no object of JSON"),
        ('{"z": [1], "z": [2]}\n', "a name occurs twice"),
        ('{"z": [1, 2]}\n{"y": [1, 2]}\n', "row 1 has no 'z'"),
        ('{"z": [1, 2]}\n{"z": [1, 2, 3]}\n', r"'z' of row 1 has shape \(3,\), of row 0 \(2,\)"),
        ('{"z": [1, 2]}\n{"z": 3}\n', "'z' of row 1 is no list of numbers: 3"),
        ('{"z": [1, 2]}\n{"z": null}\n', "'z' of row 1 is no list of numbers: None"),
        ('{"z": [1, 2]}\n{"z": ["a", "b"]}\n', "'z' of row 1 mixes text and numbers"),
        ('{"z": [1, "a"]}\n', "'z' of row 0 is no list of numbers"),
        ('{"z": [1, [2]]}\n', "'z' of row 0 has lists of different lengths"),
        ('{"z": [true, false]}\n', "'z' of row 0 is no list of numbers"),
        (f'{{"z": [{10**30}]}}\n', "'z' of row 0 is no list of numbers"),
        ('{"z": [' + "1" * 5000 + "]}\n", "row 0 is no object of JSON"),
        ('{"z": ' + "[" * 100_000 + "]" * 100_000 + "}\n", "row 0 is no object of JSON"),
        ('{"z": []}\n', r"samples x features, got \(1, 0\)"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, text, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        files.read_latents(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["a", 7], "'id' of row 1 is 7"),
        (["a", None], "'id' of row 1 is None"),
        ([7, True], "'id' of row 1 is True"),
        ([7, 10**30], "'id' holds numbers of more than 64 bits"),
        (["a", "b\0"], "end in a zero character"),
        (["a", "\ud800"], "damaged or not a .jsonl file"),
        (["a" * 9_000] + 20_000 * ["b"], "bytes unpack to 720036000 bytes, refused"),
    ],
)
def test_ids_of_two_kinds_are_refused(tmp_path, entries, message):
    path = write(tmp_path / "bad.jsonl", *({"id": entry} for entry in entries))
    with pytest.raises(InputError, match=message):
        files.read_column(path)


def test_letters_that_are_no_utf_8_are_damage(tmp_path):
    (tmp_path / "z.jsonl").write_bytes(b'{"id": "\xff"}\n')
    with pytest.raises(InputError, match="damaged or not"):
        files.read_column(tmp_path / "z.jsonl")
