"""The methods of table 9, and its costs and claims on curves whose answer is known."""

import numpy as np
import pytest

from experiments.collaboration import methods, scenes, table9, table9_pictures
from socialjepa_jax.objectives.coupled import Crossed, Migration, Mutual, MutualClasses

STEPS = [0, 10, 20]
PARTS = {"own": 4.0, "teacher": 1.0, "coupling": 2.0, "solves": 0.5}


def rows_of(name, final, teacher=1.0):
    """Two students whose score rises linearly to `final`."""
    runs = [
        {
            "method": name,
            "part": "run",
            "seed": k,
            "steps": STEPS,
            "scores": [0.0, final / 2, final],
        }
        for k in range(2)
    ]
    cost = {**PARTS, "teacher": teacher, "pool": 3, "image": 2.0, "exchanged": 100, "value": 1.0}
    if name == "alone":
        cost |= {"teacher": 0.0, "coupling": 0.0, "solves": 0.0}
    return [*runs, {"method": name, "part": "cost", **cost}]


METHODS = methods.methods(scenes.MOTION, "cpu")
ON_TOYS = methods.methods(scenes.TOYS, "cpu")
ROWS = [row for name in METHODS for row in rows_of(name, 1.0)]


EVERYWHERE = [(name, scene) for scene in (scenes.MOTION, scenes.TOYS) for name in METHODS]
WITH_LABELS = [(name, scenes.TOYS) for name in ON_TOYS if "labels" in name]


@pytest.mark.parametrize(
    ("name", "scene"), [*EVERYWHERE, *WITH_LABELS], ids=lambda of: getattr(of, "name", of)
)
def test_every_method_is_an_experiment_on_the_second_camera(name, scene):
    methods.experiment(methods.methods(scene, "cpu")[name], scene, "cpu", (3, 4))
    method = methods.methods(scene, "smoke")[name]
    chosen = methods.experiment(method, scene, "smoke", (3, 4))
    assert chosen.agents.cameras == (methods.OWN,) * 2
    classes = {"taught": Migration, "crossed": Crossed, "mutual": Mutual, "peers": MutualClasses}
    expected = classes.get("peers" if name == table9_pictures.PEERS else method.kind)
    coupled = isinstance(chosen.objective, tuple(classes.values()))
    assert coupled == (expected is not None)
    if expected:
        assert isinstance(chosen.objective, expected)
        seen = methods.OWN if method.teacher == "same" else methods.OTHER
        assert chosen.agents.partners == (seen,) * 2
    assert chosen.run.steps % chosen.run.steps_per_call == 0
    assert method.knob in ("beta", "gamma", "learning_rate") and len(method.trials) == 3


def test_costs_are_those_of_steps_and_kept_latents_are_paid_at_once():
    w, kept = table9.curves(ROWS, table9.W), table9.curves(ROWS, table9.KEPT)
    np.testing.assert_array_equal(w.costs, [0.0, 75.0, 150.0])
    np.testing.assert_array_equal(kept.costs, [6.0, 71.0, 136.0])
    np.testing.assert_array_equal(kept.scores, w.scores)
    np.testing.assert_array_equal(table9.curves(ROWS, table9.ALONE).costs, [0.0, 40.0, 80.0])


def test_ratios_follow_from_the_curves():
    """All arrive at .95 of the way, so costs are to each other as those of a step."""
    assert table9.threshold(ROWS) == pytest.approx(0.95)
    assert table9.ratio(ROWS, table9.W).mean == pytest.approx(7.5 / 4)
    charged = table9.ratio(ROWS, table9.W, charged=True).mean
    assert charged == pytest.approx((0.95 * 150 + 80) / (0.95 * 80))
    never = [row for row in ROWS if row["method"] != "similarities"]
    never += rows_of("similarities", 0.5)
    spent = table9.ratio(never, "similarities")
    assert (spent.reached, spent.mean) == (0.0, pytest.approx(150 / (0.95 * 80)))


def test_claims_are_made_of_every_method_and_the_table_has_them_all():
    claims = table9.claims(ROWS)
    assert len({claim.id for claim in claims}) == len(claims)
    by_id = {claim.id: claim for claim in claims}
    assert not by_id["W/half of the cost"].agrees
    assert by_id["W of shuffled pairs/cost"].agrees and by_id["W = I/as good as W"].agrees
    table = table9.table(ROWS)
    assert [row.label for row in table.rows] == [*METHODS, table9.KEPT]


def test_kept_latents_are_runs_of_their_own_where_training_draws_crops():
    labels = {name for name, _ in WITH_LABELS}
    assert set(ON_TOYS) - set(METHODS) == {table9.KEPT, *labels} and ON_TOYS[table9.KEPT].whole
    rows = [*ROWS, *rows_of(table9.KEPT, 0.5)]
    assert table9.curves(rows, table9.KEPT).scores[0, -1] == 0.5
    assert table9.measured(ROWS, table9.KEPT) == table9.W
    np.testing.assert_array_equal(table9.curves(rows, table9.KEPT).costs, [6.0, 71.0, 136.0])


def test_labels_are_judged_against_distillation_and_two_models_against_two():
    rows = [row for name in ON_TOYS for row in rows_of(name, 1.0, teacher="mutual" not in name)]
    claims = table9_pictures.label_claims(rows)
    assert [claim.agrees for claim in claims] == [False, False, True, False]
    # 7.5 of a step with a teacher; 6.5 of two models, over twice 7.5.
    assert table9_pictures.over_two(rows).mean == pytest.approx(6.5 / 15)
    cheap = [row for row in rows if row["method"] != table9_pictures.DISTILLED]
    cheap += rows_of(table9_pictures.DISTILLED, 1.0, teacher=0.0)
    claims = table9_pictures.label_claims(cheap)
    assert [claim.agrees for claim in claims] == [True, False, False, False]
    assert claims[2].ours == pytest.approx(1.0 / 4)
    ids = [claim.id for claim in [*table9.claims(rows), *claims]]
    assert len(set(ids)) == len(ids)
