"""AdamW laid out as its equations.

The moments count their own updates for Adam's bias correction; that count stays behind the step
where updates were skipped.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from socialjepa_jax.errors import InputError, check_positive
from socialjepa_jax.optim import groups as by_parameter
from socialjepa_jax.optim.groups import Group, PyTree
from socialjepa_jax.optim.schedules import Scheduled


def decay_mask(params: PyTree) -> PyTree:
    """True where weight decay acts: leaves named "kernel"; not biases, scales or learnt tokens."""

    def is_kernel(path: tuple[Any, ...], _: Any) -> bool:
        return bool(path) and getattr(path[-1], "key", None) == "kernel"

    return jax.tree_util.tree_map_with_path(is_kernel, params)


@dataclass(frozen=True)
class AdamW(Scheduled):
    """Decoupled Adam with gradient clipping (Loshchilov & Hutter, 2019), scheduled by the step.

    Attributes:
        kind, learning_rate, start_fraction, final_fraction, warmup_fraction, weight_decay,
            final_weight_decay: see `Scheduled`; the first update is one step past the start.
            Without groups weight decay acts on kernels only (`decay_mask`).
        beta1, beta2, eps: Adam's constants.
        clip: largest gradient norm, of all parameters together or of each clip group.
    """

    kind: str = "adamw"
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    clip: float = 1.0

    def __post_init__(self) -> None:
        self.check_schedules()
        check_positive(eps=self.eps, clip=self.clip)
        for name, beta in (("beta1", self.beta1), ("beta2", self.beta2)):
            if not 0.0 <= beta < 1.0:
                raise InputError(f"{name}={beta} must be in [0, 1)")

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
        rates, decays = self.schedules(total_steps)
        rate, decay = rate * rates(step + 1), decays(step + 1)
        if groups is None:
            return *self.update(grads, opt_state, params, rate, decay), rate
        moves = by_parameter.moving(params, groups, step, total_steps)
        grads = by_parameter.clip_by_group(grads, groups, self.clip)
        grads = by_parameter.without_frozen(grads, groups, moves)
        with jax.named_scope("optimizer"):
            direction, opt_state = self._adam.update(grads, opt_state)
            direction = self._late_starts(direction, opt_state, groups, total_steps)
            new = _moved(params, direction, groups, rate, decay)
        return by_parameter.choose(moves, new, params), opt_state, rate

    def _late_starts(
        self, direction: PyTree, opt_state: optax.OptState, groups: PyTree, total_steps: int
    ) -> PyTree:
        """Corrects the bias of parameters that were frozen by the updates since then."""

        def corrected(d: jax.Array, group: Group, mean: jax.Array, square: jax.Array) -> jax.Array:
            first = 0 if group.keeps_moments else group.first_step(total_steps)
            if not first:
                return d
            count = jnp.maximum(opt_state.count - first, 1)
            mean = mean / (1.0 - self.beta1**count)
            return mean / (jnp.sqrt(square / (1.0 - self.beta2**count)) + self.eps)

        return jax.tree.map(corrected, direction, groups, opt_state.mu, opt_state.nu)

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
                norm of all gradients. Freezing is up to `apply`.

        Returns:
            The new parameters and moments.
        """
        if groups is None:
            groups = jax.tree.map(lambda decays: Group(decays=decays), decay_mask(params))
        with jax.named_scope("optimizer"):
            clipped = by_parameter.clip_by_group(grads, groups, self.clip)
            direction, opt_state = self._adam.update(clipped, opt_state)
            return _moved(params, direction, groups, learning_rate, weight_decay), opt_state


def _moved(
    params: PyTree, direction: PyTree, groups: PyTree, rate: jax.Array, decay: jax.Array
) -> PyTree:
    def one(p: jax.Array, d: jax.Array, group: Group) -> jax.Array:
        scaled = rate if group.rate == 1.0 else rate * group.rate
        return p - scaled * (d + (decay * p if group.decays else 0.0))

    return jax.tree.map(one, params, direction, groups)
