"""Tables of images with their factors, and view datasets: states of a world seen by K cameras.

A dataset's `load` makes an `ObservationTable`, and `pairing.pair_views` turns it into a
`ViewDataset` under a `Protocol` (which images show the same state) and `Splits` (what is held
out). Shape letters: M images, F factors, K cameras, N states, H height, W width, C channels.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from socialjepa_jax.data.files import Files
from socialjepa_jax.data.records.viewed import Views
from socialjepa_jax.errors import (
    InputError,
    as_array,
    check_in_range,
    check_non_negative,
    check_one_of,
)

Images = np.ndarray | Files | Views  # uint8, in memory or read from files on access

REQUIRED_FACTORS = ("category", "instance", "azimuth")


@dataclasses.dataclass(frozen=True)
class Protocol:
    """Rule that says which camera sees which image of a state.

    Attributes:
        kind: "norb": azimuth is no part of the state, and camera k always looks from `azimuths[k]`
            (Social-JEPA A.3: 0 against 160 degrees). "rig": the pose azimuth belongs to the state,
            and camera k looks from (pose azimuth + azimuths[k]) mod 360.
        azimuths: one angle per camera, whole degrees in [0, 360).
        sector: "rig" only: pose azimuths lie in [sector[0], sector[1]), degrees. A sector no wider
            than the angle between two cameras keeps their image sets disjoint.
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
    """Held-out objects and states. Both draws depend on `seed` alone.

    Attributes:
        test_instances: objects held out in every category (0: none).
        test_states: share of the states that is held out, in (0, 1).
        seed: seed of both draws.
    """

    test_instances: int = 2
    test_states: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        check_non_negative(test_instances=self.test_instances, seed=self.seed)
        if not 0 < self.test_states < 1:
            raise InputError(f"test_states={self.test_states} must be in (0, 1)")

    def draw(self, count: int, stream: int, of: str, field: str = "test_states") -> np.ndarray:
        """Draws the held-out ones of numbered states or groups of states: i64[held out].

        Args:
            count: of states or groups.
            stream: number of the draw; draws of one seed differ by it.
            of: what is counted, for messages, with its number.
            field: name of the share, for messages.

        Raises:
            InputError: nothing or everything would be held out.
        """
        held_out = round(self.test_states * count)
        if not 0 < held_out < count:
            raise InputError(f"{field}={self.test_states} of {of} leaves one side empty")
        return np.random.default_rng([self.seed, stream]).permutation(count)[:held_out]


@dataclasses.dataclass(frozen=True, eq=False)
class ObservationTable:
    """Images and their integer factors, one row per image, in any order.

    Attributes:
        images: uint8 [M, H, W, C].
        factors: integers [M, F], one column per factor. Required: "category" (index into
            `label_names`), "instance" (an object, numbered within its category) and "azimuth"
            (whole degrees in [0, 360)). "elevation", "lighting" and others are optional.
        factor_names: names of the columns.
        label_names: names of the categories.

    Raises:
        InputError: a shape, a dtype, a column or a value is not as described.
    """

    images: Images
    factors: np.ndarray
    factor_names: tuple[str, ...]
    label_names: tuple[str, ...]

    def __post_init__(self) -> None:
        self._check_arrays()
        if len(set(self.factor_names)) < len(self.factor_names):
            raise InputError(f"factor_names={self.factor_names} must be distinct")
        for name in REQUIRED_FACTORS:
            if name not in self.factor_names:
                raise InputError(f"factor_names={self.factor_names} must have {name!r}")
        ends = {"category": len(self.label_names), "azimuth": 360}
        for name in self.factor_names:
            levels, end = self.column(name), ends.get(name, 2**31)
            bad = (levels < 0) | (levels >= end)
            if bad.any():
                raise InputError(f"{name}={levels[bad][0]} is not in [0, {end})")

    def _check_arrays(self) -> None:
        for name, values in (("images", self.images), ("factors", self.factors)):
            if isinstance(values, np.ndarray):
                as_array(values, name)
        if self.images.ndim != 4 or self.images.dtype != np.uint8:
            raise InputError(
                f"images {self.images.dtype}{list(self.images.shape)} must be uint8 [M, H, W, C]"
            )
        shape = (len(self.images), len(self.factor_names))
        if self.factors.shape != shape or self.factors.dtype.kind not in "iu":
            raise InputError(
                f"factors {self.factors.dtype}{list(self.factors.shape)} must be integers "
                f"{list(shape)}: one row per image, one column per name"
            )

    def column(self, name: str) -> np.ndarray:
        """Returns one factor of all images: integers [M]."""
        return self.factors[:, self.factor_names.index(name)]


