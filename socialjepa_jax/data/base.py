"""View datasets: a state of the world and what each camera sees of it.

Every source (rendered toys, smallNORB, arrays of photographs) ends in an `ObservationTable`, flat
pictures beside integer factor columns; `pair_views` turns it into a `ViewDataset` under a
`Protocol` (which pictures show the same state) and `Splits` (what is held out).
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from absl import logging

from socialjepa_jax.data.files import Files
from socialjepa_jax.errors import InputError, check_in_range, check_non_negative, check_one_of

Images = np.ndarray | Files  # uint8, in memory or in files that are read when looked at


@dataclasses.dataclass(frozen=True)
class Protocol:
    """Which camera sees which picture of a state.

    Attributes:
        kind: "norb": azimuth is no part of the state, camera k always looks from `azimuths[k]`
            (Social-JEPA A.3: 0 against 160 degrees). "rig": the pose azimuth belongs to the state
            and camera k looks from (pose azimuth + azimuths[k]) mod 360.
        azimuths: one angle a camera, whole degrees in [0, 360).
        sector: "rig" only: pose azimuths lie in [sector[0], sector[1]), degrees. A sector no wider
            than the angle between two cameras keeps their image sets apart.
    """

    kind: str = "norb"
    azimuths: tuple[int, ...] = (0, 160)
    sector: tuple[int, int] = (0, 180)

    def __post_init__(self) -> None:
        check_one_of(("norb", "rig"), kind=self.kind)
        if not self.azimuths:
            raise InputError("azimuths=() must name at least one camera")
        for azimuth in self.azimuths:
            check_in_range(0, 359, azimuths=azimuth)
        if self.kind == "norb" and len(set(self.azimuths)) < len(self.azimuths):
            raise InputError(f"azimuths={self.azimuths} must be distinct for kind='norb'")
        if len(self.sector) != 2 or not 0 <= self.sector[0] < self.sector[1] <= 360:
            raise InputError(f"sector={self.sector} must be (low, high) within [0, 360]")


@dataclasses.dataclass(frozen=True)
class Splits:
    """What is held out, drawn by `seed` and by nothing else.

    Attributes:
        test_instances: objects held out in every category (0: none).
        test_states: share of the states held out, in (0, 1).
        seed: of both draws.
    """

    test_instances: int = 2
    test_states: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        check_non_negative(test_instances=self.test_instances, seed=self.seed)
        if not 0 < self.test_states < 1:
            raise InputError(f"test_states={self.test_states} must be in (0, 1)")


@dataclasses.dataclass(frozen=True, eq=False)
class ObservationTable:
    """Flat pictures and their integer factors, one row a picture, in any order.

    Attributes:
        images: uint8 [M, H, W, C].
        factors: integers [M, F], one column a factor. Needed: "category" (index into
            `label_names`), "instance" (an object; numbered within its category) and "azimuth"
            (whole degrees in [0, 360)); "elevation", "lighting" and others may join them.
        factor_names: the columns' names.
        label_names: the categories' names.

    Raises:
        InputError: a shape, a type, a column or a value is not as described.
    """

    images: Images
    factors: np.ndarray
    factor_names: tuple[str, ...]
    label_names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.dtype != np.uint8:
            raise InputError(
                f"images {self.images.dtype}{list(self.images.shape)} must be uint8 [M, H, W, C]"
            )
        shape = (len(self.images), len(self.factor_names))
        if self.factors.shape != shape or self.factors.dtype.kind not in "iu":
            raise InputError(
                f"factors {self.factors.dtype}{list(self.factors.shape)} must be integers "
                f"{list(shape)}: one row a picture, one column a name"
            )
        if len(set(self.factor_names)) < len(self.factor_names):
            raise InputError(f"factor_names={self.factor_names} must be distinct")
        for name in ("category", "instance", "azimuth"):
            if name not in self.factor_names:
                raise InputError(f"factor_names={self.factor_names} must have {name!r}")
        ends = {"category": len(self.label_names), "azimuth": 360}
        for name in self.factor_names:
            end = ends.get(name, 2**31)
            bad = (self.column(name) < 0) | (self.column(name) >= end)
            if bad.any():
                raise InputError(f"{name}={self.column(name)[bad][0]} is not in [0, {end})")

    def column(self, name: str) -> np.ndarray:
        """One factor of all pictures, integers [M]."""
        return self.factors[:, self.factor_names.index(name)]


@dataclasses.dataclass(frozen=True, eq=False)
class ViewDataset:
    """N states, each seen by K cameras. `images[k, n]` is camera k's picture of state n.

    Attributes:
        name: of the dataset, for reports.
        images: uint8 [K, N, H, W, C].
        state_ids: i64[N], unique; the index into the sorted table of the joint factors.
        instance_ids: i32[N], the object shown, unique over categories.
        labels: i32[N], category, an index into `label_names`.
        label_names: the categories' names.
        factors: i32[N, F], factor levels of the state.
        factor_names: the columns' names: category, instance, ..., under "rig" azimuth last.
        split_state: i32[N], 0 train, 1 test, drawn over states.
        split_instance: i32[N], 0 train, 1 test, whole objects held out.
        overlap: share of the pictures that also occur among another camera's pictures; above 0
            the cameras are not two observation functions.
        num_dropped: states left out since some camera has no picture of them.
    """

    name: str
    images: Images
    state_ids: np.ndarray
    instance_ids: np.ndarray
    labels: np.ndarray
    label_names: tuple[str, ...]
    factors: np.ndarray
    factor_names: tuple[str, ...]
    split_state: np.ndarray
    split_instance: np.ndarray
    overlap: float
    num_dropped: int = 0

    @property
    def num_cameras(self) -> int:
        """K."""
        return self.images.shape[0]

    @property
    def num_states(self) -> int:
        """N."""
        return self.images.shape[1]

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(H, W, C)."""
        height, width, channels = self.images.shape[2:]
        return height, width, channels

    @property
    def train_rows(self) -> np.ndarray:
        """i64 rows of the states that are train in both splits: what encoders may see."""
        return np.flatnonzero((self.split_state == 0) & (self.split_instance == 0))

    def subset(self, keep: np.ndarray) -> "ViewDataset":
        """The states that bool[N] names; the others count as dropped."""
        if keep.all():
            return self
        by_state = ("state_ids", "instance_ids", "labels", "factors", "split_state")
        parts = {name: getattr(self, name)[keep] for name in (*by_state, "split_instance")}
        dropped = self.num_dropped + int((~keep).sum())
        return dataclasses.replace(self, images=self.images[:, keep], num_dropped=dropped, **parts)

    def factor(self, name: str) -> np.ndarray:
        """i32[N] levels of one factor."""
        check_one_of(self.factor_names, factor=name)
        return self.factors[:, self.factor_names.index(name)]

    def cells(self, names: Sequence[str]) -> np.ndarray:
        """i64[N] ids of the joint cell of the named factors, 0 ... number of cells - 1."""
        if not names:
            return np.zeros(self.num_states, np.int64)
        columns = np.stack([self.factor(name) for name in names], axis=1)
        return _unique_rows(columns)[1]


