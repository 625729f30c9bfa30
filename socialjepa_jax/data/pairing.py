"""Pairing: images of the same state, one from each camera, become a view dataset with splits."""

import numpy as np
from absl import logging

from socialjepa_jax.data.base import ObservationTable, Protocol, Splits, ViewDataset, distinct_rows
from socialjepa_jax.errors import InputError


def pair_views(
    table: ObservationTable, protocol: Protocol, splits: Splits, name: str
) -> ViewDataset:
    """Pairs the images that show the same state. The order of the table's rows does not matter.

    States are all factor combinations that at least one camera has an image of, sorted. A state
    that any camera lacks is dropped and counted.

    Args:
        table: M images.
        protocol: what a state is and where the cameras stand.
        splits: what is held out.
        name: name of the resulting dataset.

    Returns:
        The view dataset of N states and K = len(protocol.azimuths) cameras.

    Raises:
        InputError: a camera sees nothing, no state is seen by all cameras, two images show the
            same observation, or a split leaves a side empty.
    """
    all_states, rows = _rows_by_state(table, protocol, name)
    complete = (rows >= 0).all(axis=0)
    if not complete.any():
        raise InputError(f"{name}: no state is seen from all azimuths={protocol.azimuths}")
    if not complete.all():
        logging.info("%s: %d states lack a camera and are dropped", name, (~complete).sum())
    rows, factors = rows[:, complete], all_states[complete].astype(np.int32)
    instance_ids = distinct_rows(factors[:, :2])[1].astype(np.int32)
    return ViewDataset(
        name=name,
        images=table.images[rows],
        state_ids=np.flatnonzero(complete),
        instance_ids=instance_ids,
        labels=factors[:, 0].copy(),
        label_names=table.label_names,
        factors=factors,
        factor_names=_state_factors(table, protocol),
        split_state=_split_states(len(factors), splits),
        split_instance=_split_instances(factors[:, 0], instance_ids, table.label_names, splits),
        overlap=float((np.bincount(rows.ravel())[rows] > 1).mean()),
        num_dropped=int((~complete).sum()),
    )


def _rows_by_state(
    table: ObservationTable, protocol: Protocol, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Lists the states and the table row of every camera's image of them.

    Returns:
        The sorted states [n, F] of all cameras, and i64 [K, n] rows of the table, -1 where a
        camera has no image of a state.

    Raises:
        InputError: a camera sees nothing, or two images show the same observation.
    """
    views = [_camera_view(table, protocol, azimuth) for azimuth in protocol.azimuths]
    all_states, state_of_image = distinct_rows(np.concatenate([states for _, states in views]))
    ends = np.cumsum([len(camera_rows) for camera_rows, _ in views])
    rows = np.full((len(views), len(all_states)), -1, np.int64)
    for camera, seen in enumerate(np.split(state_of_image, ends[:-1])):
        if len(np.unique(seen)) < len(seen):
            twice = all_states[np.argmax(np.bincount(seen))].tolist()
            names = _state_factors(table, protocol)
            raise InputError(f"{name}: two images have the factors {names} = {twice}")
        rows[camera, seen] = views[camera][0]
    return all_states, rows


def _state_factors(table: ObservationTable, protocol: Protocol) -> tuple[str, ...]:
    first, last = ("category", "instance"), ("azimuth",)
    others = tuple(name for name in table.factor_names if name not in first + last)
    return first + others + (last if protocol.kind == "rig" else ())


def _camera_view(
    table: ObservationTable, protocol: Protocol, azimuth: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the table rows [n] that a camera sees and the states [n, F] they show."""
    names = _state_factors(table, protocol)
    columns = [table.column(name).astype(np.int64) for name in names]
    if protocol.kind == "norb":
        seen = table.column("azimuth") == azimuth
    else:
        low, high = protocol.sector
        columns[-1] = (columns[-1] - azimuth) % 360  # the pose azimuth
        seen = (low <= columns[-1]) & (columns[-1] < high)
    if not seen.any():
        raise InputError(
            f"azimuths: the camera at {azimuth} degrees sees nothing (sector={protocol.sector}); "
            f"the images' azimuths are {np.unique(table.column('azimuth')).tolist()}"
        )
    return np.flatnonzero(seen), np.stack(columns, axis=1)[seen]


def _split_states(num_states: int, splits: Splits) -> np.ndarray:
    split = np.zeros(num_states, np.int32)
    split[splits.draw(num_states, 0, f"{num_states} states")] = 1
    return split


def _split_instances(
    labels: np.ndarray, instance_ids: np.ndarray, label_names: tuple[str, ...], splits: Splits
) -> np.ndarray:
    held_out = []
    for label in np.unique(labels):
        objects = np.unique(instance_ids[labels == label])
        if splits.test_instances >= len(objects):
            raise InputError(
                f"test_instances={splits.test_instances} must be below the {len(objects)} objects "
                f"of category {label_names[label]!r}"
            )
        rng = np.random.default_rng([splits.seed, 1, label])
        held_out.append(rng.permutation(objects)[: splits.test_instances])
    return np.isin(instance_ids, np.concatenate(held_out)).astype(np.int32)