@dataclasses.dataclass(frozen=True, eq=False)
class ViewDataset:
    """N states, each seen by K cameras. `images[k, n]` is camera k's image of state n.

    Attributes:
        name: name of the dataset in reports.
        images: uint8 [K, N, H, W, C].
        state_ids: i64[N], unique; indices into the sorted table of all joint factors.
        instance_ids: i32[N], the object shown, unique over categories.
        labels: i32[N], category, an index into `label_names`.
        label_names: names of the categories.
        factors: i32[N, F], factor levels of the states.
        factor_names: names of the columns: category, instance, ..., and azimuth last under "rig".
        split_state: i32[N], 0 train, 1 test, drawn over states.
        split_instance: i32[N], 0 train, 1 test, whole objects held out.
        overlap: share of the images that another camera sees too. Above 0 the cameras are not
            distinct observation functions.
        num_dropped: number of states dropped because at least one camera has no image of them.
        states: f32[N, L], continuous states, in worlds that have them.
        state_names: names of their columns.
        domain: category that maps are fitted on in the test of a shift (`evaluation.shift`); "":
            no such test.
        facts: (heading, text) of what a reader of results must know of the data; the page of a run
            shows them.
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
    states: np.ndarray | None = None
    state_names: tuple[str, ...] = ()
    domain: str = ""
    facts: tuple[tuple[str, str], ...] = ()

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
        """Sorted i64 indices of the states that are train in both splits, for pretraining."""
        return np.flatnonzero((self.split_state == 0) & (self.split_instance == 0))

    def subset(self, keep: np.ndarray) -> "ViewDataset":
        """Returns the states where bool[N] is true; the others count as dropped."""
        if keep.all():
            return self
        by_state = ["state_ids", "instance_ids", "labels", "factors", "split_state"]
        by_state += ["split_instance"] + ["states"] * (self.states is not None)
        parts = {name: getattr(self, name)[keep] for name in by_state}
        dropped = self.num_dropped + int((~keep).sum())
        return dataclasses.replace(self, images=self.images[:, keep], num_dropped=dropped, **parts)

    def factor(self, name: str) -> np.ndarray:
        """Returns the levels i32[N] of one factor."""
        check_one_of(self.factor_names, factor=name)
        return self.factors[:, self.factor_names.index(name)]

    def cells(self, names: Sequence[str]) -> np.ndarray:
        """Numbers the joint cells of the named factors: i64[N] in 0 ... number of cells - 1."""
        if not names:
            return np.zeros(self.num_states, np.int64)
        columns = np.stack([self.factor(name) for name in names], axis=1)
        return distinct_rows(columns)[1]


@dataclasses.dataclass(frozen=True, eq=False)
class Film:
    """One trajectory of the world, as every camera sees it.

    Attributes:
        images: uint8 [K, T, H, W, C].
        states: f32[T, L].
        calm: uint8 [K, T, H, W, C], the same without flicker, for the animation.
    """

    images: np.ndarray
    states: np.ndarray
    calm: np.ndarray


def world_dataset(
    name: str,
    images_KNHWC: np.ndarray,
    states_NL: np.ndarray,
    state_names: tuple[str, ...],
    splits: Splits,
) -> ViewDataset:
    """Makes the data set of a world of continuous states: one object, states held out at random.

    Args:
        name: of the world.
        images_KNHWC: uint8, as each camera sees the states.
        states_NL: f32.
        state_names: of its columns.
        splits: `test_states` of the states are held out.
    """
    count = len(states_NL)
    order_N = np.random.default_rng(splits.seed).permutation(count)
    zeros = np.zeros(count, np.int32)
    return ViewDataset(
        name=name,
        images=images_KNHWC,
        state_ids=np.arange(count, dtype=np.int64),
        instance_ids=zeros,
        labels=zeros,
        label_names=("world",),
        factors=zeros[:, None],
        factor_names=("category",),
        split_state=(order_N < round(splits.test_states * count)).astype(np.int32),
        split_instance=zeros,
        overlap=0.0,
        states=states_NL,
        state_names=state_names,
    )


def check_columns(
    columns: Sequence[tuple[str, str]], required: Sequence[str] = REQUIRED_FACTORS
) -> None:
    """Checks that (factor, column) pairs name every required factor, and none twice.

    Raises:
        InputError: a required factor is missing, or a factor is named twice.
    """
    factors = [factor for factor, _ in columns]
    for name in (*required, *factors):
        if factors.count(name) != 1:
            raise InputError(f"columns={columns} must name {name!r} once")


def distinct_rows(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sorted distinct rows of [M, F] integers, and the i64[M] index of each row."""
    distinct, index = np.unique(table, axis=0, return_inverse=True)
    return distinct, index.reshape(-1).astype(np.int64)
