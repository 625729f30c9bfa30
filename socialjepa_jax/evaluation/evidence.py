"""All that is known of agents in a world in motion: their latents of states and of their own walks.

Shape key: A agents, N states, D latent dimensions, L state dimensions, T steps of a walk, M
actions.
"""

import dataclasses
import functools

import numpy as np

from socialjepa_jax import alignment
from socialjepa_jax.agents import AgentState, Trainer
from socialjepa_jax.alignment.actions import fit_by_actions
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.protocols import ImageFeed, WalkFeed
from socialjepa_jax.evaluation.latents import encode_chunks, encode_states
from socialjepa_jax.evaluation.metrics import fit_map
from socialjepa_jax.evaluation.splits import Split, splits
from socialjepa_jax.records import RowName


@dataclasses.dataclass(frozen=True, eq=False)
class Walks:
    """Each agent's own walk through an Ornstein-Uhlenbeck world, as the trained agent encodes it.

    Attributes:
        latents: f32[A, T + 1, D].
        actions: f32[A, T, M]; action t leads from state t to t + 1.
        rho: f64[L], correlation of successive states.
    """

    latents: np.ndarray
    actions: np.ndarray
    rho: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
    """What was encoded of a world in motion, beside the latents of the trained agents.

    Attributes:
        untrained: f32[A, N, D], latents of the same architectures at step 0.
        untrained_hidden: f32[A, N, width], their encoders' outputs before the linear head.
        walks: of the trained agents; None without walks.
    """

    untrained: np.ndarray
    untrained_hidden: np.ndarray
    walks: Walks | None = None


def gather(trainer: Trainer, fresh: AgentState, state: AgentState, feed: ImageFeed) -> Evidence:
    """Encodes what a world in motion is measured on, beside its states by the trained agents.

    Args:
        trainer: of the agents.
        fresh: their states at step 0.
        state: their states after training.
        feed: of the run.
    """
    untrained = encode_states(trainer.encode_all, fresh, feed)
    hidden = untrained.get("hidden", untrained["latent"])  # an encoder without a head
    return Evidence(untrained["latent"], hidden, encode_walks(trainer, state, feed))


def encode_walks(trainer: Trainer, state: AgentState, feed: ImageFeed) -> Walks | None:
    """Encodes each agent's own walk; None if the feed has none."""
    if not isinstance(feed, WalkFeed) or feed.actions is None:
        return None
    count = feed.actions.shape[1] + 1
    latents = encode_chunks(trainer.encode, state, feed, feed.walked(), count)
    return Walks(latents, feed.actions, feed.rho)


@dataclasses.dataclass(frozen=True, eq=False)
class Encoded:
    """A world in motion as the agents of a run encode it.

    Attributes:
        experiment: of the run.
        dataset: of the run; it has `states`.
        latents: f32[A, N, D], of the trained agents.
        evidence: what else was encoded.
    """

    experiment: Experiment
    dataset: ViewDataset
    latents: np.ndarray
    evidence: Evidence

    @functools.cached_property
    def split(self) -> Split:
        """The states that maps are fitted and tested on."""
        return splits(self.dataset)[0]

    @property
    def states(self) -> np.ndarray:
        """f32[N, L]."""
        assert self.dataset.states is not None
        return self.dataset.states

    def mean(self, agent: int) -> np.ndarray:
        """Returns the mean latent f32[D] of an agent over the training states."""
        return self.latents[agent][self.split.train].mean(0)

    def fit(self, x: np.ndarray, y: np.ndarray) -> alignment.LinearMap:
        """Fits the configured map between two spaces of all states."""
        return fit_map(self.experiment.alignment, x, y, self.split.train)

    def maps(self, i: int, j: int) -> dict[RowName, alignment.LinearMap]:
        """Fits the maps from agent i to j, by the row that they make; by actions if both walked."""
        x, y, rows = self.latents[i], self.latents[j], self.split.train
        found = {
            RowName.TRAINED: self.fit(x, y),
            RowName.ORTHOGONAL: alignment.fit(
                x[rows], y[rows], method="procrustes", standardize="center"
            ),
        }
        if (walks := self.evidence.walks) is not None:
            h, actions = walks.latents, walks.actions
            means = {"x_mean": self.mean(i), "y_mean": self.mean(j)}
            found[RowName.ACTIONS] = fit_by_actions(h[i], actions[i], h[j], actions[j], **means)
        return found
