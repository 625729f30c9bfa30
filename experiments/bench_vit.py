"""`python -m experiments.bench_vit`: see `experiments.bench.vit`."""

from experiments.bench.vit import define_flags, main
from socialjepa_jax.running import launch

if __name__ == "__main__":
    define_flags()
    launch.run(main)
