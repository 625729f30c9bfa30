"""Treatment of each parameter by the optimiser, and the protocol of optimisers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import optax

PyTree = Any
Path = tuple[str, ...]  # keys from the root of the parameters to a leaf

UNSCALED = ("bias", "scale")  # leaves that most recipes neither decay nor adapt


@dataclass(frozen=True)
class Group:
    """Treatment of one parameter by the optimiser.

    Attributes:
        decays: weight decay acts on it.
        trust_ratio: its learning rate is scaled by a layer-wise trust ratio, in optimisers that
            have one.
        clip: name of the parameters whose gradients are clipped by one norm together.
        frozen_until: first step that moves it.
        frozen_share: share of the run's steps before which it does not move, rounded down; the
            later of the two counts.
        keeps_moments: False: its gradient counts as zero while it is frozen, and the optimiser
            begins with it afterwards. True: only its learning rate is zero until then.
        rate: factor on its learning rate.
    """

    decays: bool = True
    trust_ratio: bool = True
    clip: str = "all"
    frozen_until: int = 0
    frozen_share: float = 0.0
    keeps_moments: bool = False
    rate: float = 1.0

    def first_step(self, total_steps: int) -> int:
        """Returns the first step that moves the parameter in a run of `total_steps`."""
        return max(self.frozen_until, int(self.frozen_share * total_steps))


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


def group_by(params: PyTree, rule: Callable[[Path, Any], Group]) -> PyTree:
    """Returns rule(path, leaf) for every parameter, with the keys of its path as strings."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: rule(tuple(str(getattr(k, "key", k)) for k in path), leaf), params
    )


def is_scaled(path: Path) -> bool:
    """True for parameters that are neither biases nor the scales of a normalisation."""
    return not path or path[-1] not in UNSCALED


def clip_by_group(grads: PyTree, groups: PyTree, largest: float) -> PyTree:
    """Clips the gradients of every clip group by their common norm."""
    clip = optax.clip_by_global_norm(largest)
    leaves, structure = jax.tree.flatten(grads)
    names = [group.clip for group in jax.tree.leaves(groups)]
    clipped = list(leaves)
    for name in dict.fromkeys(names):
        index = [i for i, other in enumerate(names) if other == name]
        part, _ = clip.update([leaves[i] for i in index], optax.EmptyState())
        for i, leaf in zip(index, part):
            clipped[i] = leaf
    return jax.tree.unflatten(structure, clipped)


def moving(params: PyTree, groups: PyTree, step: jax.Array, total_steps: int) -> PyTree:
    """Returns True for parameters that always move, otherwise bool[], whether this step does."""

    def one(_: jax.Array, group: Group) -> Any:
        first = group.first_step(total_steps)
        return step >= first if first else True

    return jax.tree.map(one, params, groups)


def choose(moves: PyTree, new: PyTree, old: PyTree) -> PyTree:
    """Returns the new leaves where parameters move, else the old ones."""
    return jax.tree.map(lambda m, n, o: n if m is True else jnp.where(m, n, o), moves, new, old)


def without_frozen(grads: PyTree, groups: PyTree, moves: PyTree) -> PyTree:
    """Zeroes the gradients of frozen parameters, but of those that keep their moments."""

    def one(g: jax.Array, group: Group, moves: Any) -> jax.Array:
        return g if moves is True or group.keeps_moments else jnp.where(moves, g, 0.0)

    return jax.tree.map(one, grads, groups, moves)
