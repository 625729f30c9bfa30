"""`python -m experiments.gpu_suite`: see `experiments.bench.gpu.suite`."""

from experiments.bench.gpu.suite import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    launch.run(main)
