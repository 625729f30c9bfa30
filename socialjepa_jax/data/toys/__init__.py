"""The built-in rendered world: toys of five categories on a turntable, seen by any camera."""

from socialjepa_jax.data.toys.world import ToysData

__all__ = ["ToysData"]
