"""Augmentation on the device: crops, flips, colours and multi-crop views."""

from socialjepa_jax.data.augment.geometry import VIEW_A, VIEW_B, Augment, augment

__all__ = ["VIEW_A", "VIEW_B", "Augment", "augment"]
