"""`python -m experiments.what_moves_it`: see `experiments.alignability.what_moves_it`."""

from experiments.alignability.what_moves_it import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    launch.run(main)
