"""The built-in rendered worlds: toys on a turntable, and scenes in motion, seen by any camera."""

from socialjepa_jax.data.toys.dataset import ToysData
from socialjepa_jax.data.toys.moving import MotionData
from socialjepa_jax.data.toys.world import contact_sheet

__all__ = ["MotionData", "ToysData", "contact_sheet"]
