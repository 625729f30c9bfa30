"""What agents can do for one another once a map is known."""

from socialjepa_jax.collaboration.logistic import fit_logistic
from socialjepa_jax.collaboration.probe import Probe, accuracy, fit_probe, transfer_probe

__all__ = ["Probe", "accuracy", "fit_logistic", "fit_probe", "transfer_probe"]
