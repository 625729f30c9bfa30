"""The map W between the latents of two models that are still learning, refitted inside the step.

W is fitted to decayed moments of many batches and never to the batch that it is applied to: with
fewer pairs than features W would interpolate them, and the term that it makes would be zero. Every
batch first meets the W of the batches before it, so the logged residual is that of fresh pairs.

Shape key: B batch, D features of x, E features of y, F = D + E.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import InputError, check_one_of, check_positive
from socialjepa_jax.objectives.base import Metrics
from socialjepa_jax.sharding import Reduce

KINDS = ("closed", "shuffled", "identity", "random", "learned")
PAIRS_PER_FEATURE = 5  # that the moments hold at least
_HIGHEST = jax.lax.Precision.HIGHEST
State = dict[str, jax.Array]


class Pull(Protocol):
    """A term that pulls a student's latents x towards what its teacher sees, y."""

    @property
    def kind(self) -> str:
        """Names the pull in a configuration."""

    def check_widths(self, x: int, y: int) -> None:
        """Checks that the term can be made of latents of these widths; raises `InputError`."""

    def init(self, key: jax.Array, x: int, y: int) -> tuple[State, State]:
        """Returns the parameters, {} without any, and the state; 'ready' is 1 once it may pull."""

    def pull(
        self, params: State, state: State, x_BD: jax.Array, y_BE: jax.Array, step: jax.Array,
        reduce: Reduce,
    ) -> tuple[jax.Array, State, Metrics]:  # fmt: skip
        """Returns the term, the state after this batch, and metrics; y is a constant."""


@dataclass(frozen=True)
class Link:
    """Settings of the map between two models.

    Attributes:
        kind: "closed": ridge regression, eq. (4) | "shuffled": the same on pairs that do not belong
            together: as much compute, no information | "identity": W = I | "random": a fixed
            random orthogonal matrix | "learned": a linear layer, trained by the same term.
        memory: pairs that the moments hold: a batch of B takes the place of B / memory of them.
        every: steps from one refit to the next.
        ridge: lambda of eq. (4) on standardised latents, as a share of the pairs.
    """

    kind: str = "closed"
    memory: int = 2048
    every: int = 10
    ridge: float = 1e-3

    def __post_init__(self) -> None:
        check_one_of(KINDS, kind=self.kind)
        check_positive(memory=self.memory, every=self.every, ridge=self.ridge)

    @property
    def is_fitted(self) -> bool:
        """True if W comes from moments."""
        return self.kind in ("closed", "shuffled")

    def check_widths(self, x: int, y: int) -> None:
        """Checks that the map can be made between latents of these widths.

        Raises:
            InputError: the memory is too short, or W = I is not square.
        """
        least = PAIRS_PER_FEATURE * max(x, y)
        if self.is_fitted and self.memory < least:
            raise InputError(
                f"link.memory={self.memory} must be at least {least}, "
                f"{PAIRS_PER_FEATURE} pairs for each of {max(x, y)} features"
            )
        if self.kind in ("identity", "random") and x != y:
            raise InputError(f"link.kind={self.kind!r} needs equal widths, these are {x} and {y}")

    def init(self, key: jax.Array, x: int, y: int) -> tuple[State, State]:
        """Returns parameters (of "learned" only) and the carried state.

        Args:
            key: of the random matrix.
            x: D.
            y: E.
        """
        self.check_widths(x, y)
        state = {"count": jnp.zeros(()), "mean": jnp.zeros(x + y), "sums": jnp.zeros((x + y,) * 2)}
        state |= {"w": jnp.zeros((y, x)), "w_back": jnp.zeros((x, y)), "ready": jnp.zeros(())}
        state |= {"center": jnp.zeros(x + y)}
        if self.kind == "learned":
            return linear_head(key, x, y), state | {"ready": jnp.ones(())}
        if not self.is_fitted:
            w = jnp.eye(x) if self.kind == "identity" else jax.random.orthogonal(key, x)
            state |= {"w": w, "w_back": w.T, "ready": jnp.ones(())}
        return {}, state

    def forward(self, params: State, state: State, x_BD: jax.Array) -> jax.Array:
        """Returns W x in the space of y: f32[B, E]; W has no gradient unless it is learned."""
        if self.kind == "learned":
            return linear(params, x_BD)
        width = x_BD.shape[1]
        center = jax.lax.stop_gradient(state["center"])
        w = jax.lax.stop_gradient(state["w"])
        return (x_BD - center[None, :width]) @ w.T + center[None, width:]

    def backward(self, state: State, y_BE: jax.Array) -> jax.Array:
        """Returns y in the space of x by the reverse regression: f32[B, D]; not of "learned"."""
        width = state["w"].shape[1]
        center, w = (jax.lax.stop_gradient(state[name]) for name in ("center", "w_back"))
        return (y_BE - center[None, width:]) @ w.T + center[None, :width]

    def pull(
        self, params: State, state: State, x_BD: jax.Array, y_BE: jax.Array, step: jax.Array,
        reduce: Reduce,
    ) -> tuple[jax.Array, State, Metrics]:  # fmt: skip
        """Returns |y - W x|^2, the state after this batch, and the metrics of `fresh`."""
        y_BE = self.partners(y_BE, reduce)
        predicted = self.forward(params, state, x_BD)
        term = squared_distance(predicted, y_BE, reduce)
        moved = self.update(state, x_BD, y_BE, step, reduce)
        return term, moved, fresh(predicted, x_BD, y_BE, state, reduce)

    def partners(self, y_BE: jax.Array, reduce: Reduce) -> jax.Array:
        """Returns the latents that x is compared with: y, or another row's where shuffled."""
        if self.kind != "shuffled":
            return y_BE
        rolled = jnp.roll(reduce.gather(y_BE), 1, axis=0)
        if reduce.axis_name is None:
            return rolled
        first = jax.lax.axis_index(reduce.axis_name) * len(y_BE)
        return jax.lax.dynamic_slice_in_dim(rolled, first, len(y_BE))

    def update(
        self, state: State, x_BD: jax.Array, y_BE: jax.Array, step: jax.Array, reduce: Reduce
    ) -> State:
        """Takes a batch into the moments, and refits W where its turn has come; no gradient."""
        if not self.is_fitted:
            return state
        u_BF = jax.lax.stop_gradient(jnp.concatenate([x_BD, y_BE], axis=1))
        state = state | self._merged(state, u_BF, reduce)
        enough = state["count"] >= PAIRS_PER_FEATURE * max(x_BD.shape[1], y_BE.shape[1])
        due = ((step + 1) % self.every == 0) & enough
        width = x_BD.shape[1]
        fitted = jax.lax.cond(due, lambda s: self._fitted(s, width), _kept, state)
        return state | fitted

    def _merged(self, state: State, u_BF: jax.Array, reduce: Reduce) -> State:
        """Merges decayed moments with those of a batch (Chan, Golub and LeVeque, 1983)."""
        batch = reduce.sum(jnp.ones(len(u_BF)))
        decay = jnp.maximum(0.0, 1.0 - batch / self.memory)
        mean_F = reduce.mean(u_BF)
        centred = u_BF - mean_F[None]
        sums_FF = reduce.sum(jnp.matmul(centred.T, centred, precision=_HIGHEST)[None])
        old = decay * state["count"]
        total, delta_F = old + batch, mean_F - state["mean"]
        between = jnp.outer(delta_F, delta_F) * old * batch / total
        return {
            "count": total,
            "mean": state["mean"] + delta_F * batch / total,
            "sums": decay * state["sums"] + sums_FF + between,
        }

    def _fitted(self, state: State, width: int) -> State:
        """Solves eq. (4) both ways: W x ~ y and the reverse regression, in raw units."""
        variance_F = jnp.diagonal(state["sums"]) / state["count"]
        scale_F = jnp.sqrt(jnp.where(variance_F > 0.0, variance_F, 1.0))
        correlation = state["sums"] / state["count"] / jnp.outer(scale_F, scale_F)
        found = {}
        x, y = slice(None, width), slice(width, None)
        for name, source, target in (("w", x, y), ("w_back", y, x)):
            gram = correlation[source, source]
            gram += self.ridge * jnp.eye(len(gram))
            w = jax.scipy.linalg.solve(gram, correlation[source, target], assume_a="pos").T
            found[name] = scale_F[target, None] * w / scale_F[None, source]
        return {**found, "center": state["mean"], "ready": jnp.ones_like(state["ready"])}


