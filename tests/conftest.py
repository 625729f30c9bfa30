"""Strict modes for every test: several CPU devices, no implicit rank promotion."""

import jax

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")
