"""`python -m experiments.motion_table`: see `experiments.motion.table`."""

from experiments.motion.table import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    launch.run(main)
