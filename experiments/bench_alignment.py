"""`python -m experiments.bench_alignment`: see `experiments.bench.alignment`."""

from experiments.bench.alignment import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    launch.run(main)
