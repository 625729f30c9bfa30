"""Cached arrays: written once, verified when read, and made again when damaged."""

import hashlib
import logging

import numpy as np
import pytest

from socialjepa_jax.data import cache

ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def never():
    raise AssertionError("made although cached")


def test_an_array_is_made_once_and_read_back(tmp_path):
    path = tmp_path / "new" / "array.npy"
    np.testing.assert_array_equal(cache.cached_array(path, lambda: ARRAY), ARRAY)
    stored = cache.cached_array(path, never)
    np.testing.assert_array_equal(stored, ARRAY)
    assert stored.dtype == np.uint8
    np.testing.assert_array_equal(np.load(path), ARRAY)
    assert [file.name for file in path.parent.iterdir()] == ["array.npy"]


@pytest.mark.parametrize("place", [0, 9, 60, -33, -1])
def test_a_flipped_bit_is_noticed(tmp_path, caplog, place):
    path = tmp_path / "array.npy"
    cache.cached_array(path, lambda: ARRAY)
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)
    np.testing.assert_array_equal(cache.cached_array(path, lambda: ARRAY + 1), ARRAY + 1)
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warnings == [f"{path}: damaged or truncated, made anew"]
    np.testing.assert_array_equal(cache.cached_array(path, never), ARRAY + 1)


@pytest.mark.parametrize("length", [0, 20, 32, 100])
def test_a_truncated_file_is_made_anew(tmp_path, length):
    path = tmp_path / "array.npy"
    cache.cached_array(path, lambda: ARRAY)
    path.write_bytes(path.read_bytes()[:length])
    np.testing.assert_array_equal(cache.cached_array(path, lambda: ARRAY), ARRAY)
    np.testing.assert_array_equal(cache.cached_array(path, never), ARRAY)


@pytest.mark.parametrize("content", [b"", b"no array"])
def test_a_file_that_never_held_an_array_is_made_anew(tmp_path, content):
    path = tmp_path / "array.npy"
    path.write_bytes(content + hashlib.sha256(content).digest())
    np.testing.assert_array_equal(cache.cached_array(path, lambda: ARRAY), ARRAY)


def test_without_a_writable_folder_the_array_is_still_returned(tmp_path, caplog):
    (tmp_path / "file").write_text("no folder")
    path = tmp_path / "file" / "array.npy"
    np.testing.assert_array_equal(cache.cached_array(path, lambda: ARRAY), ARRAY)
    assert "cannot be cached" in caplog.text


def test_a_failed_write_leaves_no_temporary_file(tmp_path):
    path = tmp_path / "array.npy"
    path.mkdir()  # cannot be read as a file, nor replaced by one
    np.testing.assert_array_equal(cache.cached_array(path, lambda: ARRAY), ARRAY)
    assert [file.name for file in tmp_path.iterdir()] == ["array.npy"]
