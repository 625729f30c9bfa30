"""`python -m experiments.bench_sweep`: see `experiments.bench.sweep`."""

from experiments.bench.sweep import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    launch.run(main)
