"""How SIGReg enters an objective: its settings, and the loss made of it and a prediction error.

Shape key: B batch, V views, P features, M slices.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from socialjepa_jax import sigreg
from socialjepa_jax.errors import check_in_range, check_non_negative, check_one_of, check_positive
from socialjepa_jax.objectives.base import HParams, Metrics
from socialjepa_jax.sharding import Reduce

_FIXED_SLICES = 101  # folded into an agent's seed; `agents` and `sweep` name its other streams


@dataclass(frozen=True)
class SigRegTerm:
    """The part of an objective's settings that concerns SIGReg.

    Attributes:
        sigreg_weight: lambda; `hparams['lambda']`, where an agent has it, comes before it.
        sigreg_slices: random directions a step.
        sigreg_sampler: "gaussian" | "sobol", see `sigreg.sample_directions`.
        sigreg_resample: draw new directions at every step (the paper); False keeps an agent's first
            ones, so that what they do not see is never regularised (figure 7).
        quadrature: knots of the Epps-Pulley statistic.
        loss_form: "convex": (1 - lambda) prediction + lambda SIGReg (the paper) | "additive":
            prediction + lambda SIGReg (other implementations).
        view_mode: "per_view": SIGReg of each view's samples, averaged (the paper) | "flatten": of
            the samples of all views together. A published lambda belongs to its form and mode: with
            correlated views the flattened statistic is higher at the same embeddings.
    """

    sigreg_weight: float = 0.05
    sigreg_slices: int = 1024
    sigreg_sampler: str = "gaussian"
    sigreg_resample: bool = True
    quadrature: sigreg.Quadrature = sigreg.OFFICIAL
    loss_form: str = "convex"
    view_mode: str = "per_view"

    def check_sigreg(self) -> None:
        """Raises `InputError` where one of these settings cannot work."""
        check_one_of(("convex", "additive"), loss_form=self.loss_form)
        check_non_negative(sigreg_weight=self.sigreg_weight)
        if self.loss_form == "convex":
            check_in_range(0.0, 1.0, sigreg_weight=self.sigreg_weight)
        check_one_of(("per_view", "flatten"), view_mode=self.view_mode)
        check_one_of(("gaussian", "sobol"), sigreg_sampler=self.sigreg_sampler)
        check_positive(sigreg_slices=self.sigreg_slices)

    def slices_key(self, key: jax.Array, hparams: HParams) -> jax.Array:
        """The step's key as it is, or one that is the agent's own and the same at every step."""
        if self.sigreg_resample:
            return key
        return jax.random.fold_in(jax.random.key(hparams.get("seed", 0)), _FIXED_SLICES)

    def regularizer(self, z_BVP: jax.Array, key: jax.Array, reduce: Reduce) -> jax.Array:
        """SIGReg of f32[B, V, P]; `key` draws the directions and is the same on all shards."""
        directions_PM = sigreg.sample_directions(
            key, z_BVP.shape[-1], self.sigreg_slices, sampler=self.sigreg_sampler
        )
        t_max, num_knots = self.quadrature.t_max, self.quadrature.num_knots
        statistic = partial(sigreg.epps_pulley, t_max=t_max, num_knots=num_knots)
        flatten = self.view_mode == "flatten"
        z = z_BVP.reshape(-1, z_BVP.shape[-1]) if flatten else z_BVP.swapaxes(0, 1)
        return sigreg.sigreg(z, directions_PM, statistic=statistic, axis_name=reduce.axis_name)

    def combine(self, prediction: jax.Array, penalty: jax.Array, hparams: HParams) -> jax.Array:
        """The loss of both terms."""
        weight = hparams.get("lambda", self.sigreg_weight)
        rest = 1.0 - weight if self.loss_form == "convex" else 1.0
        return rest * prediction + weight * penalty

    def levels(self, penalty: jax.Array, z_BVP: jax.Array, reduce: Reduce) -> Metrics:
        """The penalty of f32[B, V, P] on the two scales that mean something.

        'sigreg_null': over its expectation for Gaussian samples, so 1 is the goal, not 0.
        'sigreg_collapse': over its value where all embeddings are zero.
        """
        samples = reduce.sum(jnp.ones(len(z_BVP)))
        if self.view_mode == "flatten":
            samples *= z_BVP.shape[1]
        return {
            "sigreg_null": penalty / self.quadrature.null_level,
            "sigreg_collapse": penalty / (self.quadrature.collapse_level * samples),
        }
