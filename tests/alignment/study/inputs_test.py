import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socialjepa_jax.alignment.study.inputs import as_text, match_ids, printable
from socialjepa_jax.errors import InputError

FEW = settings(max_examples=25, deadline=None, derandomize=True, database=None)


def test_ids_pair_rows_in_the_order_of_x():
    ids = [np.array([7, 3, 9, 5]), np.array(["5", "9", "1", "7"]), np.array([9, 5, 7, 8])]
    rows = match_ids(ids, ["a", "b", "c"])
    np.testing.assert_array_equal(rows, [[0, 2, 3], [3, 1, 0], [2, 0, 1]])


@pytest.mark.parametrize(
    ("ids_x", "ids_y", "message"),
    [
        ([1, 1, 2], [1, 2, 3], "a.npy: 1 occurs 2 times .first in row 0., ids must be unique"),
        ([1, 2, 2, 2], [3, 2], r"a.npy: 2 occurs 3 times .* 2 of 4 rows repeat one"),
        ([1, 2], [3, 2, 2], "b.npy: 2 occurs 2 times .first in row 1."),
        ([1, 2], [3, 4], "a.npy .2. and b.npy .2. have no id in common"),
        ([1, 7], ["1", "007"], "b.npy: id '007' is text, other files hold integers"),
        ([b"1", b"+7"], [1, 7], "a.npy: id '.7' is text, other files hold integers"),
        ([b"\xff", b"a"], ["a", "b"], "a.npy: ids are bytes that are no UTF-8 text"),
    ],
)
def test_ids_that_cannot_pair_are_named(ids_x, ids_y, message):
    with pytest.raises(InputError, match=message):
        match_ids([np.array(ids_x), np.array(ids_y)], ["a.npy", "b.npy"])


def test_hashes_of_64_bits_pair_exactly():
    rng = np.random.default_rng(0)
    signed = rng.integers(2**62, 2**63, 2000, dtype=np.int64)
    other = rng.integers(2**62, 2**63, 1000, dtype=np.int64)
    order = rng.permutation(2000)
    unsigned = np.concatenate([signed[:1000], other]).astype(np.uint64)[order]
    rows_x, rows_y = match_ids([signed, unsigned], ["x", "y"])
    np.testing.assert_array_equal(rows_x, np.arange(1000))
    assert [int(i) for i in unsigned[rows_y]] == [int(i) for i in signed[rows_x]]


INTEGERS = ("i1", "u1", ">i4", "u4", "i8", "u8")
KINDS = (*INTEGERS, "U", "S")
# Neighbours that float64 confuses, composed and decomposed letters, and plain numbers.
NUMBERS = [0, 1, 2, -1, 127, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 2]
TEXTS = ["é", "e\u0301", "a", "a ", "", "ﬁ", "fi", "\U0001f600", *map(str, NUMBERS)]


def columns(kind):
    """Distinct ids of a kind: (array, the text that each of them means)."""
    if kind in INTEGERS:
        info = np.iinfo(kind)
        values = st.sampled_from([n for n in NUMBERS if info.min <= n <= info.max])
    else:
        values = st.sampled_from(TEXTS)

    def make(chosen):
        stored = [value.encode() for value in chosen] if kind == "S" else chosen
        return np.array(stored, kind), [str(value) for value in chosen]

    return st.lists(values, min_size=1, unique=True).map(make)


@pytest.mark.parametrize("kinds", [*itertools.combinations_with_replacement(KINDS, 2)], ids=str)
@FEW
@given(data=st.data())
def test_ids_of_all_kinds_pair_as_sets_of_their_text_do(kinds, data):
    (x, meaning_x), (y, meaning_y) = (data.draw(columns(kind)) for kind in kinds)
    expected = set(meaning_x) & set(meaning_y)
    if not expected:
        with pytest.raises(InputError, match="no id in common"):
            match_ids([x, y], ["x", "y"])
        return
    rows_x, rows_y = match_ids([x, y], ["x", "y"])
    assert [meaning_x[i] for i in rows_x] == [meaning_y[i] for i in rows_y]
    assert [meaning_x[i] for i in rows_x] == [text for text in meaning_x if text in expected]


@FEW
@given(st.lists(st.lists(st.binary(min_size=1, max_size=3), unique=True), min_size=2, max_size=4))
def test_bytes_pair_as_sets_do(columns):
    columns = [[value.rstrip(b"\0") or b"z" for value in column] for column in columns]
    columns = [list(dict.fromkeys([*column, b"\xff"])) for column in columns]
    rows = match_ids([np.array(column) for column in columns], list("abcd"))
    found = [[column[i] for i in r] for column, r in zip(columns, rows)]
    assert all(values == found[0] for values in found)
    assert set(found[0]) == set.intersection(*map(set, columns))


def test_names_of_files_and_items_can_be_printed():
    assert printable("a\udcff/b") == "a\ufffd/b"
    np.testing.assert_array_equal(as_text(np.array(["é".encode(), b"b"])), ["é", "b"])
    np.testing.assert_array_equal(as_text(np.array([b"\xff\x01", b"b"])), ["ff01", "62"])
    np.testing.assert_array_equal(as_text(np.array([1, 2])), [1, 2])
