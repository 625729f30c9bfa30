"""Stationary processes of latents, in NumPy and JAX alone."""
