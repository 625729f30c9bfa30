"""Schedules as functions of the step, and the settings of a learning rate and a weight decay.

Schedules take the step as an argument, so resuming at step n and starting at step n are the same
computation.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import (
    check_in_range,
    check_non_negative,
    check_one_of,
    check_positive,
)

Schedule = Callable[[jax.typing.ArrayLike], jax.Array]


def _progress(step: jax.typing.ArrayLike, total: jax.typing.ArrayLike) -> jax.Array:
    return jnp.clip(jnp.asarray(step, jnp.float32) / jnp.maximum(total, 1), 0.0, 1.0)


def constant(value: float) -> Schedule:
    """The same value at every step."""
    return lambda step: jnp.full_like(jnp.asarray(step, jnp.float32), value)


def linear(start: float, end: float, total: jax.typing.ArrayLike) -> Schedule:
    """From `start` at step 0 to `end` at step `total` along a straight line, constant after."""
    return lambda step: start + (end - start) * _progress(step, total)


def cosine(start: float, end: float, total: jax.typing.ArrayLike) -> Schedule:
    """From `start` at step 0 to `end` at step `total` along half a cosine, constant after."""
    return lambda step: end + (start - end) * 0.5 * (1.0 + jnp.cos(jnp.pi * _progress(step, total)))


def warmup_cosine(
    start: float, peak: float, end: float, warmup: int, total: jax.typing.ArrayLike
) -> Schedule:
    """Linear from `start` to `peak` over `warmup` steps, then half a cosine to `end` at `total`."""
    rise, fall = linear(start, peak, warmup), cosine(peak, end, total - warmup)

    def schedule(step: jax.typing.ArrayLike) -> jax.Array:
        step = jnp.asarray(step)
        return jnp.where(step < warmup, rise(step), fall(step - warmup))

    return schedule


def warmup_both_ends(
    start: float, peak: float, end: float, warmup: int, total: jax.typing.ArrayLike
) -> Schedule:
    """DINO's warm-up and cosine: both ends of the warm-up are values of a step.

    Warm-up step i has start + (peak - start) i / (warmup - 1), so the peak is the value of the last
    warm-up step and of the first step of the cosine, whose last step is still above `end`.
    """
    rise, descent = linear(start, peak, max(warmup - 1, 1)), cosine(peak, end, total - warmup)

    def schedule(step: jax.typing.ArrayLike) -> jax.Array:
        step = jnp.asarray(step)
        return jnp.where(step < warmup, rise(step), descent(step - warmup))

    return schedule


@dataclass(frozen=True)
class Scheduled:
    """Learning rate and weight decay of an optimiser over the steps of a run.

    Attributes:
        kind: name in a configuration.
        learning_rate: peak of the schedule.
        start_fraction: learning rate that warm-up starts from, as a fraction of the peak.
        final_fraction: learning rate at the last step, as a fraction of the peak.
        warmup_fraction: share of all steps over which the learning rate rises linearly.
        weight_decay: coefficient at the start of its schedule.
        final_weight_decay: coefficient at the last step, reached along half a cosine.
        schedule: "ijepa": the first update is one step past the start, and the last one has reached
            the end | "dino": the first update has the start, the peak is the value of two updates,
            and the last one is a step before the end (`warmup_both_ends`).
    """

    kind: str = ""
    learning_rate: float = 3e-4
    start_fraction: float = 0.0
    final_fraction: float = 0.0
    warmup_fraction: float = 0.05
    weight_decay: float = 0.05
    final_weight_decay: float = 0.05
    schedule: str = "ijepa"

    def check_schedules(self) -> None:
        """Raises `InputError` if one of these settings cannot work."""
        check_one_of((type(self).kind,), kind=self.kind)
        check_one_of(("ijepa", "dino"), schedule=self.schedule)
        check_positive(learning_rate=self.learning_rate)
        check_non_negative(
            weight_decay=self.weight_decay, final_weight_decay=self.final_weight_decay
        )
        check_in_range(
            0.0,
            1.0,
            start_fraction=self.start_fraction,
            final_fraction=self.final_fraction,
            warmup_fraction=self.warmup_fraction,
        )

    def schedules(self, total_steps: int) -> tuple[Schedule, Schedule]:
        """Returns (learning rate, weight decay) as functions of the number of updates so far.

        The update with 0-based index i uses the value at i + 1. With "ijepa" the first one moves
        and the last one reaches the end of the schedule, as in I-JEPA's reference code.
        """
        start, end = (f * self.learning_rate for f in (self.start_fraction, self.final_fraction))
        warmup = int(self.warmup_fraction * total_steps)
        decay = cosine(self.weight_decay, self.final_weight_decay, total_steps)
        if self.schedule == "ijepa":
            return warmup_cosine(start, self.learning_rate, end, warmup, total_steps), decay
        rate = warmup_both_ends(start, self.learning_rate, end, warmup, total_steps)
        return lambda count: rate(count - 1), lambda count: decay(count - 1)
