"""The tables of nuScenes, read with the json module: the key frames of all cameras, by sample.

A camera's row of `sample_data` names its sensor by way of `calibrated_sensor`. Rows that are no key
frames carry the token of the sample that follows closest in time, so they are left out. What is
needed of the tables (hundreds of megabytes) is a small Parquet file beside them, read from then on.

Schema: nutonomy/nuscenes-devkit, docs/schema_nuscenes.md.

Shape key: K cameras, N samples.
"""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from absl import logging

from socialjepa_jax.errors import InputError, shown
from socialjepa_jax.records import replacing

CHANNELS = (
    "CAM_FRONT", "CAM_FRONT_LEFT", "CAM_FRONT_RIGHT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT",
)  # fmt: skip
TABLES = ("sample", "sample_data", "calibrated_sensor", "sensor", "scene", "log")
CONDITIONS = ("day", "rain", "night", "night and rain")
_VERSION = b"1"  # of the pair table
_TEXTS = ("token", "scene_token", "scene", "description", "log")

Row = tuple[Any, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class KeyFrames:
    """Key frames of all samples, ordered by scene and time.

    Attributes:
        token, scene_token, scene, description, log: str[N], of the sample, its scene (the token,
            the name, which is not unique in every release, and the annotator's words) and the log
            that the scene was cut from.
        files: str[K, N], relative to the data root; "" where a sample lacks the camera.
        timestamps: i64[K, N], microseconds; 0 where it lacks it.
    """

    token: np.ndarray
    scene_token: np.ndarray
    scene: np.ndarray
    description: np.ndarray
    log: np.ndarray
    files: np.ndarray
    timestamps: np.ndarray

    def select(self, keep: np.ndarray) -> "KeyFrames":
        """Returns the samples where bool[N] is true."""
        fields = {f.name: getattr(self, f.name)[..., keep] for f in dataclasses.fields(self)}
        return KeyFrames(**fields)


def condition(description: str) -> str:
    """Returns one of `CONDITIONS`, by the words of a scene's description.

    The schema has no such field. As the maintainers advise (nuscenes-devkit#124), the text is
    searched for "night" and "rain" in lower case; so "after rain" is rain.
    """
    text = description.lower()
    found = [name for name in ("night", "rain") if name in text]
    return " and ".join(found) or CONDITIONS[0]


def read(root: pathlib.Path, version: str) -> KeyFrames:
    """Reads the key frames from the pair table, or from the JSON tables, and writes it.

    Args:
        root: folder that holds `version` and the images.
        version: folder of the tables, such as "v1.0-trainval".

    Raises:
        InputError: a table is missing, damaged or contradicts another one; the message names it.
    """
    paths = {name: root / version / f"{name}.json" for name in TABLES}
    digest = hashlib.sha256(_VERSION)
    for path in paths.values():
        try:
            status = path.stat()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    pairs = root / f"pairs_{version}.parquet"
    stored = _stored(pairs, digest.digest())
    if stored is not None:
        return stored
    frames = _from_tables(paths)
    try:
        with replacing(pairs) as temporary:
            pq.write_table(_to_table(frames, digest.digest()), temporary)
    except OSError as error:
        logging.warning("%s: cannot be written (%s)", pairs, error.strerror)
    return frames


def _to_table(frames: KeyFrames, digest: bytes) -> pa.Table:
    columns = {name: pa.array(getattr(frames, name).tolist(), pa.string()) for name in _TEXTS}
    for channel, files, timestamps in zip(CHANNELS, frames.files, frames.timestamps):
        columns[channel] = pa.array(files.tolist(), pa.string())
        columns[f"{channel}_us"] = pa.array(timestamps, pa.int64())
    return pa.table(columns).replace_schema_metadata({b"tables": digest})


def _stored(path: pathlib.Path, digest: bytes) -> KeyFrames | None:
    """Reads a pair table; None if there is none, or one of other tables."""
    if not path.is_file():
        return None
    try:
        table = pq.read_table(path)
        if (table.schema.metadata or {}).get(b"tables") != digest:
            return None
        texts = {name: np.array(table[name].to_pylist()) for name in _TEXTS}
        files = np.array([table[channel].to_pylist() for channel in CHANNELS])
        times = np.array([table[f"{channel}_us"].to_pylist() for channel in CHANNELS], np.int64)
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        logging.warning("%s: %s; made anew", path, error)
        return None
    return KeyFrames(**texts, files=files, timestamps=times)


def _from_tables(paths: Mapping[str, pathlib.Path]) -> KeyFrames:
    text, whole = str, int
    logs = _rows(paths["log"], {"token": text})
    scenes = _rows(
        paths["scene"], {"token": text, "name": text, "description": text, "log_token": text}
    )
    samples = _rows(paths["sample"], {"token": text, "timestamp": whole, "scene_token": text})
    for token, (_, _, log) in scenes.items():
        _of(logs, log, paths["scene"], token, "log")
    for token, (_, scene) in samples.items():
        _of(scenes, scene, paths["sample"], token, "scene")
    order = {token: number for number, token in enumerate(scenes)}
    tokens = sorted(samples, key=lambda token: (order[samples[token][1]], samples[token][0]))
    files, timestamps = _cameras(paths, {token: n for n, token in enumerate(tokens)})
    scene_tokens = [samples[token][1] for token in tokens]
    names, descriptions, log_tokens = zip(*(scenes[token] for token in scene_tokens))
    return KeyFrames(
        np.array(tokens),
        np.array(scene_tokens),
        np.array(names),
        np.array(descriptions),
        np.array(log_tokens),
        files,
        timestamps,
    )


def _cameras(
    paths: Mapping[str, pathlib.Path], number: Mapping[str, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Reads the key frames' files str[K, N] and timestamps i64[K, N].

    Args:
        paths: of the tables.
        number: of each sample, by its token.
    """
    path = paths["sample_data"]
    sensors = _rows(paths["sensor"], {"token": str, "channel": str})
    calibrated = _rows(paths["calibrated_sensor"], {"token": str, "sensor_token": str})
    fields = {
        "token": str, "sample_token": str, "calibrated_sensor_token": str, "timestamp": int,
        "filename": str, "is_key_frame": bool,
    }  # fmt: skip
    files: list[list[str]] = [[""] * len(number) for _ in CHANNELS]
    timestamps = np.zeros((len(CHANNELS), len(number)), np.int64)
    for token, (sample, sensor, time, file, _) in _rows(
        path, fields, lambda row: row["is_key_frame"]
    ).items():
        sensor = _of(calibrated, sensor, path, token, "calibrated_sensor")[0]
        (channel,) = _of(sensors, sensor, paths["calibrated_sensor"], sensor, "sensor")
        n = _of(number, sample, path, token, "sample")
        if channel not in CHANNELS:
            continue
        k = CHANNELS.index(channel)
        if files[k][n]:
            raise InputError(f"{path}: sample {shown(sample)} has two key frames of {channel}")
        parts = pathlib.PurePosixPath(file)
        if not file or parts.is_absolute() or ".." in parts.parts:
            raise InputError(f"{path}: {shown(token)}: {file!r} leaves the folder")
        files[k][n], timestamps[k, n] = file, time
    return np.array(files), timestamps


def _of(rows: Mapping[str, Any], token: str, path: pathlib.Path, by: str, what: str) -> Any:
    """Returns the row of a token that another row names."""
    if token not in rows:
        raise InputError(f"{path}: {shown(by)} names the {what} {shown(token)}, which is missing")
    return rows[token]


def _rows(
    path: pathlib.Path,
    fields: Mapping[str, type],
    wanted: Callable[[dict[str, Any]], bool] = lambda row: True,
) -> dict[str, Row]:
    """Reads a table: token -> the other fields of each wanted row.

    Rows are made small while the file is parsed: `sample_data` has millions.

    Raises:
        InputError: the file is no list of rows with these fields, or a token occurs twice.
    """

    def small(row: dict[str, Any]) -> Row | None:
        for name, kind in fields.items():
            if type(row.get(name)) is not kind:
                value = shown(row.get(name))
                raise InputError(f"{path}: a row has {name}={value}, must be {kind.__name__}")
        return tuple(row[name] for name in fields) if wanted(row) else None

    try:
        rows = json.loads(path.read_bytes(), object_hook=small)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no JSON ({error})") from error
    if not isinstance(rows, list) or not all(row is None or type(row) is tuple for row in rows):
        raise InputError(f"{path}: must be a list of rows")
    found: dict[str, Row] = {}
    for row in rows:
        if row is not None:
            if row[0] in found:
                raise InputError(f"{path}: the token {shown(row[0])} occurs twice")
            found[row[0]] = row[1:]
    if not found:
        raise InputError(f"{path}: has no rows")
    return found
