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
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.protocols import ImageFeed

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
