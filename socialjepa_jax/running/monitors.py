"""Monitors of a run: collapse, latents that are not finite, skipped updates."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from absl import logging

from socialjepa_jax.errors import Stopped
from socialjepa_jax.evaluation.metrics import has_collapsed


def collapsed_agents(scalars: Mapping[str, float]) -> list[str]:
    """The agents ('agent_<k>') that an evaluation's scalars call collapsed; each is logged."""
    found = []
    for agent in sorted({name.split("/")[0] for name in scalars if name.startswith("agent_")}):
        rank, std, norm = (
            scalars[f"{agent}/{name}"] for name in ("rankme", "feature_std", "latent_norm")
        )
        if has_collapsed(rank, std, norm):
            found.append(agent)
            logging.warning(
                "COLLAPSE of %s: RankMe %.2f, feature std %.2e at a latent norm of %.2e. "
                "Its latents carry next to nothing; R2 with it means nothing.",
                agent, rank, std, norm,
            )  # fmt: skip
    return found


def refuse_non_finite(latents_AND: np.ndarray, step: int) -> None:
    """Raises `Stopped` if an agent's latents [A, N, D] are not finite: it cannot be measured."""
    bad = np.flatnonzero(~np.isfinite(latents_AND).all(axis=(1, 2)))
    if len(bad):
        named = ", ".join(f"agent_{k}" for k in bad)
        raise Stopped(f"the latents of {named} are not finite at step {step}")


class Diverged(Stopped):
    """The updates of an agent were skipped too many times in a row.

    Attributes:
        agents: bool[A], whose.
    """

    def __init__(self, agents: np.ndarray, message: str) -> None:
        super().__init__(message)
        self.agents = agents


@dataclasses.dataclass
class SkipMonitor:
    """Counts the updates that were skipped because a loss or a gradient was not finite.

    Attributes:
        limit: skips in a row that end the run.
        seen: skips of each agent that were reported.
    """

    limit: int
    seen: dict[int, int] = dataclasses.field(default_factory=dict)

    def watch(self, total: np.ndarray, in_a_row: np.ndarray, step: int) -> None:
        """Reports new skips.

        Args:
            total: i32[A], skips so far.
            in_a_row: i32[A], the latest of them without an update between.
            step: updates done or skipped so far.

        Raises:
            Diverged: the limit is reached.
        """
        for agent, count in enumerate(total.tolist()):
            if new := count - self.seen.get(agent, 0):
                logging.warning(
                    "agent_%d: %d updates up to step %d were skipped, the loss or the gradient "
                    "was not finite; %d so far.", agent, new, step, count,
                )  # fmt: skip
            self.seen[agent] = count
        bad = in_a_row >= self.limit
        if bad.any():
            named = ", ".join(f"agent_{k}" for k in np.flatnonzero(bad))
            raise Diverged(
                bad,
                f"the loss or the gradient of {named} is not finite, {self.limit} updates in a "
                f"row before step {step}; the last checkpoint is from before",
            )
