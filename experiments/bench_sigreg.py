"""`python -m experiments.bench_sigreg`: see `experiments.bench.sigreg`."""

from experiments.bench.sigreg import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    launch.run(main)
