"""`python -m experiments.honest_table`: see `experiments.alignability.honest_table`."""

from experiments.alignability.honest_table import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    launch.run(main)
