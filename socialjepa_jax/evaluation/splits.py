"""Splits: the states that maps are fitted and tested on, and the pairs of agents."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.errors import InputError

FEWEST_STATES = 4  # an evaluation of fewer has no meaning


@dataclasses.dataclass(frozen=True)
class Split:
    """The states that a map is fitted on and those it is tested on.

    Attributes:
        name: "instance" (whole objects held out: the headline) | "state".
        train, test: i64 rows.
    """

    name: str
    train: np.ndarray
    test: np.ndarray


def splits(dataset: ViewDataset) -> list[Split]:
    """Returns the splits of a data set that hold something out, the headline first."""
    flags = {"instance": dataset.split_instance, "state": dataset.split_state}
    return [
        Split(name, np.flatnonzero(flag == 0), np.flatnonzero(flag == 1))
        for name, flag in flags.items()
        if flag.any()
    ]


def check_splits(dataset: ViewDataset) -> None:
    """Checks before training that the trained agents can be measured.

    Raises:
        InputError: a split leaves too few states.
    """
    for split in splits(dataset):
        for part, rows in (("fit on", split.train), ("test on", split.test)):
            if len(rows) < FEWEST_STATES:
                raise InputError(
                    f"config.data.splits leaves {len(rows)} states to {part} in the {split.name} "
                    f"split; at least {FEWEST_STATES} are needed"
                )


def pairs(cameras: tuple[int, ...]) -> Iterator[tuple[int, int, bool]]:
    """All pairs (i, j) with i < j, and whether the two agents look through one camera."""
    for i in range(len(cameras)):
        for j in range(i + 1, len(cameras)):
            yield i, j, cameras[i] == cameras[j]
