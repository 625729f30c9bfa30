"""Stress tests of W on the latents of the tables: wrong pairs, few pairs, shifts, seeds."""
