"""Train independent JEPA world models in JAX and translate between them with one matrix.

    import socialjepa_jax as sj

    linear_map = sj.align.fit(x, y)              # y ~ W x, from paired latents
    sj.align.evaluate(linear_map, x_test, y_test)
    result = sj.train(experiment, "runs/toys")   # an `sj.Experiment`
    encoders = sj.load("runs/toys")              # or "motion_lejepa", trained beforehand
    encoders.encode(0, images)

Every name is imported when it is first used. `sj.train` and `sj.align` are this function and the
module `socialjepa_jax.alignment`, whatever else is imported; the launchers of the same names serve
`python -m` alone.
"""

import importlib
import sys
import types
from typing import Any

_NAMES = {
    "align": ("socialjepa_jax.alignment", None),
    "sigreg": ("socialjepa_jax.sigreg", None),
    "train": ("socialjepa_jax.loop", "fit"),
    "load": ("socialjepa_jax.running.trained", "load"),
    "register": ("socialjepa_jax.config", "register"),
    "Experiment": ("socialjepa_jax.config", "Experiment"),
    "Encoders": ("socialjepa_jax.evaluation.encoders", "Encoders"),
}
__all__ = sorted(_NAMES)


def _resolve(name: str) -> Any:
    module, attribute = _NAMES[name]
    imported = importlib.import_module(module)
    return imported if attribute is None else getattr(imported, attribute)


class _Face(types.ModuleType):
    """The package, where the import of a launcher does not hide the name that it shares.

    Importing `socialjepa_jax.train` sets the attribute `train` of the package to that module; a
    property with a setter that does nothing keeps the function.
    """

    def __getattr__(self, name: str) -> Any:
        if name in _NAMES:
            return _resolve(name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_NAMES})

    @property
    def train(self) -> Any:
        """Trains an experiment in a folder; see `socialjepa_jax.loop.fit`."""
        return _resolve("train")

    @train.setter
    def train(self, launcher: types.ModuleType) -> None:
        """Ignores the launcher, which `python -m` finds by itself."""

    @property
    def align(self) -> types.ModuleType:
        """The module `socialjepa_jax.alignment`."""
        return _resolve("align")

    @align.setter
    def align(self, launcher: types.ModuleType) -> None:
        """Ignores the launcher, which `python -m` finds by itself."""


sys.modules[__name__].__class__ = _Face
