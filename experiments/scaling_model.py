"""`python -m experiments.scaling_model`: see `experiments.bench.scaling_model`."""

from experiments.bench.scaling_model import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    launch.run(main)