def pair_views(
    table: ObservationTable, protocol: Protocol, splits: Splits, name: str
) -> ViewDataset:
    """Joins the pictures that show one state. The order of the table's rows does not matter.

    States are all factor combinations that at least one camera has a picture of, sorted; those
    that some camera lacks are dropped and counted.

    Args:
        table: M pictures.
        protocol: what a state is and where the cameras stand.
        splits: what is held out.
        name: of the resulting dataset.

    Returns:
        The view dataset of N states and K = len(protocol.azimuths) cameras.

    Raises:
        InputError: a camera sees nothing, no state is seen by all cameras, two pictures show the
            same observation, or a split leaves a side empty.
    """
    views = [_camera_view(table, protocol, azimuth) for azimuth in protocol.azimuths]
    all_states, state_of_view = _unique_rows(np.concatenate([states for _, states in views]))
    rows = np.full((len(views), len(all_states)), -1, np.int64)
    start = 0
    for camera, (camera_rows, _) in enumerate(views):
        seen = state_of_view[start : start + len(camera_rows)]
        start += len(camera_rows)
        if len(np.unique(seen)) < len(seen):
            twice = all_states[np.argmax(np.bincount(seen))].tolist()
            raise InputError(
                f"{name}: two pictures have the factors {_state_names(table, protocol)} = {twice}"
            )
        rows[camera, seen] = camera_rows
    complete = (rows >= 0).all(axis=0)
    if not complete.any():
        raise InputError(f"{name}: no state is seen from all azimuths={protocol.azimuths}")
    if not complete.all():
        logging.info("%s: %d states lack a camera and are dropped", name, (~complete).sum())
    rows, factors = rows[:, complete], all_states[complete].astype(np.int32)
    instance_ids = _unique_rows(factors[:, :2])[1].astype(np.int32)
    return ViewDataset(
        name=name,
        images=table.images[rows],
        state_ids=np.flatnonzero(complete),
        instance_ids=instance_ids,
        labels=factors[:, 0].copy(),
        label_names=table.label_names,
        factors=factors,
        factor_names=_state_names(table, protocol),
        split_state=_split_states(len(factors), splits),
        split_instance=_split_instances(factors[:, 0], instance_ids, table.label_names, splits),
        overlap=float((np.bincount(rows.ravel())[rows] > 1).mean()),
        num_dropped=int((~complete).sum()),
    )


def _state_names(table: ObservationTable, protocol: Protocol) -> tuple[str, ...]:
    first, last = ("category", "instance"), ("azimuth",)
    others = tuple(name for name in table.factor_names if name not in first + last)
    return first + others + (last if protocol.kind == "rig" else ())


def _camera_view(
    table: ObservationTable, protocol: Protocol, azimuth: int
) -> tuple[np.ndarray, np.ndarray]:
    """The table rows [n] that a camera sees and the states [n, F] they show."""
    columns = [table.column(name).astype(np.int64) for name in _state_names(table, protocol)]
    if protocol.kind == "norb":
        seen = table.column("azimuth") == azimuth
    else:
        low, high = protocol.sector
        columns[-1] = (columns[-1] - azimuth) % 360  # the pose that this camera sees from there
        seen = (low <= columns[-1]) & (columns[-1] < high)
    if not seen.any():
        raise InputError(
            f"azimuths: the camera at {azimuth} degrees sees nothing (sector={protocol.sector}); "
            f"the pictures' azimuths are {np.unique(table.column('azimuth')).tolist()}"
        )
    return np.flatnonzero(seen), np.stack(columns, axis=1)[seen]


def _split_states(num_states: int, splits: Splits) -> np.ndarray:
    num_test = round(splits.test_states * num_states)
    if not 0 < num_test < num_states:
        raise InputError(
            f"test_states={splits.test_states} of {num_states} states leaves one side empty"
        )
    split = np.zeros(num_states, np.int32)
    split[np.random.default_rng([splits.seed, 0]).permutation(num_states)[:num_test]] = 1
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


def _unique_rows(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sorted distinct rows of [M, F] integers and, for each row, its place [M] among them."""
    distinct, place = np.unique(table, axis=0, return_inverse=True)
    return distinct, place.reshape(-1).astype(np.int64)
