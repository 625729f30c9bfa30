import json
import zipfile

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from socialjepa_jax import errors
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


@pytest.mark.parametrize("dtype", ["i1", "u1", "<i2", ">u2", "i4", "i8", "u8"])
def test_quantised_embeddings_become_floats(tmp_path, monkeypatch, dtype):
    """Exactly, whatever their type, and beyond the memory in a file."""
    z = np.array([[0, 1], [np.iinfo(dtype).max % 2**53, 2]], dtype)
    np.save(tmp_path / "z.npy", z)
    for limit in (1 << 31, 0):
        monkeypatch.setattr(files, "IN_MEMORY", limit)
        found = files.read_latents(tmp_path / "z.npy")
        assert found.dtype == (np.float32 if z.itemsize <= 2 else np.float64)
        assert isinstance(found, np.memmap) == (not limit)
        assert found.astype(int).tolist() == z.astype(int).tolist()
    np.savez(tmp_path / "z.npz", quantised=z, tokens=z.astype(np.int64), more=z.astype(">u4"))
    layers = files.read_layers(tmp_path / "z.npz", found)
    assert list(layers) == (["quantised"] if z.itemsize == 1 else [])


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

    def shaped(shape):
        return good.replace(b"(4, 3), }".ljust(len(shape) + 3), shape + b", }", 1)

    structured = np.zeros(3, dtype=[("a", "f4"), ("b", "f4")])
    return {
        "truncated": (good[:-5], "is truncated"),
        "trailing": (good + b"x", "has trailing bytes"),
        "half a header": (good[:40], "damaged"),
        "not npy": (b"hello world", "damaged"),
        "empty": (b"", "damaged"),
        "objects": (npy_bytes(tmp_path, np.array([{}, []], object)), "never unpickled; save text"),
        "structured": (npy_bytes(tmp_path, structured), "structured dtype"),
        "truths": (npy_bytes(tmp_path, Z > 1), "must be numbers, got bool"),
        "one axis": (npy_bytes(tmp_path, Z[0]), "samples x features"),
        "no rows": (npy_bytes(tmp_path, Z[:0]), "samples x features"),
        "dtype of another literal": (good.replace(b"'<f4'", b"'<f,'", 1), "damaged"),
        "number and letters": (shaped(b"(4, 3and 3)"), "damaged|trailing"),
        "boolean size": (shaped(b"(True, 12)"), "is no shape of an array"),
        "a size of 50 digits": (shaped(b"(%d, 0)" % 10**49), "is no shape of an array"),
        "huge shape": (good.replace(b"(4, 3)", b"(9, 9)"), "is truncated"),
    }


def bad_safetensors():
    good = {"z": {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]}}
    body = Z.tobytes()
    overlong = (10**9).to_bytes(8, "little") + b"{}"
    entry = good["z"]
    unknown = {"z": {**entry, "dtype": "F8"}}
    misfit = {"z": {**entry, "shape": [5, 3]}}
    nested = b"[" * 100_000
    twice = b'{"z": %b, "z": %b}' % ((json.dumps(entry).encode(),) * 2)
    strange = [
        {"z": {**entry, "dtype": ["F32"]}},
        {"z": {**entry, "data_offsets": ["0", "48"]}},
        {"z": {**entry, "data_offsets": [0.0, 48.0]}},
        {"z": {**entry, "shape": "43"}},
        {"z": {**entry, "shape": [True, 12]}},
        {"z": {**entry, "shape": [-4, -3]}},
        {"z": {**entry, "shape": [10**400, 0]}},
        {"z": 3},
        {"\ud800": entry},
        [entry],
        7,
    ]
    return {
        "header beyond the file": (overlong, "header of 1000000000 bytes"),
        "truncated": (safetensors_bytes(good, body[:-1]), "is truncated"),
        "trailing": (safetensors_bytes(good, body + b"x"), "has trailing bytes"),
        **{
            f"strange {i}": (safetensors_bytes(header, body), "not described|no shape|no table")
            for i, header in enumerate(strange)
        },
        "nested": (len(nested).to_bytes(8, "little") + nested, "damaged"),
        "twice": (len(twice).to_bytes(8, "little") + twice + body, "a name occurs twice"),
        "dtype": (safetensors_bytes(unknown, body), "has dtype 'F8', not supported"),
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
    ],
)
def test_unsafe_archives_are_refused(tmp_path, name, content, message):
    raw = npy_bytes(tmp_path, content)
    with zipfile.ZipFile(tmp_path / "z.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, raw)
    with pytest.raises(InputError, match=message):
        files.read_latents(tmp_path / "z.npz")


def test_members_that_cannot_be_read_do_not_hinder_the_others(tmp_path):
    with zipfile.ZipFile(tmp_path / "z.npz", "w") as archive:
        archive.writestr("objects.npy", npy_bytes(tmp_path, np.array([{}, []], object)))
        archive.writestr("folder/", b"")
        archive.writestr("layer/0.npy", npy_bytes(tmp_path, Z))
        archive.writestr("z.npy", npy_bytes(tmp_path, Z))
    for key in ("z", None):
        np.testing.assert_array_equal(files.read_latents(tmp_path / "z.npz", key), Z)
    assert list(files.read_layers(tmp_path / "z.npz", Z)) == ["z"]
    for key, message in (("objects", "never unpickled"), ("layer/0", "has a path in its name")):
        with pytest.raises(InputError, match=message):
            files.read_array(tmp_path / "z.npz", key)


def test_tensors_of_unknown_dtype_do_not_hinder_the_others(tmp_path):
    entry = {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]}
    header = {"z": entry, "tiny": {"dtype": "F4", "shape": [8], "data_offsets": [48, 52]}}
    path = tmp_path / "z.safetensors"
    path.write_bytes(safetensors_bytes(header, Z.tobytes() + bytes(4)))
    np.testing.assert_array_equal(files.read_array(path), Z)


