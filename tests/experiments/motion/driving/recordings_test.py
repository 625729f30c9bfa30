"""Recordings as folders of frames: a file is unpacked once, a folder is taken as it is."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

from experiments.motion.driving import recordings
from socialjepa_jax.errors import InputError
from tests.data.image_folder import encoded

MOMENTS = 40


def shade(t, k):
    return np.full((4, 8, 3), 5 * t + 10 * k, np.uint8)


@pytest.fixture
def drive(tmp_path):
    """A file of three cameras, whose grey values tell moment and camera."""
    blobs = [encoded(shade(t, k), "JPEG", quality=95) for t in range(MOMENTS) for k in range(3)]
    driven = np.zeros((MOMENTS, 4), np.float32)
    driven[:, 0], driven[:, 3] = np.arange(MOMENTS) % 2, np.arange(MOMENTS)
    np.savez(
        tmp_path / "drive.npz",
        jpeg=np.frombuffer(b"".join(blobs), np.uint8),
        offset=np.cumsum([0, *map(len, blobs)]),
        steering_throttle_brake_speed=driven,
    )
    return tmp_path / "drive.npz"


def test_a_file_is_unpacked_once(drive, tmp_path):
    data = recordings.recording(str(drive), tmp_path / "out", 0)
    assert set(data.cameras) == set(recordings.DRIVE)
    assert data.states == ("steering", "speed", "bend")
    found = dataclasses.replace(data, block=5, margin=0, image_size=(4, 8)).load(tmp_path)
    images = np.asarray(found.images)
    for k, camera in enumerate(data.cameras):
        number = recordings.DRIVE.index(camera)
        expected = [shade(t, number)[0, 0, 0] for t in found.state_ids]
        np.testing.assert_allclose(images[k, :, 0, 0, 0], expected, atol=2)
    t = found.state_ids
    np.testing.assert_array_equal(found.states[:, 0], t % 2)
    np.testing.assert_array_equal(found.states[:, 1], t)
    inside = (t >= 7) & (t < MOMENTS - 7)  # seven or eight of fifteen moments steer
    mean = np.where(t % 2 == 1, 7 / 15, 8 / 15)
    np.testing.assert_allclose(found.states[inside, 2], mean[inside], atol=1e-6)
    stamp = (tmp_path / "out" / "drive" / recordings.TABLE).stat().st_mtime_ns
    recordings.recording(str(drive), tmp_path / "out", 0)
    assert (tmp_path / "out" / "drive" / recordings.TABLE).stat().st_mtime_ns == stamp
    again = recordings.recording(str(tmp_path / "out" / "drive"), tmp_path / "other", 0)
    assert (again.cameras, again.states) == (data.cameras, data.states)


def test_what_is_no_recording_is_named(drive, tmp_path):
    with np.load(drive) as arrays:
        np.savez(tmp_path / "short.npz", **{**arrays, "offset": arrays["offset"][:-1]})
    with pytest.raises(InputError, match=r"short\.npz: 120 offsets for 40 moments of 3 cameras"):
        recordings.recording(str(tmp_path / "short.npz"), tmp_path / "out", 0)
    (tmp_path / "one" / "left").mkdir(parents=True)
    Image.new("L", (4, 4)).save(tmp_path / "one" / "left" / "0.png")
    with pytest.raises(InputError, match=r"--frames=.*one: 1 folders of cameras, two are needed"):
        recordings.recording(str(tmp_path / "one"), tmp_path, 0)
    with pytest.raises(InputError, match="no such file or folder"):
        recordings.recording(str(tmp_path / "none"), tmp_path, 0)
