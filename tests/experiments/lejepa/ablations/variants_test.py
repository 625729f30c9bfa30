"""The settings of the ablations."""

from experiments.lejepa import runs
from experiments.lejepa.ablations.variants import variants


def test_every_variant_can_be_built_and_equal_ones_coincide():
    budget = runs.BUDGETS["cpu"]
    for scale in ("cpu", "gpu"):
        made = {
            (runs.learner(budget, 3, **v.changes(budget, 3)), v.batch_factor)
            for v in variants(scale)
        }
        assert len(made) == len(variants(scale)) - 5
