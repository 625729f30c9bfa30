"""DMC Reacher from pixels: a two-link arm rendered by MuJoCo, which the cache makes optional."""

from socialjepa_jax.data.reacher.dataset import ReacherData

__all__ = ["ReacherData"]
