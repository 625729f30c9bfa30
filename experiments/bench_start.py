"""`python -m experiments.bench_start`: see `experiments.bench.start`."""

import jax

from experiments.bench.start import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    jax.config.update("jax_platforms", "cpu")  # a GPU's memory is the runs'
    launch.run(main)
