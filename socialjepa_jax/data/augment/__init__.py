"""Augmentation on the device: crops, flips, colours and multi-crop views."""

from socialjepa_jax.data.augment.geometry import Augment, augment

__all__ = ["Augment", "augment"]
