"""Distillation without labels and without W: both models rank the same earlier images alike.

    KL(softmax(t Q^T / T) || softmax(s Q^T / T)),

where t are the teacher's latents, s those of the student through a linear layer, Q a queue of the
teacher's latents of earlier batches, and all have norm 1.

Shape key: B batch, D features of x, E features of y, Q queue.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import check_one_of, check_positive
from socialjepa_jax.objectives.base import Metrics
from socialjepa_jax.objectives.coupled.divergences import kullback_leibler
from socialjepa_jax.objectives.coupled.link import State, linear, linear_head
from socialjepa_jax.objectives.shared.crossentropy import unit_rows, whole
from socialjepa_jax.sharding import Reduce


@dataclass(frozen=True)
class Similarities:
    """A `Pull` by similarities with a queue.

    Attributes:
        kind: names this pull in a configuration.
        queue: Q, latents of the teacher that are kept; a batch takes the place of the oldest.
        temperature: T of both sides.
    """

    kind: str = "similarities"
    queue: int = 1024
    temperature: float = 0.07

    def __post_init__(self) -> None:
        check_one_of(("similarities",), kind=self.kind)
        check_positive(queue=self.queue, temperature=self.temperature)

    def check_widths(self, x: int, y: int) -> None:
        """Accepts latents of any widths."""

    def init(self, key: jax.Array, x: int, y: int) -> tuple[State, State]:
        """Returns the linear layer and an empty queue, which is ready as soon as it is full."""
        state = {"queue": jnp.zeros((self.queue, y))}
        state |= {"filled": jnp.zeros(()), "ready": jnp.zeros(())}
        return linear_head(key, x, y), state

    def pull(
        self, params: State, state: State, x_BD: jax.Array, y_BE: jax.Array, step: jax.Array,
        reduce: Reduce,
    ) -> tuple[jax.Array, State, Metrics]:  # fmt: skip
        """Returns the divergence, the queue with this batch, and no metrics."""
        t_BE, s_BE = unit_rows(y_BE), unit_rows(linear(params, x_BD))
        logits = [z @ state["queue"].T / self.temperature for z in (t_BE, s_BE)]
        term = reduce.mean(kullback_leibler(*logits))
        arrived = whole(t_BE, reduce)[-self.queue :]
        queue = jnp.concatenate([state["queue"][len(arrived) :], arrived])
        filled = state["filled"] + len(arrived)
        ready = (filled >= self.queue).astype(jnp.float32)
        return term, {"queue": queue, "filled": filled, "ready": ready}, {}
