import json
import zipfile

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from socialjepa_jax.alignment.study import files
from socialjepa_jax.errors import InputError

Z = np.arange(12, dtype=np.float32).reshape(4, 3)


def write(path, z):
    if path.suffix == ".npy":
        np.save(path, z)
    elif path.suffix == ".npz":
        np.savez_compressed(path, z=z)
    elif path.suffix == ".safetensors":
        save_file({"z": z}, path)
    else:
        flat = pa.array(np.ascontiguousarray(z).ravel())
        pq.write_table(pa.table({"z": pa.FixedSizeListArray.from_arrays(flat, z.shape[1])}), path)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kind", [".npy", ".npz", ".safetensors", ".parquet"])
def test_every_kind_and_precision_comes_back(tmp_path, kind, dtype):
    path = tmp_path / f"z{kind}"
    write(path, Z.astype(dtype))
    found = files.read_latents(path)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, Z)


@pytest.mark.parametrize("kind", [".npy", ".npz", ".safetensors"])
def test_bfloat16_is_read_as_such(tmp_path, kind):
    path = tmp_path / f"z{kind}"
    write(path, Z.astype(ml_dtypes.bfloat16))
    found = files.read_latents(path)
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found.astype(np.float32), Z)


def test_fortran_order_and_memory_mapping(tmp_path):
    np.save(tmp_path / "z.npy", np.asfortranarray(Z))
    found = files.read_latents(tmp_path / "z.npy")
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, Z)


def test_keys_choose_among_several(tmp_path):
    np.savez(tmp_path / "z.npz", a=Z, b=2 * Z)
    np.testing.assert_array_equal(files.read_latents(tmp_path / "z.npz", "b"), 2 * Z)
    for key, message in ((None, "choose one with --key; it holds a, b"), ("c", "there is no 'c'")):
        with pytest.raises(InputError, match=message):
            files.read_latents(tmp_path / "z.npz", key)


def test_columns_of_ids_and_names(tmp_path):
    np.save(tmp_path / "ids.npy", np.arange(4))
    pq.write_table(pa.table({"name": ["a", "b", "c", "d"]}), tmp_path / "ids.parquet")
    np.testing.assert_array_equal(files.read_column(tmp_path / "ids.npy"), np.arange(4))
    found = files.read_column(tmp_path / "ids.parquet", "name")
    np.testing.assert_array_equal(found, ["a", "b", "c", "d"])
    with pytest.raises(InputError, match="column of integers or text"):
        np.save(tmp_path / "bad.npy", np.arange(4.0))
        files.read_column(tmp_path / "bad.npy")


def test_bad_rows_are_found():
    z = Z.copy()
    z[1, 2], z[3, 0] = np.nan, np.inf
    np.testing.assert_array_equal(files.find_bad_rows(z, block=3), [1, 3])
    assert files.find_bad_rows(Z).size == 0


def npy_bytes(tmp_path, z):
    np.save(tmp_path / "good.npy", z, allow_pickle=True)
    return (tmp_path / "good.npy").read_bytes()


def safetensors_bytes(header, body):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def bad_npy(tmp_path):
    good = npy_bytes(tmp_path, Z)
    structured = np.zeros(3, dtype=[("a", "f4"), ("b", "f4")])
    return {
        "truncated": (good[:-5], "is truncated"),
        "trailing": (good + b"x", "has trailing bytes"),
        "half a header": (good[:40], "damaged"),
        "not npy": (b"hello world", "damaged"),
        "empty": (b"", "damaged"),
        "objects": (npy_bytes(tmp_path, np.array([{}, []], object)), "never unpickled"),
        "structured": (npy_bytes(tmp_path, structured), "structured dtype"),
        "integers": (npy_bytes(tmp_path, Z.astype(int)), "must be floating point"),
        "one axis": (npy_bytes(tmp_path, Z[0]), "samples x features"),
        "no rows": (npy_bytes(tmp_path, Z[:0]), "samples x features"),
        "huge shape": (good.replace(b"(4, 3)", b"(9, 9)"), "is truncated"),
    }


