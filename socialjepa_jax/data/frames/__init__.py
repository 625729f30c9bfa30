"""Synchronised cameras: folders of frames in time order, and pairs of frames for training."""

from socialjepa_jax.data.frames.dataset import FramesData
from socialjepa_jax.data.frames.feed import PairedImages, PairedWindow

__all__ = ["FramesData", "PairedImages", "PairedWindow"]
