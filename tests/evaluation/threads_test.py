"""The table of a run is the same bits whatever cores and threads compute it."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
DIM = 48


def table():
    """Rows of still and moving worlds, large enough for BLAS to share its work between threads."""
    from configs import toys_ijepa
    from socialjepa_jax import config, evaluation
    from socialjepa_jax.data import ObservationTable, Protocol, Splits, pair_views
    from socialjepa_jax.evaluation import moving
    from tests.evaluation import planted

    grid = [(c, i, e, a, g) for c in range(3) for i in range(8) for e in range(4)
            for a in (0, 160) for g in range(6)]  # fmt: skip
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (len(grid), 32, 32, 1), dtype=np.uint8)
    names = ("category", "instance", "elevation", "azimuth", "lighting")
    pictures = ObservationTable(images, np.array(grid, np.int32), names, ("a", "b", "c"))
    dataset = pair_views(pictures, Protocol(), Splits(test_instances=2, test_states=0.25), "grid")
    states = rng.normal(size=(dataset.num_states, DIM))
    latents = np.stack([states @ rng.normal(size=(DIM, DIM)) for _ in range(2)]).astype(np.float32)
    settings = toys_ijepa.get_config()
    settings.agents.cameras, settings.agents.seeds = (0, 1), (0, 1)
    experiment = config.from_config_dict(settings)
    untrained = evaluation.Untrained(latents[::-1], rng.permutation(latents, axis=1))
    moving_rows = moving.alignment_rows(planted.encoded((0, 1), side=16, num=900))
    return evaluation.alignment_rows(experiment, dataset, latents, untrained) + moving_rows


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs the affinity of Linux")
def test_cores_and_threads_change_no_bit_of_the_table():
    cores = sorted(os.sched_getaffinity(0))
    environments = [(cores[:1], "1"), (cores[:2], "2")]
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.evaluation.threads_test", *map(str, some)],
            env={**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for some, threads in environments
    ]
    digests = [child.communicate()[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert len(digests[0].strip()) == 64
    assert digests[0] == digests[1]


if __name__ == "__main__":
    os.sched_setaffinity(0, map(int, sys.argv[1:]))
    print(hashlib.sha256(json.dumps(table()).encode()).hexdigest())
