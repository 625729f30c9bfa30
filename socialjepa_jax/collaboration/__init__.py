"""Collaboration of agents through a linear map: transfer of probes."""

from socialjepa_jax.collaboration.logistic import fit_logistic
from socialjepa_jax.collaboration.probe import Probe, accuracy, fit_probe, transfer_probe

__all__ = ["Probe", "accuracy", "fit_logistic", "fit_probe", "transfer_probe"]
