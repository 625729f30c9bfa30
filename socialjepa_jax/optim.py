"""Schedules as functions of the step, and AdamW laid out as its equations.

Schedules take the step as an argument, so resuming at step n and starting at step n are the same
computation. The moments count their own updates for Adam's bias correction; that count stays behind
the step where updates were skipped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import optax

from socialjepa_jax.errors import (
    InputError,
    check_in_range,
    check_non_negative,
    check_one_of,
    check_positive,
)

PyTree = Any
Schedule = Callable[[jax.typing.ArrayLike], jax.Array]


@dataclass(frozen=True)
class Group:
    """Treatment of one parameter by the optimiser.

    Attributes:
        decays: weight decay acts on it.
        trust_ratio: its learning rate is scaled by a layer-wise trust ratio, in optimisers that
            have one.
        clip: name of the parameters whose gradients are clipped by one norm together.
        frozen_until: first step that moves it; before, its gradient is taken as zero.
    """

    decays: bool = True
    trust_ratio: bool = True
    clip: str = "all"
    frozen_until: int = 0


class Optimizer(Protocol):
    """An optimiser: a frozen dataclass whose methods are pure functions."""

    def init(self, params: PyTree) -> PyTree:
        """Returns the state of step 0."""
        ...

    def apply(
        self,
        grads: PyTree,
        opt_state: PyTree,
        params: PyTree,
        *,
        step: jax.Array,
        total_steps: int,
        rate: jax.Array,
        groups: PyTree | None,
    ) -> tuple[PyTree, PyTree, jax.Array]:
        """Does the update with the 0-based index `step`.

        Args:
            grads: gradients of the global loss, shaped like `params`.
            opt_state: from `init` or the previous update.
            params: current parameters.
            step: i32[].
            total_steps: length of the run, for the schedules.
            rate: f32[], the agent's factor on the learning rate.
            groups: a `Group` for every parameter; None for the optimiser's own choice.

        Returns:
            The new parameters and state, and the learning rate f32[] that was used.
        """
        ...


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


def decay_mask(params: PyTree) -> PyTree:
    """True where weight decay acts: leaves named "kernel"; not biases, scales or learnt tokens."""

    def is_kernel(path: tuple[Any, ...], _: Any) -> bool:
        return bool(path) and getattr(path[-1], "key", None) == "kernel"

    return jax.tree_util.tree_map_with_path(is_kernel, params)


@dataclass(frozen=True)
class AdamW:
    """Decoupled Adam with global-norm clipping (Loshchilov & Hutter, 2019), scheduled by the step.

    Attributes:
        kind: name in a configuration.
        learning_rate: peak of the schedule.
        start_fraction: learning rate that warm-up starts from, as a fraction of the peak; the first
            update is one step past it.
        final_fraction: learning rate at the last step, as a fraction of the peak.
        warmup_fraction: share of all steps over which the learning rate rises linearly.
        weight_decay: coefficient at the start of its schedule; acts on kernels only (`decay_mask`).
        final_weight_decay: coefficient at the last step, reached along half a cosine.
        beta1, beta2, eps: Adam's constants.
        clip: largest global gradient norm.
    """

    kind: str = "adamw"
    learning_rate: float = 3e-4
    start_fraction: float = 0.0
    final_fraction: float = 0.0
    warmup_fraction: float = 0.05
    weight_decay: float = 0.05
    final_weight_decay: float = 0.05
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    clip: float = 1.0

    def __post_init__(self) -> None:
        check_one_of(("adamw",), kind=self.kind)
        check_positive(learning_rate=self.learning_rate, eps=self.eps, clip=self.clip)
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
        for name, beta in (("beta1", self.beta1), ("beta2", self.beta2)):
            if not 0.0 <= beta < 1.0:
                raise InputError(f"{name}={beta} must be in [0, 1)")

    def schedules(self, total_steps: int) -> tuple[Schedule, Schedule]:
        """Returns (learning rate, weight decay) as functions of the number of updates so far.

        The update with 0-based index i uses the value at i + 1: the first one moves, the last one
        reaches the end of the schedule (as in I-JEPA's reference code).
        """
        peak = self.learning_rate
        rate = warmup_cosine(
            self.start_fraction * peak,
            peak,
            self.final_fraction * peak,
            int(self.warmup_fraction * total_steps),
            total_steps,
        )
        return rate, cosine(self.weight_decay, self.final_weight_decay, total_steps)

    @property
    def _adam(self) -> optax.GradientTransformation:
        return optax.scale_by_adam(self.beta1, self.beta2, self.eps)

    def init(self, params: PyTree) -> optax.OptState:
        """Returns zero moments for the parameters."""
        return self._adam.init(params)

    def apply(
        self,
        grads: PyTree,
        opt_state: optax.OptState,
        params: PyTree,
        *,
        step: jax.Array,
        total_steps: int,
        rate: jax.Array,
        groups: PyTree | None = None,
    ) -> tuple[PyTree, optax.OptState, jax.Array]:
        """Does the update with the 0-based index `step`; see `Optimizer.apply`."""
        learning_rate, decay = self.schedules(total_steps)
        rate = rate * learning_rate(step + 1)
        if groups is None:
            return *self.update(grads, opt_state, params, rate, decay(step + 1)), rate
        moves = jax.tree.map(
            lambda _, group: step >= group.frozen_until if group.frozen_until else True,
            params,
            groups,
        )
        grads = jax.tree.map(
            lambda g, moving: g if moving is True else jnp.where(moving, g, 0.0), grads, moves
        )
        new, opt_state = self.update(grads, opt_state, params, rate, decay(step + 1), groups)
        new = jax.tree.map(
            lambda n, p, moving: n if moving is True else jnp.where(moving, n, p),
            new,
            params,
            moves,
        )
        return new, opt_state, rate

    def update(
        self,
        grads: PyTree,
        opt_state: optax.OptState,
        params: PyTree,
        learning_rate: jax.Array,
        weight_decay: jax.Array,
        groups: PyTree | None = None,
    ) -> tuple[PyTree, optax.OptState]:
        """Does one step: p <- p - lr (m / (sqrt(v) + eps) + wd p).

        Args:
            grads: gradients of the global loss, shaped like `params`.
            opt_state: moments from `init` or the previous step.
            params: current parameters.
            learning_rate: scalar, this step's value.
            weight_decay: scalar, this step's value.
            groups: a `Group` for every parameter; None: decay on kernels (`decay_mask`), and one
                norm of all gradients. `frozen_until` is up to the caller.

        Returns:
            The new parameters and moments.
        """
        if groups is None:
            groups = jax.tree.map(lambda decays: Group(decays=decays), decay_mask(params))
        with jax.named_scope("optimizer"):
            direction, opt_state = self._adam.update(self._clipped(grads, groups), opt_state)
            new = jax.tree.map(
                lambda p, d, group: (
                    p - learning_rate * (d + (weight_decay * p if group.decays else 0.0))
                ),
                params,
                direction,
                groups,
            )
        return new, opt_state

    def _clipped(self, grads: PyTree, groups: PyTree) -> PyTree:
        """Clips the gradients of every clip group by their common norm."""
        clip = optax.clip_by_global_norm(self.clip)
        leaves, structure = jax.tree.flatten(grads)
        names = [group.clip for group in jax.tree.leaves(groups)]
        clipped = list(leaves)
        for name in dict.fromkeys(names):
            index = [i for i, other in enumerate(names) if other == name]
            part, _ = clip.update([leaves[i] for i in index], optax.EmptyState())
            for i, leaf in zip(index, part):
                clipped[i] = leaf
        return jax.tree.unflatten(structure, clipped)
