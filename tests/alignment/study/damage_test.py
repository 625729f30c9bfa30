"""Any damage to a file of embeddings is one `InputError`, and any array comes back as written."""

import csv
import json
import string

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import save_file

from socialjepa_jax.alignment.study import files
from socialjepa_jax.errors import InputError

FEW = settings(max_examples=25, deadline=None, derandomize=True, database=None)
KINDS = ("npy", "npz", "safetensors", "parquet")
TEXT = ("csv", "jsonl")
DTYPES = ("f2", "f4", "f8", "i1", "u2", "i8", "u8", ml_dtypes.bfloat16, "?")
Z = np.arange(12, dtype=np.float32).reshape(4, 3)


def write(path, z):
    if path.suffix == ".npy":
        np.save(path, z)
    elif path.suffix == ".npz":
        np.savez_compressed(path, z=z)
    elif path.suffix == ".safetensors":
        save_file({"z": np.ascontiguousarray(z)}, path)
    elif path.suffix == ".csv":
        np.savetxt(path, z, delimiter=",", header="z0,z1,z2", comments="")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"z": row}) + "\n" for row in z.tolist()))
    else:
        rows = pa.array(z.tolist(), pa.list_(pa.from_numpy_dtype(z.dtype)))
        pq.write_table(pa.table({"z": rows}), path, write_page_checksum=True)


@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(data=st.data())
def test_arrays_come_back_as_written(tmp_path_factory, kind, data):
    numbers = [d for d in DTYPES if kind != "parquet" or d is not ml_dtypes.bfloat16]
    dtype = np.dtype(data.draw(st.sampled_from(numbers)))
    shape = data.draw(arrays.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=4))
    values = st.integers(0, 1 if dtype.kind == "b" else 100)
    z = data.draw(arrays.arrays(np.int64, shape, elements=values)).astype(dtype)
    if kind in ("npy", "npz") and data.draw(st.booleans()):
        z = np.asfortranarray(z)
    path = tmp_path_factory.mktemp("z") / f"z.{kind}"
    write(path, z)
    found = files.read_array(path)
    assert found.dtype == dtype and found.shape == shape
    np.testing.assert_array_equal(found, z)


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", *TEXT])
@FEW
@given(ids=st.lists(st.text(string.printable + "éß😀", min_size=1, max_size=4), min_size=1))
def test_text_comes_back_as_written(tmp_path_factory, kind, ids):
    path = tmp_path_factory.mktemp("ids") / f"z.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"z": ids}), path)
    elif kind == "csv":
        ids = [f"x{i}" for i in ids]  # digits alone would be read as integers
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["z"], *([i] for i in ids)])
    elif kind == "jsonl":
        path.write_text("".join(json.dumps({"z": i}) + "\n" for i in ids))
    else:
        write(path, np.array(ids))
    assert files.read_column(path).tolist() == ids


@pytest.fixture(scope="module", params=[*KINDS, *TEXT])
def intact(request, tmp_path_factory):
    """A file and its content."""
    path = tmp_path_factory.mktemp("intact") / f"z.{request.param}"
    write(path, Z)
    return path, path.read_bytes()


@settings(FEW, max_examples=100)
@given(data=st.data())
def test_damage_is_one_line(intact, data):
    path, content = intact
    damaged = bytearray(content)
    places = st.integers(0, len(content) - 1)
    for place, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=3)):
        damaged[place] = byte
    damaged = damaged[: data.draw(st.one_of(st.just(len(content)), places))]
    target = path.with_stem("damaged")
    target.write_bytes(damaged)
    try:
        found = files.read_array(target)
    except InputError as error:
        assert str(target) in str(error) and "\n" not in str(error)
        return
    assert isinstance(found, np.ndarray)
    if path.suffix == ".npz":  # holds a checksum of all that is read
        np.testing.assert_array_equal(found, Z)
