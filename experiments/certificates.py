"""`python -m experiments.certificates`: see `experiments.aot.certify`."""

from experiments.aot.certify import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    launch.run(main)
