"""What agents can do for one another once a map is known."""

from socialjepa_jax.collaboration.probe import Probe, accuracy, fit_probe, transfer_probe

__all__ = ["Probe", "accuracy", "fit_probe", "transfer_probe"]
