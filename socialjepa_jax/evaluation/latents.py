"""Latents of all agents: those of the untrained controls, and the files of a run.

Shape key: A agents, N states, D latent dimensions.
"""

import dataclasses
import pathlib

import numpy as np

from socialjepa_jax.data.base import ViewDataset


@dataclasses.dataclass(frozen=True)
class Untrained:
    """Latents f32[A, N, D] of the same architectures at step 0.

    Attributes:
        own_init: each agent with its own initial parameters.
        same_init: all agents with the first agent's initial parameters.
    """

    own_init: np.ndarray
    same_init: np.ndarray


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
