"""Changes of the step, of the optimiser and keys, and of what keeps a run alive."""

from tests.mutants.mutant import Mutant

_AGENTS = "socialjepa_jax/agents.py"
_ADAMW = "socialjepa_jax/optim/adamw.py"
_GROUPS = "socialjepa_jax/optim/groups.py"
_SCHEDULES = "socialjepa_jax/optim/schedules.py"
_KEYS = "socialjepa_jax/keys.py"
_SHARDING = "socialjepa_jax/sharding.py"
_CHECKPOINT = "socialjepa_jax/running/checkpoint.py"
_HOOKS = "socialjepa_jax/running/hooks.py"
_MONITORS = "socialjepa_jax/running/monitors.py"
_GROUP = "socialjepa_jax/running/group.py"
_WRITERS = "socialjepa_jax/running/writers.py"
_EXACT = "socialjepa_jax/experimental/exact_sums.py"

_SKIPS = (
    "tests/agents_test.py::test_a_bad_update_is_as_if_it_had_not_been_made",
    "tests/agents_test.py::test_after_too_many_skips_an_agent_stays_as_it_is",
)
_STREAMS = ("tests/keys_test.py",)
_PARTS = ("tests/build_test.py",)
_OPTIMISER = ("tests/optim/adamw_test.py",)
_HOOK = ("tests/running/hooks_test.py",)
_WATCHED = ("tests/running/monitors_test.py",)
_KEPT = ("tests/running/checkpoint_test.py::test_only_the_newest_checkpoints_are_kept",)
_LOGGED = ("tests/running/writers_test.py",)
_TOGETHER = ("tests/running/group_test.py",)