def bad_safetensors():
    good = {"z": {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]}}
    body = Z.tobytes()
    overlong = (10**9).to_bytes(8, "little") + b"{}"
    unknown = {"z": {**good["z"], "dtype": "F8"}}
    misfit = {"z": {**good["z"], "shape": [5, 3]}}
    return {
        "header beyond the file": (overlong, "header of 1000000000 bytes"),
        "truncated": (safetensors_bytes(good, body[:-1]), "is truncated"),
        "trailing": (safetensors_bytes(good, body + b"x"), "has trailing bytes"),
        "dtype": (safetensors_bytes(unknown, body), "not described properly"),
        "offsets": (safetensors_bytes(misfit, body), "does not fit its data offsets"),
        "no json": ((2).to_bytes(8, "little") + b"zz", "damaged"),
        "empty": (b"", "header of 0 bytes in a file of 0"),
    }


def test_damaged_files_get_one_clear_line(tmp_path):
    cases = [("npy", *case) for case in bad_npy(tmp_path).values()]
    cases += [("safetensors", *case) for case in bad_safetensors().values()]
    cases += [("npz", b"PK\\x03\\x04", "damaged"), ("parquet", b"PAR1", "damaged")]
    for kind, content, message in cases:
        path = tmp_path / f"bad.{kind}"
        path.write_bytes(content)
        with pytest.raises(InputError, match=message) as caught:
            files.read_latents(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a/z.npy", Z, "has a path in its name"),
        ("..\\z.npy", Z, "has a path in its name"),
        ("z.npy", np.zeros((3000, 1000), np.float32), "unpacks to 12000128 bytes, refused"),
    ],
)
def test_unsafe_archives_are_refused(tmp_path, name, content, message):
    raw = npy_bytes(tmp_path, content)
    with zipfile.ZipFile(tmp_path / "z.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, raw)
    with pytest.raises(InputError, match=message):
        files.read_latents(tmp_path / "z.npz")


def test_missing_files_and_unknown_kinds(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        files.read_latents(tmp_path / "z.npy")
    with pytest.raises(InputError, match=r"expected a file ending in \.npy"):
        files.read_latents(tmp_path / "z.csv")


def test_missing_values_in_parquet_are_counted(tmp_path):
    column = pa.array([[1.0, 2.0], None, [3.0, None]], pa.list_(pa.float32(), 2))
    pq.write_table(pa.table({"z": column}), tmp_path / "z.parquet")
    with pytest.raises(InputError, match="column 'z' has 1 missing values"):
        files.read_latents(tmp_path / "z.parquet")


def test_many_rows_are_taken_into_a_mapped_file(tmp_path, monkeypatch):
    np.save(tmp_path / "z.npy", Z)
    z = files.read_latents(tmp_path / "z.npy")
    assert files.take_rows(z, np.arange(4)) is z
    rows = np.array([3, 1])
    for limit, kind in ((1 << 31, np.ndarray), (8, np.memmap)):
        monkeypatch.setattr(files, "IN_MEMORY", limit)
        taken = files.take_rows(z, rows, block=1)
        assert isinstance(taken, kind)
        np.testing.assert_array_equal(taken, Z[rows])


def test_lists_of_one_length_are_a_matrix_and_others_are_named(tmp_path):
    pq.write_table(pa.table({"z": Z.tolist(), "id": [1, 2, 3, 4]}), tmp_path / "z.parquet")
    np.testing.assert_array_equal(files.read_latents(tmp_path / "z.parquet"), Z)
    np.testing.assert_array_equal(files.read_column(tmp_path / "z.parquet"), [1, 2, 3, 4])
    pq.write_table(pa.table({"z": [[1.0], [1.0, 2.0]]}), tmp_path / "ragged.parquet")
    with pytest.raises(InputError, match="lists of 2 different lengths"):
        files.read_latents(tmp_path / "ragged.parquet")
