"""`python -m experiments.bench_reliability`: see `experiments.bench.reliability`."""

from experiments.bench.reliability import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    launch.run(main)
