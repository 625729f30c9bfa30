"""`python -m experiments.bench_input`: see `experiments.bench.input`."""

from experiments.bench.input import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    launch.run(main)
