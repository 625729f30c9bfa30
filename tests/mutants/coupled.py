"""Changes of models that learn beside each other, and of what they cost."""

from tests.mutants.mutant import Mutant

_LINK = "socialjepa_jax/objectives/coupled/link.py"
_MIGRATION = "socialjepa_jax/objectives/coupled/migration.py"
_MUTUAL = "socialjepa_jax/objectives/coupled/mutual.py"
_PAIR = "socialjepa_jax/objectives/coupled/pair.py"
_SIMILARITIES = "socialjepa_jax/objectives/coupled/similarities.py"
_DIVERGENCES = "socialjepa_jax/objectives/coupled/divergences.py"
_CLASSES = "socialjepa_jax/objectives/coupled/classes.py"
_PEERS = "socialjepa_jax/objectives/coupled/mutual_classes.py"
_LABELS = "socialjepa_jax/labels.py"
_CROSSED = "socialjepa_jax/objectives/coupled/crossed.py"
_COSTS = "socialjepa_jax/collaboration/costs.py"
_WORTH = "socialjepa_jax/collaboration/worth.py"
_TABLE = "experiments/collaboration/table9.py"
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
        _PAIR,
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
        "return relative(crossings, np.ones_like(crossings), (limit, 1.0), draws, seed)",
        "kept = crossings[np.isfinite(crossings)]\n"
        "    return relative(kept, np.ones_like(kept), (limit, 1.0), draws, seed)",
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
    Mutant(
        "the divergence between similarities is that of the student",
        _SIMILARITIES,
        'logits = [z @ state["queue"].T / self.temperature for z in (t_BE, s_BE)]',
        'logits = [z @ state["queue"].T / self.temperature for z in (s_BE, t_BE)]',
        ("tests/objectives/coupled/similarities_test.py",),
    ),
    Mutant(
        "the queue forgets the newest latents",
        _SIMILARITIES,
        'queue = jnp.concatenate([state["queue"][len(arrived) :], arrived])',
        'queue = jnp.concatenate([arrived, state["queue"][: -len(arrived)]])',
        ("tests/objectives/coupled/similarities_test.py",),
    ),
    Mutant(
        "distillation at a high temperature has a small gradient",
        _DIVERGENCES,
        "return temperature**2 * kullback_leibler",
        "return temperature * kullback_leibler",
        ("tests/objectives/coupled/divergences_test.py",),
    ),
    Mutant(
        "a peer is pulled too",
        _DIVERGENCES,
        "return kullback_leibler(jax.lax.stop_gradient(peer_BC), own_BC)",
        "return kullback_leibler(peer_BC, own_BC)",
        ("tests/objectives/coupled/divergences_test.py",),
    ),
    Mutant(
        "a hidden label counts as the last class",
        _CLASSES,
        "identify(logits_BC, known_B) * jnp.where(is_class_B, 1.0, jnp.nan)",
        "identify(logits_BC, labels_B)",
        ("tests/objectives/coupled/classes_test.py",),
    ),
    Mutant(
        "labels alone wait for a teacher's head",
        _CLASSES,
        "head = self._head_of(hparams) if self.soft else {}",
        "head = self._head_of(hparams)",
        ("tests/objectives/coupled/classes_test.py",),
    ),
    Mutant(
        "a model learns from its own predictions",
        _PEERS,
        "zip(MODELS, both, reversed(both))",
        "zip(MODELS, both, both)",
        ("tests/objectives/coupled/mutual_classes_test.py",),
    ),
    Mutant(
        "labels of held-out objects are told",
        _LABELS,
        "rows = build.train_rows(chosen, dataset)",
        "rows = np.arange(dataset.num_states)",
        ("tests/labels_test.py",),
    ),
    Mutant(
        "pairs of cameras are not pulled together",
        _CROSSED,
        'total = alone + hparams.get("beta", self.weight) * term',
        "total = alone",
        ("tests/objectives/coupled/crossed_test.py",),
    ),
    Mutant(
        "a ratio leaves out runs that never arrive",
        _COSTS,
        "ours, theirs = np.minimum(crossings, limits[0]), np.minimum(baseline, limits[1])",
        "ours, theirs = np.minimum(crossings, limits[1]), np.minimum(baseline, limits[1])",
        _SPENT,
    ),
    Mutant(
        "labels are interpolated on a linear scale",
        _WORTH,
        "math.exp(costs.crossing(np.log(np.asarray(counts, np.float64)), scores_K, carried))",
        "costs.crossing(np.asarray(counts, np.float64), scores_K, carried)",
        ("tests/collaboration/worth_test.py",),
    ),
    Mutant(
        "the teacher's forward passes are free",
        _TABLE,
        '(0.0 if kept else cost["teacher"])',
        "0.0",
        ("tests/experiments/collaboration/table9_test.py",),
    ),
)
