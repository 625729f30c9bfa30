"""Datasets as view datasets: a state of the world and what each camera sees of it."""

from socialjepa_jax.data.arrays import ArraysData
from socialjepa_jax.data.base import ObservationTable, Protocol, Splits, ViewDataset, pair_views
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.data.smallnorb import SmallNorbData
from socialjepa_jax.data.toys import ToysData

# A configuration's `data.kind` chooses the class; each loads as a `ViewDataset`.
DATASETS: dict[str, type] = {
    "toys": ToysData,
    "smallnorb": SmallNorbData,
    "arrays": ArraysData,
    "folder": FolderData,
}

__all__ = [
    "DATASETS",
    "ArraysData",
    "FolderData",
    "ObservationTable",
    "Protocol",
    "SmallNorbData",
    "Splits",
    "ToysData",
    "ViewDataset",
    "pair_views",
]