def test_a_member_without_a_name_is_damage(tmp_path):
    with zipfile.ZipFile(tmp_path / "z.npz", "w") as archive:
        archive.writestr("z", npy_bytes(tmp_path, Z))
    data = (tmp_path / "z.npz").read_bytes().replace(b"z\x93NUMPY", b"\0\x93NUMPY")
    entry = data.index(b"PK\1\2") + 46
    (tmp_path / "z.npz").write_bytes(data[:entry] + b"\0" + data[entry + 1 :])
    with pytest.raises(InputError, match="damaged"):
        files.read_latents(tmp_path / "z.npz")


def test_a_name_of_two_members_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "z.npz", "w") as archive:
        archive.writestr("z.npy", npy_bytes(tmp_path, Z))
        archive.writestr("z", npy_bytes(tmp_path, -Z))
    with pytest.raises(InputError, match="two members are called 'z'"):
        files.read_latents(tmp_path / "z.npz")


def test_encrypted_and_unknown_compression_is_one_line(tmp_path):
    raw = npy_bytes(tmp_path, Z)
    for flag, method, message in ((1, 0, "encrypted"), (0, 77, "compression method 77")):
        with zipfile.ZipFile(tmp_path / "z.npz", "w") as archive:
            archive.writestr("z.npy", raw)
        data = bytearray((tmp_path / "z.npz").read_bytes())
        entry = data.index(b"PK\1\2")
        data[entry + 8] |= flag
        data[entry + 10] = method
        (tmp_path / "z.npz").write_bytes(data)
        with pytest.raises(InputError, match=message):
            files.read_latents(tmp_path / "z.npz")


def test_arrays_that_compress_well_are_read(tmp_path):
    mask = np.zeros((20, 250_000), np.uint8)  # 5 MB of zeros: 1029 to 1
    np.savez_compressed(tmp_path / "z.npz", z=mask, x=Z)
    assert mask.nbytes > 900 * (tmp_path / "z.npz").stat().st_size
    assert not files.read_array(tmp_path / "z.npz", "z").any()
    np.testing.assert_array_equal(files.read_latents(tmp_path / "z.npz", "x"), Z)


