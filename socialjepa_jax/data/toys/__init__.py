"""The built-in rendered world: toys of five categories on a turntable, seen by any camera."""

from socialjepa_jax.data.toys.dataset import ToysData
from socialjepa_jax.data.toys.world import contact_sheet

__all__ = ["ToysData", "contact_sheet"]
