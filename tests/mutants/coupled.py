"""Changes of models that learn beside each other, and of what they cost."""

from tests.mutants.mutant import Mutant

_LINK = "socialjepa_jax/objectives/coupled/link.py"
_MIGRATION = "socialjepa_jax/objectives/coupled/migration.py"
_MUTUAL = "socialjepa_jax/objectives/coupled/mutual.py"
_COSTS = "socialjepa_jax/collaboration/costs.py"
_REACHING = "socialjepa_jax/identifiability/reaching.py"

_LINKED = "tests/objectives/coupled/link_test.py"
_TAUGHT = "tests/objectives/coupled/migration_test.py"
_COUPLED = "tests/objectives/coupled/mutual_test.py"
_SPENT = ("tests/collaboration/costs_test.py",)
_REACHED = ("tests/identifiability/reaching_test.py",)

COUPLED = (
    Mutant(
        "the map is ready before it has five pairs a feature",
        _LINK,
        "due = ((step + 1) % self.every == 0) & enough",
        "due = (step + 1) % self.every == 0",
        (f"{_LINKED}::test_w_waits_for_five_pairs_a_feature_and_for_its_turn",),
    ),
    Mutant(
        "old pairs are never forgotten",
        _LINK,
        'old = decay * state["count"]',
        'old = state["count"]',
        (f"{_LINKED}::test_old_pairs_are_forgotten_at_the_rate_of_the_memory",),
    ),
    Mutant(
        "merged moments leave out the distance of the means",
        _LINK,
        '"sums": decay * state["sums"] + sums_FF + between,',
        '"sums": decay * state["sums"] + sums_FF,',
        (f"{_LINKED}::test_w_is_the_ridge_map_of_all_pairs_that_it_has_seen",),
    ),
    Mutant(
        "the pull begins before the map is fitted",
        _MUTUAL,
        'hparams.get("gamma", self.weight) * state["ready"]',
        'hparams.get("gamma", self.weight)',
        (f"{_COUPLED}::test_the_pull_waits_until_w_is_ready",),
    ),
    Mutant(
        "the teacher sees images on the student's scale",
        _MIGRATION,
        'pixels = batch["image"] * std + mean',
        'pixels = batch["image"]',
        (f"{_TAUGHT}::test_the_teacher_sees_pixels_on_its_own_scale",),
    ),
    Mutant(
        "both models pull where one in turn is asked for",
        _MUTUAL,
        "pull_b = links.squared_distance(still(predicted), y_BD, reduce)",
        "pull_b = links.squared_distance(predicted, y_BD, reduce)",
        (f"{_COUPLED}::test_both_pull_each_other_and_alternating_pulls_one_in_turn",),
    ),
    Mutant(
        "both models draw the slices of one seed",
        _MUTUAL,
        'keys.step_keys(hparams["partner_seed"], batch["draw"])',
        'keys.step_keys(hparams["seed"], batch["draw"])',
        (f"{_COUPLED}::test_without_weight_both_are_single_runs",),
    ),
    Mutant(
        "a noisy curve crosses at its first passage",
        _COSTS,
        "fitted = optimize.isotonic_regression(scores).x",
        "fitted = np.maximum.accumulate(scores)",
        _SPENT,
    ),
    Mutant(
        "runs that never arrive are dropped",
        _COSTS,
        "cut = np.minimum(crossings, limit)",
        "cut = np.minimum(crossings[np.isfinite(crossings)], limit)",
        _SPENT,
    ),
    Mutant(
        "feedback without the action that holds the goal",
        _REACHING,
        "self._bounded(self.hold(goal_ED) - (h_ED - goal_ED) @ self.gain.T)",
        "self._bounded(-(h_ED - goal_ED) @ self.gain.T)",
        _REACHED,
    ),
    Mutant(
        "a plan pays for all of its actions",
        _REACHING,
        "price * np.tile(held_EU[e], steps)",
        "0.0 * np.tile(held_EU[e], steps)",
        _REACHED,
    ),
)
