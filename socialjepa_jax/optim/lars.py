"""LARS: momentum with a learning rate for each layer (You et al., 2017), in three forms."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import check_in_range, check_one_of, check_positive
from socialjepa_jax.optim import groups as by_parameter
from socialjepa_jax.optim.groups import Group, PyTree
from socialjepa_jax.optim.schedules import Scheduled

FORMS = ("outside", "inside", "larc")
TINY = 1e-8  # added to the denominator of "larc", as in apex


@dataclass(frozen=True)
class Lars(Scheduled):
    """SGD with momentum and layer-wise trust ratios.

    With p the parameter, g its gradient, w the weight decay, eta the trust coefficient, b the
    momentum and r the learning rate, the ratio is 1 where a norm is zero, and

        "outside": u = g + w p, m <- b m + (eta |p| / |u|) u, p <- p - r m
            (MoCo v3, DINO, Barlow Twins);
        "inside": the same u and ratio, m <- b m + r (eta |p| / |u|) u, p <- p - m (SimCLR);
        "larc": u = g + w p, m <- b m + (eta |p| / (|g| + w |p| + 1e-8)) u, p <- p - r m, with the
            norm of the gradient alone; where a norm is zero u = g (SwAV, after NVIDIA's apex).

    Groups say which parameters decay and have a ratio. Without groups these are all in "larc", and
    all but biases and scales of normalisations in the others. Layers that are stacked by
    `scan_layers` share one ratio. Gradients are not clipped.

    Attributes:
        kind, learning_rate, start_fraction, final_fraction, warmup_fraction, weight_decay,
            final_weight_decay, schedule: see `Scheduled`.
        form: "outside" | "inside" | "larc".
        momentum: b.
        trust: eta.
    """

    kind: str = "lars"
    form: str = "outside"
    learning_rate: float = 0.3
    warmup_fraction: float = 0.1
    weight_decay: float = 1e-6
    final_weight_decay: float = 1e-6
    momentum: float = 0.9
    trust: float = 1e-3

    def __post_init__(self) -> None:
        self.check_schedules()
        check_one_of(FORMS, form=self.form)
        check_in_range(0.0, 1.0, momentum=self.momentum)
        check_positive(trust=self.trust)

    def init(self, params: PyTree) -> PyTree:
        """Returns zero momenta for the parameters."""
        return jax.tree.map(jnp.zeros_like, params)

    def apply(
        self,
        grads: PyTree,
        opt_state: PyTree,
        params: PyTree,
        *,
        step: jax.Array,
        total_steps: int,
        rate: jax.Array,
        groups: PyTree | None = None,
    ) -> tuple[PyTree, PyTree, jax.Array]:
        """Does the update with the 0-based index `step`; see `Optimizer.apply`."""
        rates, decays = self.schedules(total_steps)
        rate, decay = rate * rates(step + 1), decays(step + 1)
        if groups is None:
            groups = by_parameter.group_by(params, self._group)
        moves = by_parameter.moving(params, groups, step, total_steps)
        grads = by_parameter.without_frozen(grads, groups, moves)
        inside = self.form == "inside"

        def momentum(p: jax.Array, g: jax.Array, m: jax.Array, group: Group) -> jax.Array:
            u = self._scaled(p, g, decay, group)
            return self.momentum * m + (rate * group.rate * u if inside else u)

        def moved(p: jax.Array, m: jax.Array, group: Group) -> jax.Array:
            return p - (m if inside else rate * group.rate * m)

        with jax.named_scope("optimizer"):
            momenta = jax.tree.map(momentum, params, grads, opt_state, groups)
            momenta = by_parameter.choose(moves, momenta, opt_state)
            new = jax.tree.map(moved, params, momenta, groups)
        return by_parameter.choose(moves, new, params), momenta, rate

    def _group(self, path: by_parameter.Path, _: Any) -> Group:
        scaled = self.form == "larc" or by_parameter.is_scaled(path)
        return Group(decays=scaled, trust_ratio=scaled)

    def _scaled(self, p: jax.Array, g: jax.Array, decay: jax.Array, group: Group) -> jax.Array:
        """Returns the gradient with weight decay, times the trust ratio."""
        decay = decay if group.decays else jnp.zeros(())
        u = g + decay * p
        if not group.trust_ratio:
            return u
        size, of_gradient = jnp.linalg.norm(p), jnp.linalg.norm(g)
        if self.form == "larc":
            known = (size > 0.0) & (of_gradient > 0.0)
            ratio = self.trust * size / (of_gradient + decay * size + TINY)
            return jnp.where(known, ratio * u, g)
        norm = jnp.linalg.norm(u)
        known = (size > 0.0) & (norm > 0.0)
        return jnp.where(known, self.trust * size / jnp.where(known, norm, 1.0), 1.0) * u
