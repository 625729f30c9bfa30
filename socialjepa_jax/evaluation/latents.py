"""Latents of all states and agents: encoded, of untrained controls, and saved to files.

Shape key: A agents, N states, D latent dimensions.
"""

import dataclasses
import pathlib
from collections.abc import Callable
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
    by_agent = feed.mean.sharding
    parts = []
    for images in feed.states():
        latents = encode(state, sharding.put(images, by_agent), feed.mean, feed.std)
        parts.append(sharding.fetch(latents))
    return jax.tree.map(lambda *z: np.concatenate(z, axis=1)[:, : len(feed.good)], *parts)


def save_latents(workdir: pathlib.Path, dataset: ViewDataset, latents_AND: np.ndarray) -> None:
    """Writes latents/agent_<k>.npz: latents beside the states' ids, labels and factors."""
    folder = workdir / "latents"
    folder.mkdir(exist_ok=True)
    for k, latents_ND in enumerate(latents_AND):
        np.savez(
            folder / f"agent_{k}.npz",
            latents=latents_ND.astype(np.float32),
            state_ids=dataset.state_ids,
            instance_ids=dataset.instance_ids,
            labels=dataset.labels,
            factors=dataset.factors,
            factor_names=np.array(dataset.factor_names),
            split_state=dataset.split_state,
            split_instance=dataset.split_instance,
        )
