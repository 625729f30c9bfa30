"""What agents see, as it lies on the devices: whole data sets, or the batches of a few steps.

Shape key: A agents, N states, H height, W width, C channels, B batch, S steps, R training rows.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from socialjepa_jax import sharding


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["images", "rows", "mean", "std"],
    meta_fields=[],
)
@dataclass(frozen=True)
class AgentData:
    """What an agent sees: its own camera's pictures and nothing else.

    Attributes:
        images: u8[A, N, H, W, C].
        rows: i32[A, R], the states it may train on.
        mean, std: f32[A, C], pixel statistics of its training pictures.
    """

    images: jax.Array
    rows: jax.Array
    mean: jax.Array
    std: jax.Array


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["images", "rows", "first", "mean", "std"],
    meta_fields=[],
)
@dataclass(frozen=True)
class StreamedData:
    """What the agents see in the steps of one call, where the data do not live on the devices.

    Attributes:
        images: u8[A, S, B, H, W, C], split over 'data' along B.
        rows: i32[A, S, B], the states they show.
        first: i32[A], the draw (step + passed_over) that comes first.
        mean, std: f32[A, C], pixel statistics of the training pictures.
    """

    images: jax.Array
    rows: jax.Array
    first: jax.Array
    mean: jax.Array
    std: jax.Array

    @staticmethod
    def specs() -> "StreamedData":
        """How it is split over a mesh."""
        steps, agent = sharding.STEPS, P(sharding.AGENT)
        return StreamedData(steps, steps, agent, agent, agent)  # type: ignore[arg-type]


def place(
    images_KNHWC: np.ndarray,
    cameras: tuple[int, ...],
    train_rows: np.ndarray,
    statistics: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    mesh: Mesh,
) -> AgentData:
    """Puts each agent's own pictures on its devices.

    Args:
        images_KNHWC: u8[K, N, H, W, C], all cameras' pictures.
        cameras: the camera of each agent.
        train_rows: i64[R], states that may be trained on.
        statistics: (u8[R, H, W, C]) -> (mean [C], std [C]).
        mesh: where to.
    """
    pixel = [statistics(images_KNHWC[camera][train_rows]) for camera in cameras]
    put = functools.partial(sharding.put, sharding=sharding.by_agent(mesh))
    return AgentData(
        images=put(np.stack([images_KNHWC[camera] for camera in cameras])),
        rows=put(np.tile(train_rows.astype(np.int32), (len(cameras), 1))),
        mean=put(np.stack([mean for mean, _ in pixel]).astype(np.float32)),
        std=put(np.stack([std for _, std in pixel]).astype(np.float32)),
    )