def _kept(state: State) -> dict[str, Any]:
    return {name: state[name] for name in ("w", "w_back", "center", "ready")}


def linear_head(key: jax.Array, x: int, y: int) -> State:
    """Draws a linear layer from x to y features, its kernel truncated normal of scale 0.02."""
    kernel = 0.02 * jax.random.truncated_normal(key, -2.0, 2.0, (x, y))
    return {"kernel": kernel, "bias": jnp.zeros(y)}


def linear(head: State, x_BD: jax.Array) -> jax.Array:
    """Applies a linear layer: f32[B, E]."""
    return x_BD @ head["kernel"] + head["bias"][None]


def squared_distance(x_BD: jax.Array, y_BD: jax.Array, reduce: Reduce) -> jax.Array:
    """Returns the mean over batch and features of (x - y)^2."""
    return reduce.mean(jnp.square(x_BD - y_BD).mean(1))


def fresh(
    predicted_BE: jax.Array, x_BD: jax.Array, y_BE: jax.Array, state: State, reduce: Reduce
) -> Metrics:
    """Returns what a fresh batch says of W and of both sides, without gradient.

    'link/residual', the mean squared error of W x; 'link/r2', against the batch's mean;
    'link/ready', 1 as soon as W was fitted; and for both sides 'link/norm_*' (root mean square of
    a latent's norm) and 'link/rank_*' (participation ratio of the covariance).
    """
    predicted_BE, x_BD, y_BE = jax.lax.stop_gradient((predicted_BE, x_BD, y_BE))
    residual = squared_distance(predicted_BE, y_BE, reduce)
    spread = reduce.mean(jnp.square(y_BE - reduce.mean(y_BE)[None]).mean(1))
    found = {"link/residual": residual, "link/ready": jax.lax.stop_gradient(state["ready"])}
    found["link/r2"] = 1.0 - residual / jnp.maximum(spread, 1e-12)
    for name, z in (("x", x_BD), ("y", y_BE)):
        found[f"link/norm_{name}"] = jnp.sqrt(reduce.mean(jnp.square(z).sum(1)))
        centred = z - reduce.mean(z)[None]
        sums = reduce.sum(jnp.matmul(centred.T, centred, precision=_HIGHEST)[None])
        squares = jnp.maximum(jnp.square(sums).sum(), 1e-30)
        found[f"link/rank_{name}"] = jnp.square(jnp.trace(sums)) / squares
    return found
