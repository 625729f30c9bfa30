"""Datasets: each loads as a `ViewDataset`, states of a world and the K cameras' images of them."""

from socialjepa_jax.data.arrays import ArraysData
from socialjepa_jax.data.base import ObservationTable, Protocol, Splits, ViewDataset
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.data.frames import FramesData
from socialjepa_jax.data.nuscenes import NuScenesData
from socialjepa_jax.data.pairing import pair_views
from socialjepa_jax.data.reacher import ReacherData
from socialjepa_jax.data.records.shards import ShardsData
from socialjepa_jax.data.records.tfds import TfdsData
from socialjepa_jax.data.smallnorb import SmallNorbData
from socialjepa_jax.data.toys import MotionData, ToysData

# `data.kind` of a configuration -> class.
DATASETS: dict[str, type] = {
    "toys": ToysData,
    "smallnorb": SmallNorbData,
    "arrays": ArraysData,
    "folder": FolderData,
    "shards": ShardsData,
    "tfds": TfdsData,
    "motion": MotionData,
    "nuscenes": NuScenesData,
    "reacher": ReacherData,
    "frames": FramesData,
}

__all__ = [
    "DATASETS",
    "ArraysData",
    "FolderData",
    "FramesData",
    "MotionData",
    "NuScenesData",
    "ObservationTable",
    "Protocol",
    "ReacherData",
    "ShardsData",
    "SmallNorbData",
    "Splits",
    "TfdsData",
    "ToysData",
    "ViewDataset",
    "pair_views",
]
