"""Trained encoders by themselves: images in, latents out, without a data set or a trainer.

Shape key: N images, H height, W width, C channels, D features.
"""

import dataclasses
import functools
import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from socialjepa_jax import config as config_lib
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.augment.colour import normalize
from socialjepa_jax.errors import InputError, as_array, check_in_range
from socialjepa_jax.records import write_json

PyTree = Any
LEFT_OUT = "left_out"  # metadata of a file: names of the arrays that it does not hold


@dataclasses.dataclass(frozen=True, eq=False)
class Encoders:
    """The encoders of a run's agents.

    Attributes:
        config: the experiment.
        params, aux: of the objective, leaves [A, ...].
        mean, std: f32[A, C], pixel statistics of the training images, on the scale [0, 1].
    """

    config: Experiment
    params: PyTree
    aux: PyTree
    mean: np.ndarray
    std: np.ndarray

    @property
    def num_agents(self) -> int:
        """A."""
        return len(self.mean)

    def encode(self, agent: int, images: np.ndarray, batch_size: int = 256) -> np.ndarray:
        """Encodes images in batches; jitted.

        Args:
            agent: index of the agent.
            images: uint8 [N, H, W, C], as the agent's camera takes them.
            batch_size: images at once.

        Returns:
            f32[N, D].

        Raises:
            InputError: there is no such agent, or the images have another shape or dtype.
        """
        self._check(agent)
        images, channels = as_array(images, "images"), self.mean.shape[1]
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] != channels:
            raise InputError(
                f"images {images.dtype}{list(images.shape)} must be uint8 [N, H, W, {channels}]"
            )
        latents = []
        for start in range(0, max(1, len(images)), batch_size):
            block = images[start : start + batch_size]
            size = max(1, min(batch_size, len(images)))  # one shape, so one compilation
            padded = np.pad(block, [(0, size - len(block)), (0, 0), (0, 0), (0, 0)])
            latents.append(np.asarray(self._encode(agent, padded))[: len(block)])
        return np.concatenate(latents)

    def apply(self, agent: int, images: jax.Array) -> jax.Array:
        """Encodes images; pure, so that it can be differentiated and jitted.

        Args:
            agent: index of the agent.
            images: f32[N, H, W, C] in [0, 1].

        Returns:
            f32[N, D].
        """
        self._check(agent)
        params, aux = jax.tree.map(lambda leaf: leaf[agent], (self.params, self.aux))
        images = normalize(images, jnp.asarray(self.mean[agent]), jnp.asarray(self.std[agent]))
        return self.config.objective.encode(params, aux, images)["latent"]

    @functools.cached_property
    def _encode(self) -> Any:
        def encode(agent: int, images: jax.Array) -> jax.Array:
            return self.apply(agent, images.astype(jnp.float32) / 255)

        return jax.jit(encode, static_argnums=0)

    def _check(self, agent: int) -> None:
        check_in_range(0, self.num_agents - 1, agent=agent)

    def save(self, path: str | pathlib.Path, encoding: np.ndarray | None = None) -> None:
        """Writes `path`.safetensors and `path`.json, from which `load` makes the same encoders.

        Args:
            path: of both files, without their endings.
            encoding: uint8 [N, H, W, C], images as they will be encoded. If given, arrays that
                their encoding does not read are left out (a predictor, a projector, with a moving
                average the trained network); `load` fills them with NaN.
        """
        arrays_file, config_file = _files(path)
        arrays_file.parent.mkdir(parents=True, exist_ok=True)
        arrays = _named({"params": self.params, "aux": self.aux})
        read = arrays if encoding is None else self._read(encoding)
        kept = {name: np.ascontiguousarray(arrays[name]) for name in read}
        left_out = json.dumps(sorted(arrays.keys() - kept.keys()))
        statistics = {"mean": self.mean, "std": self.std}
        save_file({**kept, **statistics}, arrays_file, {LEFT_OUT: left_out})
        write_json(config_file, config_lib.to_plain(self.config))

    def _read(self, images: np.ndarray) -> list[str]:
        """Returns the names of the arrays on which the latents of images depend."""
        tree = {"params": self.params, "aux": self.aux}

        def encode(tree: PyTree, images: jax.Array) -> jax.Array:
            return dataclasses.replace(self, **tree).apply(0, images)

        program = jax.make_jaxpr(encode)(tree, images[:1].astype(np.float32)).jaxpr
        live = {id(variable) for variable in program.outvars}
        for equation in reversed(program.eqns):
            if live & {id(variable) for variable in equation.outvars}:
                live |= {id(variable) for variable in equation.invars}
        return [
            name for name, variable in zip(_named(tree), program.invars) if id(variable) in live
        ]

    @staticmethod
    def load(path: str | pathlib.Path) -> "Encoders":
        """Reads what `save` wrote.

        Raises:
            InputError: a file is missing or not of encoders.
        """
        arrays_file, config_file = _files(path)
        try:
            config = json.loads(config_file.read_bytes())
            arrays = load_file(arrays_file)
            with safe_open(arrays_file, "np") as file:
                left_out = json.loads((file.metadata() or {}).get(LEFT_OUT, "[]"))
        except (OSError, ValueError, SafetensorError) as error:
            raise InputError(f"{path}: {error}") from None
        experiment = config_lib.from_config_dict(config)
        params, aux = jax.eval_shape(experiment.objective.init, jax.random.key(0))
        tree = {"params": params, "aux": aux}
        if missing := sorted({"mean", "std", *_named(tree)} - {*arrays, *left_out}):
            raise InputError(f"{arrays_file} has no array {missing[0]!r}")
        count = len(arrays["mean"])
        leaves = [
            arrays[name] if name in arrays else _unknown((count, *leaf.shape), leaf.dtype)
            for name, leaf in _named(tree).items()
        ]
        restored = jax.tree.unflatten(jax.tree.structure(tree), leaves)
        statistics = arrays["mean"], arrays["std"]
        return Encoders(experiment, restored["params"], restored["aux"], *statistics)


def _unknown(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Returns an array for one that was left out: NaN, or 0 of a type that has none."""
    return np.full(shape, np.nan if jnp.issubdtype(dtype, jnp.inexact) else 0, dtype)


def _files(path: str | pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Returns the file of the arrays and that of the configuration; the name may hold dots."""
    return pathlib.Path(f"{path}.safetensors"), pathlib.Path(f"{path}.json")


def _named(tree: PyTree) -> dict[str, Any]:
    """Returns the leaves of a tree by their paths, in order."""
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree.leaves_with_path(tree)}
