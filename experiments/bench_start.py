"""`python -m experiments.bench_start`: see `experiments.bench.start`."""

from experiments.bench.start import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    launch.run(main)
