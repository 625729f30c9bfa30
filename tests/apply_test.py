"""Maps applied to files: the command as users call it, in processes of their own."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from socialjepa_jax.alignment import fit
from socialjepa_jax.collaboration import apply
from socialjepa_jax.collaboration.apply import Application, apply_to_file
from socialjepa_jax.errors import InputError

D, E = 5, 3


@pytest.fixture(scope="module")
def linear_map():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, D)) + 2
    return fit(x, x @ rng.normal(size=(D, E)) + 0.3 * rng.normal(size=(80, E)))


def rows(count, width=D, seed=1):
    return np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)


def expected(linear_map, z, direction="forward", unit_norm=False):
    """The definition in float64, from the stored arrays."""
    m = linear_map
    if direction == "forward":
        out = (z - m.x_mean) / m.x_scale @ m.w.T * m.y_scale + m.y_mean
    else:
        out = (z - m.y_mean) / m.y_scale @ m.w_back.T * m.x_scale + m.x_mean
    return out / np.linalg.norm(out, axis=1, keepdims=True) if unit_norm else out


@pytest.mark.parametrize("batch", [1, 7, 20, 100])
@pytest.mark.parametrize("unit_norm", [False, True])
@pytest.mark.parametrize("direction", ["forward", "back"])
def test_an_npy_file_is_mapped_block_by_block(linear_map, tmp_path, direction, unit_norm, batch):
    z, seen = rows(20, D if direction == "forward" else E), []
    np.save(tmp_path / "in.npy", z)
    application = Application(linear_map, direction, unit_norm, batch)
    done = apply_to_file(
        application, tmp_path / "in.npy", tmp_path / "out.npy", lambda *n: seen.append(n)
    )
    found = np.load(tmp_path / "out.npy")
    assert done == 20 and found.dtype == np.float32
    np.testing.assert_allclose(
        found, expected(linear_map, z, direction, unit_norm), rtol=1e-5, atol=1e-6
    )
    assert seen == [(min(n + batch, 20), 20) for n in range(0, 20, batch)]
    assert {p.name for p in tmp_path.iterdir()} == {"in.npy", "out.npy"}


@pytest.mark.parametrize("dtype", ["<f8", "<f2", ">f4", "<i4"])
def test_real_numbers_of_all_types_are_mapped(linear_map, tmp_path, dtype):
    z = (10 * rows(9)).astype(dtype)
    np.save(tmp_path / "in.npy", z)
    apply_to_file(Application(linear_map), tmp_path / "in.npy", tmp_path / "out.npy")
    wanted = expected(linear_map, z.astype(np.float64))
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), wanted, rtol=1e-5, atol=1e-5)


def test_a_parquet_file_keeps_its_other_columns(linear_map, tmp_path):
    z, names = rows(50), [f"item {k}" for k in range(50)]
    table = pa.table({"id": names, "vector": list(z), "number": range(50)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=13)
    application = Application(linear_map, batch=8)
    assert apply_to_file(application, tmp_path / "in.parquet", tmp_path / "out.parquet") == 50
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.column_names == ["id", "vector", "number"]
    assert out["id"].to_pylist() == names and out["number"].to_pylist() == list(range(50))
    found = np.array(out["vector"].to_pylist())
    np.testing.assert_allclose(found, expected(linear_map, z), rtol=1e-5, atol=1e-6)


def _without(z, row):
    z[row, 2] = np.nan
    return z


@pytest.mark.parametrize(
    ("z", "name", "message"),
    [
        (rows(9, E), "in.npy", "has 3 features; the map takes 5 with --direction=forward"),
        (_without(rows(9), 4), "in.npy", "row 4 holds NaN or Inf"),
        (rows(9)[0], "in.npy", "must be samples x features"),
        (rows(0), "in.npy", "must be samples x features"),
        (np.asfortranarray(rows(9)), "in.npy", "np.ascontiguousarray"),
        (rows(9).astype(complex), "in.npy", "must hold real numbers"),
        (np.array(["a"], object), "in.npy", "never unpickled"),
        (b"\x93NUMPY\x01\x00v\x00", "in.npy", "damaged or not a .npy file"),
        (b"PAR1", "in.parquet", "damaged or not a .parquet file"),
        (b"", "in.txt", "expected a file ending in .npy or .parquet"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(linear_map, tmp_path, z, name, message):
    source, target = tmp_path / name, tmp_path / f"out{name[2:]}"
    if isinstance(z, bytes):
        source.write_bytes(z)
    else:
        np.save(source, z)
    target.write_bytes(b"earlier")
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        apply_to_file(Application(linear_map, batch=3), source, target)
    assert target.read_bytes() == b"earlier"
    assert {p.name for p in tmp_path.iterdir()} == {name, target.name}


def test_files_and_columns_are_named(linear_map, tmp_path):
    pq.write_table(pa.table({"a": list(rows(4)), "b": list(rows(4))}), tmp_path / "in.parquet")
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    with pytest.raises(InputError, match="choose one with --key; it holds a, b"):
        apply_to_file(Application(linear_map), source, target)
    with pytest.raises(InputError, match="no embeddings 'c'; it holds a, b"):
        apply_to_file(Application(linear_map, key="c"), source, target)
    assert apply_to_file(Application(linear_map, key="b"), source, target) == 4
    with pytest.raises(InputError, match=r"out\.npy: must end in \.parquet"):
        apply_to_file(Application(linear_map, key="b"), source, tmp_path / "out.npy")
    with pytest.raises(InputError, match="no such file"):
        apply_to_file(Application(linear_map), tmp_path / "none.npy", tmp_path / "out.npy")
    with pytest.raises(InputError, match="direction='up'"):
        Application(linear_map, direction="up")
    with pytest.raises(InputError, match="batch=0"):
        Application(linear_map, batch=0)


def command(*options, **kwargs):
    line = [sys.executable, "-m", "socialjepa_jax.align", "apply", *map(str, options)]
    return subprocess.run(line, capture_output=True, text=True, **kwargs)


def test_the_command_maps_a_file_and_refuses_in_one_line(linear_map, tmp_path):
    linear_map.save(tmp_path / "map.npz")
    np.save(tmp_path / "in.npy", rows(30))
    paths = [f"--map={tmp_path}/map.npz", f"--in={tmp_path}/in.npy"]
    done = command(*paths, f"--out={tmp_path}/out.npy", "--unit_norm", "--batch=8")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"30 rows: {tmp_path}/out.npy\n"
    assert done.stderr.startswith("8 of 30 rows\n")
    found = np.load(tmp_path / "out.npy")
    np.testing.assert_allclose(found, expected(linear_map, rows(30), unit_norm=True), rtol=1e-5)
    same = command(*paths, f"--out={tmp_path}/in.npy")
    assert same.returncode == 2 and same.stderr.count("\n") == 1
    assert "is the file of --in" in same.stderr
    assert "give --map, --in and --out" in command(*paths).stderr


PEAK = """
import pathlib, resource, sys
import numpy as np
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.collaboration.apply import Application, apply_to_file
folder = pathlib.Path(sys.argv[1])
application = Application(LinearMap.load(folder / "map.npz"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
apply_to_file(application, folder / "in.npy", folder / "out.npy")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_file(linear_map, tmp_path):
    """120 MB in and 70 MB out by blocks of 8,192 rows, each below 2 MB."""
    linear_map.save(tmp_path / "map.npz")
    np.save(tmp_path / "in.npy", rows(6_000_000))
    line = [sys.executable, "-c", PEAK, str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40_000  # kB
    assert np.load(tmp_path / "out.npy", mmap_mode="r").shape == (6_000_000, E)
    assert apply.ROWS == 8192