TRAINING = (
    # The step.
    Mutant(
        "an agent has one skip more than it may",
        _AGENTS,
        "alive = before.in_a_row < self.max_skips",
        "alive = before.in_a_row <= self.max_skips",
        _SKIPS,
    ),
    Mutant(
        "a good update does not end a row of skips",
        _AGENTS,
        "in_a_row=jnp.where(good, 0, before.in_a_row + 1)",
        "in_a_row=before.in_a_row + ~good",
        _SKIPS,
    ),
    Mutant(
        "an update is skipped if loss and gradient are both bad",
        _AGENTS,
        "jnp.isfinite(loss) & jnp.isfinite(norm)",
        "jnp.isfinite(loss) | jnp.isfinite(norm)",
        _SKIPS,
    ),
    Mutant(
        "a skipped step is done again",
        _AGENTS,
        "step=after.step,",
        "step=kept.step,",
        _SKIPS,
    ),
    Mutant(
        "batches that are passed over are drawn",
        _AGENTS,
        "source.batch(draw, seed, self.batch_size)",
        "source.batch(state.step, seed, self.batch_size)",
        ("tests/agents_test.py::test_batches_that_are_passed_over_are_never_drawn",),
    ),
    Mutant(
        "encoded images are divided by 256",
        _AGENTS,
        "images.astype(jnp.float32) / 255",
        "images.astype(jnp.float32) / 256",
        ("tests/agents_test.py::test_encode_returns_latents_in_order_and_drops_token_maps",),
    ),
    Mutant(
        "loss and augmentation share a key",
        _KEYS,
        "return loss_key, augment_key",
        "return loss_key, loss_key",
        _STREAMS,
    ),
    Mutant(
        "every step has the same keys",
        _KEYS,
        "jax.random.split(jax.random.fold_in(agent_key(seed, Stream.STEP), step))",
        "jax.random.split(agent_key(seed, Stream.STEP))",
        _STREAMS,
    ),
    Mutant(
        "all streams of an agent are one",
        _KEYS,
        "jax.random.fold_in(jax.random.key(seed, impl=PRNG), stream)",
        "jax.random.fold_in(jax.random.key(seed, impl=PRNG), 0)",
        _STREAMS,
    ),
    Mutant(
        "every shard takes the first rows",
        _SHARDING,
        "jax.lax.dynamic_slice_in_dim(x, index * local, local)",
        "jax.lax.dynamic_slice_in_dim(x, 0 * index, local)",
        ("tests/agents_test.py::test_any_mesh_gives_the_same_run",),
    ),
    Mutant(
        "repetitions share the seeds of their agents",
        "socialjepa_jax/build.py",
        "experiment.seed * AGENT_SEEDS + seed",
        "experiment.seed + seed",
        _PARTS,
    ),
    Mutant(
        "held-out states are trained on",
        "socialjepa_jax/build.py",
        'if experiment.pretrain_on == "all":',
        'if experiment.pretrain_on == "train":',
        _PARTS,
    ),
    # The optimiser.
    Mutant(
        "the learning rate is that of the step before",
        _ADAMW,
        "rate * rates(step + 1)",
        "rate * rates(step)",
        ("tests/wiring_test.py", *_OPTIMISER),
    ),
    Mutant(
        "weight decay is that of the step before",
        _ADAMW,
        "decays(step + 1)",
        "decays(step)",
        _OPTIMISER,
    ),
    Mutant(
        "the cosine begins with the warm-up",
        _SCHEDULES,
        "fall(step - warmup))",
        "fall(step))",
        _OPTIMISER,
    ),
    Mutant(
        "weight decay does not scale with the learning rate",
        _ADAMW,
        "p - scaled * (d + (decay * p if group.decays else 0.0))",
        "p - scaled * d - (decay * p if group.decays else 0.0)",
        _OPTIMISER,
    ),
    Mutant(
        "a frozen parameter moves a step late",
        _GROUPS,
        "step >= first if",
        "step > first if",
        _OPTIMISER,
    ),
    Mutant(
        "all clip groups have one norm",
        _GROUPS,
        "[i for i, other in enumerate(names) if other == name]",
        "[i for i, other in enumerate(names)]",
        _OPTIMISER,
    ),
    Mutant(
        "the decay ends where it began",
        _SCHEDULES,
        "cosine(self.weight_decay, self.final_weight_decay, total_steps)",
        "cosine(self.weight_decay, self.weight_decay, total_steps)",
        _OPTIMISER,
    ),
    # Checkpoints.
    Mutant(
        "one checkpoint more than asked for is kept",
        _CHECKPOINT,
        "others[: len(others) - (self._keep - 1)]",
        "others[: len(others) - self._keep]",
        _KEPT,
    ),
    Mutant(
        "the oldest checkpoint is restored",
        _CHECKPOINT,
        "for step in reversed(steps):",
        "for step in steps:",
        ("tests/running/checkpoint_test.py::test_the_newest_checkpoint_is_restored_bit_for_bit",),
    ),
    Mutant(
        "a roll-back removes the state that it goes back to",
        _CHECKPOINT,
        "if other > step]:",
        "if other >= step]:",
        ("tests/running/hooks_test.py::test_bests_of_undone_steps_are_removed",),
    ),
    Mutant(
        "a digest does not depend on the type",
        "socialjepa_jax/running/storage.py",
        'f"{array.dtype}{array.shape}".encode()',
        'f"{array.shape}".encode()',
        ("tests/running/storage_test.py",),
    ),
    # Hooks.
    Mutant(
        "nothing is due at the end",
        _HOOKS,
        "self.is_done or any(self.step % number == 0 for number in every)",
        "any(self.step % number == 0 for number in every)",
        _HOOK,
    ),
    Mutant(
        "a state is saved if one agent was not skipped",
        _HOOKS,
        "sharding.fetch(progress.state.in_a_row).any()",
        "sharding.fetch(progress.state.in_a_row).all()",
        _HOOK,
    ),
    Mutant(
        "a state as good as the best replaces it",
        _HOOKS,
        "if value > self.best and",
        "if value >= self.best and",
        _HOOK,
    ),
    Mutant(
        "the least value is the best",
        _HOOKS,
        "if value > self.best and",
        "if value < self.best and",
        _HOOK,
    ),
    Mutant(
        "an evaluation that is written is written again",
        _HOOKS,
        'progress.step > self.first or not self.writer.holds(progress.step, "eval")',
        'progress.step >= self.first or not self.writer.holds(progress.step, "eval")',
        _HOOK,
    ),
    Mutant(
        "the baseline is of the last evaluation",
        _HOOKS,
        "if progress.step == 0:\n            self.baseline = self.latents\n            return",
        "self.baseline = self.latents\n        if progress.step == 0:\n            return",
        _HOOK,
    ),
    # Monitors.
    Mutant(
        "a run goes on for one skip more",
        _MONITORS,
        "bad = in_a_row >= self.limit",
        "bad = in_a_row > self.limit",
        _WATCHED,
    ),
    Mutant(
        "old skips are reported again",
        _MONITORS,
        "if new := count - self.seen.get(agent, 0):",
        "if new := count:",
        _WATCHED,
    ),
    Mutant(
        "a collapse needs both signs",
        "socialjepa_jax/evaluation/metrics.py",
        "rankme < LOWEST_RANK or feature_std",
        "rankme < LOWEST_RANK and feature_std",
        _WATCHED,
    ),
    Mutant(
        "the spread is held against one in place of the norm",
        "socialjepa_jax/evaluation/metrics.py",
        "LOWEST_SPREAD * max(latent_norm, 1e-12)",
        "LOWEST_SPREAD",
        _WATCHED,
    ),
    # Logs.
    Mutant(
        "the line of the checkpoint's step is dropped",
        _WRITERS,
        'elif measured["step"] <= step:',
        'elif measured["step"] < step:',
        _LOGGED,
    ),
    Mutant(
        "a line of training is taken for an evaluation",
        _WRITERS,
        '(line["step"], line["kind"]) == (step, kind)',
        'line["step"] == step',
        (*_LOGGED, *_HOOK),
    ),
    # Processes.
    Mutant(
        "processes stop at the check that the slowest has passed",
        _GROUP,
        "1 + max(map(int, passed.values()))",
        "1 + min(map(int, passed.values()))",
        _TOGETHER,
    ),
    Mutant(
        "a process does not wait for the others' numbers",
        _GROUP,
        "if len(passed) == self.size:",
        "if passed:",
        _TOGETHER,
    ),
    Mutant(
        "the late process that is named is the first that arrived",
        _GROUP,
        "if str(k) not in arrived]",
        "if str(k) in arrived]",
        _TOGETHER,
    ),
    # One result on any mesh.
    Mutant(
        "every device computes the first shards",
        _EXACT,
        "index_L = devices.first + jnp.arange(local)",
        "index_L = 0 * devices.first + jnp.arange(local)",
        ("tests/experimental/exact_test.py::test_shards_know_which_and_how_many_they_are",),
    ),
    Mutant(
        "sums are taken from the last shard on",
        _EXACT,
        "return [functools.reduce(jnp.add, x_V) for x_V in parts_V]",
        "return [functools.reduce(jnp.add, x_V[::-1]) for x_V in parts_V]",
        ("tests/experimental/exact_test.py::test_sums_are_taken_in_order",),
    ),
    Mutant(
        "scattered sums come to the first device's shards",
        _EXACT,
        "jax.lax.dynamic_slice_in_dim(split_V, devices.first, devices.local)",
        "jax.lax.dynamic_slice_in_dim(split_V, 0 * devices.first, devices.local)",
        ("tests/experimental/exact_test.py::test_scattered_sums_come_back_to_their_shards",),
    ),
    Mutant(
        "exact gradients are sums over shards",
        "socialjepa_jax/experimental/exact.py",
        "jax.lax.pmean(g, sharding.DATA)",
        "jax.lax.psum(g, sharding.DATA)",
        ("tests/agents_test.py::test_exact_sums_of_streamed_batches_are_those_of_resident_ones",),
    ),
)