@pytest.mark.parametrize("kind", [".npz", ".parquet", "text.parquet"])
def test_files_that_unpack_to_too_much_are_refused(tmp_path, monkeypatch, kind):
    path = tmp_path / f"z{kind}"
    zeros = np.zeros((2000, 300), np.float32)
    if kind == "text.parquet":
        pq.write_table(pa.table({"z": ["x" * 1200] * 2000}), path)
    else:
        write(path, zeros)
    assert len(files.read_array(path)) == 2000
    size = path.stat().st_size
    monkeypatch.setattr(errors, "MAX_UNPACKED", 2_000_000)
    with pytest.raises(InputError, match=rf"{size} bytes unpack to \d+ bytes, refused"):
        files.read_array(path)
    monkeypatch.setattr(errors, "MAX_RATIO", 1 + 9_600_000 // size)
    assert len(files.read_array(path)) == 2000


def test_memory_is_not_spent_on_a_method_without_a_bound(tmp_path):
    with zipfile.ZipFile(tmp_path / "z.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("z.npy", npy_bytes(tmp_path, Z))
    with pytest.raises(InputError, match=r"compression method 12; \.npz files are stored or"):
        files.read_latents(tmp_path / "z.npz")


@pytest.mark.parametrize("kind", ["U8", "U16", "U32", "U64", "F8_E4M3", "F8_E5M2"])
def test_numbers_of_safetensors_are_read(tmp_path, kind):
    eights = {"F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2}
    values = Z.astype(eights[kind] if kind in eights else f"<u{int(kind[1:]) // 8}")
    entry = {"dtype": kind, "shape": [4, 3], "data_offsets": [0, values.nbytes]}
    (tmp_path / "z.safetensors").write_bytes(safetensors_bytes({"z": entry}, values.tobytes()))
    read = files.read_latents if kind in eights else files.read_array
    found = read(tmp_path / "z.safetensors")
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found.astype(float), values.astype(float))


def tensors(values):
    kind = pa.fixed_shape_tensor(pa.float32(), values.shape[1:])
    flat = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values[0].size)
    return pa.ExtensionArray.from_storage(kind, flat)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (tensors(Z), Z),
        (tensors(Z.reshape(2, 2, 3)), Z.reshape(2, 2, 3)),
        (pa.array(Z.tolist(), pa.list_view(pa.float32())), Z),
        (pa.array(Z.tolist(), pa.large_list(pa.float32())), Z),
        (pa.array([], pa.list_(pa.float32(), 3)), Z[:0]),
        (pa.array([], pa.list_(pa.float32())), Z[:0, :0]),
        (pa.array([], pa.string()), np.zeros(0, "U1")),
        (pa.array([b"\xff\x00", b"\x01\x02"], pa.binary(2)), np.array([b"\xff\x00", b"\x01\x02"])),
        (pa.array([bytes(range(16))], pa.uuid()), np.array([bytes(range(16))])),
        (pa.array([b"a", b"\xff"], pa.binary()), np.array([b"a", b"\xff"])),
        (pa.array(["é", "b"], pa.string_view()), np.array(["é", "b"])),
        (pa.array(["a", "b", "a"]).dictionary_encode(), np.array(["a", "b", "a"])),
        (pa.array([2**64 - 1, 0], pa.uint64()), np.array([2**64 - 1, 0], np.uint64)),
    ],
)
def test_columns_of_parquet_files_are_read(tmp_path, column, expected):
    pq.write_table(pa.table({"z": column}), tmp_path / "z.parquet")
    found = files.read_array(tmp_path / "z.parquet")
    assert found.shape == expected.shape and found.dtype.kind == expected.dtype.kind
    np.testing.assert_array_equal(found, expected)


def test_parquet_files_without_rows_or_with_two_columns_of_one_name_are_named(tmp_path):
    pq.write_table(pa.table({"z": pa.array([], pa.list_(pa.float32(), 3))}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"samples x features, got \(0, 3\)"):
        files.read_latents(tmp_path / "a.parquet")
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["z", "z"])
    pq.write_table(table, tmp_path / "b.parquet")
    with pytest.raises(InputError, match="two columns have one name"):
        files.read_array(tmp_path / "b.parquet", "z")


def test_text_that_numpy_cannot_hold_is_refused(tmp_path):
    pq.write_table(pa.table({"id": ["a\0", "b"]}), tmp_path / "z.parquet")
    with pytest.raises(InputError, match="end in a zero character"):
        files.read_column(tmp_path / "z.parquet")
    for code in (0xD800, 0x110000):
        np.save(tmp_path / "z.npy", np.frombuffer(np.array([65, code], "<u4"), "<U1"))
        with pytest.raises(InputError, match="no Unicode"):
            files.read_column(tmp_path / "z.npy")


def test_checksums_of_pages_are_verified(tmp_path):
    table = pa.table({"z": Z[:, 0] + 0.1})
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(table, tmp_path / "z.parquet", **options)
    data = bytearray((tmp_path / "z.parquet").read_bytes())
    data[data.index(table["z"].to_numpy().tobytes()) + 5] ^= 1
    (tmp_path / "z.parquet").write_bytes(data)
    assert (pq.read_table(tmp_path / "z.parquet")["z"].to_numpy() != Z[:, 0] + 0.1).any()
    with pytest.raises(InputError, match="CRC checksum verification failed"):
        files.read_array(tmp_path / "z.parquet")


def test_missing_files_and_unknown_kinds(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        files.read_latents(tmp_path / "z.npy")
    with pytest.raises(InputError, match="File name too long"):
        files.read_latents(tmp_path / f"{300 * 'z'}.npy")
    with pytest.raises(InputError, match=r"expected a file ending in \.npy"):
        files.read_latents(tmp_path / "z.txt")


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


def test_lists_beside_the_embeddings_are_no_layers(tmp_path):
    tokens = [["a"], ["b", "c"], [], ["d"]]
    pq.write_table(pa.table({"z": Z.tolist(), "tokens": tokens}), tmp_path / "z.parquet")
    layers = files.read_layers(tmp_path / "z.parquet", Z)
    np.testing.assert_array_equal(layers.pop("z"), Z)
    assert not layers
