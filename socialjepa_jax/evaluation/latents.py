"""Latents of all states and agents: encoded, of untrained controls, and saved to files.

Shape key: A agents, N states, D latent dimensions.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from socialjepa_jax import sharding
from socialjepa_jax.agents import AgentState
from socialjepa_jax.alignment.threads import one_blas_thread
from socialjepa_jax.config import Alignment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.protocols import ImageFeed
from socialjepa_jax.evaluation.metrics import fit_map
from socialjepa_jax.evaluation.splits import pairs, splits

PyTree = Any


@dataclasses.dataclass(frozen=True)
class Untrained:
    """Latents f32[A, N, D] of the same architectures at step 0.

    Attributes:
        own_init: each agent with its own initial parameters.
        same_init: all agents with the first agent's initial parameters.
    """

    own_init: np.ndarray
    same_init: np.ndarray


def encode_states(encode: Callable[..., PyTree], state: AgentState, feed: ImageFeed) -> PyTree:
    """Encodes all states with all agents, in batches of one shape.

    Args:
        encode: `Trainer.encode` or `Trainer.encode_all`.
        state: of the agents.
        feed: the images; latents of broken ones mean nothing.

    Returns:
        The latents f32[A, N, D] on the host, or a dict of them.
    """
    return encode_chunks(encode, state, feed, feed.states(), len(feed.good))


def encode_chunks(
    encode: Callable[..., PyTree],
    state: AgentState,
    feed: ImageFeed,
    images: Iterator[np.ndarray],
    count: int,
) -> PyTree:
    """Encodes chunks u8[A, size, H, W, C] of `count` images, the last chunk padded.

    Args:
        encode, state: see `encode_states`.
        feed: with the pixel statistics of the agents.
        images: the chunks.
        count: of images of each agent.

    Returns:
        The latents f32[A, count, D] on the host, or a dict of them.
    """
    by_agent = feed.mean.sharding
    parts = []
    for chunk in images:
        latents = encode(state, sharding.put(chunk, by_agent), feed.mean, feed.std)
        parts.append(sharding.fetch(latents))
    return jax.tree.map(lambda *z: np.concatenate(z, axis=1)[:, :count], *parts)


def save_latents(workdir: pathlib.Path, dataset: ViewDataset, latents_AND: np.ndarray) -> None:
    """Writes latents/agent_<k>.npz: latents beside the states' ids, labels and factors.

    Continuous states, where there are some, are `states` f32[N, L] and `state_names`.
    """
    folder = workdir / "latents"
    folder.mkdir(exist_ok=True)
    known: dict[str, Any] = {}
    if dataset.states is not None:
        known = {"states": dataset.states, "state_names": np.array(dataset.state_names)}
    for k, latents_ND in enumerate(latents_AND):
        np.savez(
            folder / f"agent_{k}.npz",
            **known,
            latents=latents_ND.astype(np.float32),
            state_ids=dataset.state_ids,
            instance_ids=dataset.instance_ids,
            labels=dataset.labels,
            factors=dataset.factors,
            factor_names=np.array(dataset.factor_names),
            split_state=dataset.split_state,
            split_instance=dataset.split_instance,
        )


@one_blas_thread()
def save_maps(
    workdir: pathlib.Path,
    how: Alignment,
    cameras: tuple[int, ...],
    dataset: ViewDataset,
    latents_AND: np.ndarray,
) -> None:
    """Writes maps/agent_<i>_agent_<j>.npz: W from agent i to j, for agents on different cameras.

    It is the W that `alignment.json` measures first, fitted on the training states of the headline
    split. `alignment.LinearMap.load` reads it.

    Args:
        workdir: of the run.
        how: the map is fitted.
        cameras: the camera of each agent.
        dataset, latents_AND: of the run.
    """
    folder, train = workdir / "maps", splits(dataset)[0].train
    folder.mkdir(exist_ok=True)
    for i, j, same_camera in pairs(cameras):
        if not same_camera:
            linear_map = fit_map(how, latents_AND[i], latents_AND[j], train)
            linear_map.save(folder / f"agent_{i}_agent_{j}.npz")
