"""SIGReg as a term of an objective: its settings, its value, and its sum with a prediction error.

Shape key: B batch, V views, P features.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax import sigreg
from socialjepa_jax.errors import check_in_range, check_non_negative, check_one_of, check_positive
from socialjepa_jax.keys import Stream, agent_key
from socialjepa_jax.objectives.base import HParams, Metrics
from socialjepa_jax.objectives.shared.losses import sigreg_of_views
from socialjepa_jax.sharding import Reduce


@dataclass(frozen=True)
class SigRegTerm:
    """Settings of SIGReg in an objective; objectives inherit them beside their own.

    Attributes:
        sigreg_weight: lambda; `hparams['lambda']`, if present, takes precedence.
        sigreg_slices: number of random directions in a step.
        sigreg_sampler: "gaussian" | "sobol", see `sigreg.sample_directions`.
        sigreg_resample: True: new directions at every step (the paper); False: an agent keeps its
            first directions, so other directions are never regularised (figure 7).
        quadrature: knots of the Epps-Pulley statistic.
        loss_form: "convex": (1 - lambda) prediction + lambda SIGReg (the paper) | "additive":
            prediction + lambda SIGReg (other implementations).
        view_mode: "per_view": mean over views of SIGReg of the view's samples (the paper) |
            "flatten": SIGReg of the samples of all views together. A published lambda holds for its
            form and mode: with correlated views the flattened statistic is higher at the same
            embeddings.
    """

    sigreg_weight: float = 0.05
    sigreg_slices: int = 1024
    sigreg_sampler: str = "gaussian"
    sigreg_resample: bool = True
    quadrature: sigreg.Quadrature = sigreg.OFFICIAL
    loss_form: str = "convex"
    view_mode: str = "per_view"

    def check_sigreg(self) -> None:
        """Raises `InputError` if one of these settings cannot work."""
        check_one_of(("convex", "additive"), loss_form=self.loss_form)
        check_non_negative(sigreg_weight=self.sigreg_weight)
        if self.loss_form == "convex":
            check_in_range(0.0, 1.0, sigreg_weight=self.sigreg_weight)
        check_one_of(("per_view", "flatten"), view_mode=self.view_mode)
        check_one_of(("gaussian", "sobol"), sigreg_sampler=self.sigreg_sampler)
        check_positive(sigreg_slices=self.sigreg_slices)

    def sigreg_loss(
        self, z_BVP: jax.Array, key: jax.Array, hparams: HParams, reduce: Reduce
    ) -> jax.Array:
        """Returns SIGReg of f32[B, V, P]; `key` is the step's key, the same on all shards."""
        if not self.sigreg_resample:
            key = agent_key(hparams.get("seed", 0), Stream.FIXED_SLICES)
        return sigreg_of_views(
            z_BVP,
            key,
            self.sigreg_slices,
            self.quadrature,
            reduce,
            flatten=self.view_mode == "flatten",
            sampler=self.sigreg_sampler,
        )

    def combine(self, prediction: jax.Array, sigreg_loss: jax.Array, hparams: HParams) -> jax.Array:
        """Returns the weighted sum of both terms, by `loss_form` (LeJEPA, algorithm 2)."""
        weight = hparams.get("lambda", self.sigreg_weight)
        rest = 1.0 - weight if self.loss_form == "convex" else 1.0
        return rest * prediction + weight * sigreg_loss

    def sigreg_levels(self, sigreg_loss: jax.Array, z_BVP: jax.Array, reduce: Reduce) -> Metrics:
        """Returns SIGReg of f32[B, V, P] in units of its two reference levels.

        'sigreg_null': over its expectation for Gaussian samples, so that the optimum is 1.
        'sigreg_collapse': over its value for embeddings that are all zero.
        """
        samples = reduce.sum(jnp.ones(len(z_BVP)))
        if self.view_mode == "flatten":
            samples *= z_BVP.shape[1]
        return {
            "sigreg_null": sigreg_loss / self.quadrature.null_level,
            "sigreg_collapse": sigreg_loss / (self.quadrature.collapse_level * samples),
        }
