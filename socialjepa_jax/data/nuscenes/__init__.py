"""nuScenes: six cameras of a car, fired one after the other, as one data set."""

from socialjepa_jax.data.nuscenes.dataset import PAIRS, NuScenesData
from socialjepa_jax.data.nuscenes.tables import CHANNELS, KeyFrames, condition

__all__ = ["CHANNELS", "PAIRS", "KeyFrames", "NuScenesData", "condition"]
