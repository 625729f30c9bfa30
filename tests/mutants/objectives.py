"""Changes of losses, of the networks under them, and of SIGReg."""

from tests.mutants.mutant import Mutant

_IJEPA = "socialjepa_jax/objectives/ijepa.py"
_LEJEPA = "socialjepa_jax/objectives/lejepa.py"
_LOSSES = "socialjepa_jax/objectives/shared/losses.py"
_EMBEDDING = "socialjepa_jax/objectives/shared/embedding.py"
_TERM = "socialjepa_jax/objectives/shared/sigreg_term.py"
_TRANSFORMER = "socialjepa_jax/models/transformer.py"
_MASKING = "socialjepa_jax/models/masking.py"
_QUADRATURE = "socialjepa_jax/sigreg/quadrature.py"
_DIRECTIONS = "socialjepa_jax/sigreg/directions.py"
_UNIVARIATE = "socialjepa_jax/sigreg/univariate.py"

_ALGORITHM_2 = ("tests/objectives/lejepa_test.py::test_loss_against_algorithm_2",)
_VIEWS = ("tests/objectives/lejepa_test.py::test_the_loss_is_that_of_its_views",)
_PUBLISHED = ("tests/objectives/shared/losses_test.py",)
_SHARDED = (
    "tests/objectives/pairs/vectors_test.py::test_the_sharded_loss_is_the_loss_of_the_global_batch",
)
_VICREG = ("tests/objectives/vicreg_test.py::test_loss_against_float64",)
_LAYERS = ("tests/models/transformer_test.py",)
_MASKS = ("tests/models/masking_test.py",)
_LEVELS = ("tests/sigreg/quadrature_test.py",)
_SPHERE = "tests/sigreg/directions_test.py"
_TESTS = ("tests/sigreg/univariate_test.py::test_equals_the_published_implementation",)

OBJECTIVES = (
    # I-JEPA.
    Mutant(
        "gradients pass through the targets",
        _IJEPA,
        'teacher = jax.lax.stop_gradient(aux.get("target", params["encoder"]))',
        'teacher = aux.get("target", params["encoder"])',
        ("tests/objectives/ijepa_test.py::test_targets_carry_no_gradient",),
    ),
    Mutant(
        "the weights of the average change places",
        _IJEPA,
        'aux["target"], 1.0 - m)',
        'aux["target"], m)',
        ("tests/objectives/ijepa_golden_test.py::test_ema_step",),
    ),
    Mutant(
        "the momentum is that of the next step",
        _IJEPA,
        "schedule(self.ema_start, self.ema_end, total)(step)",
        "schedule(self.ema_start, self.ema_end, total)(step + 1)",
        ("tests/objectives/ijepa_test.py::test_cosine_momentum_and_its_end",),
    ),
    Mutant(
        "a patch of two blocks counts once",
        _IJEPA,
        "masks.count_BN.astype(jnp.float32)",
        "(masks.count_BN > 0).astype(jnp.float32)",
        ("tests/objectives/ijepa_test.py::test_predictions_by_patch_equal_predictions_by_slot",),
    ),
    Mutant(
        "slots that are not in use count",
        _IJEPA,
        "weight_BP = jnp.ones((B, M * S)) if valid is None else valid.reshape(B, M * S)",
        "weight_BP = jnp.ones((B, M * S))",
        (
            "tests/objectives/ijepa_golden_test.py::test_slots_that_are_not_in_use_count_for_nothing",
        ),
    ),
    # LeJEPA and its relatives.
    Mutant(
        "the centre is that of the local views",
        _LEJEPA,
        "z_BVP[:, : self.views.global_views]",
        "z_BVP[:, self.views.global_views :]",
        _VIEWS,
    ),
    Mutant(
        "the prediction error is summed over features",
        _LEJEPA,
        "jnp.square(error_BVP).mean((1, 2))",
        "jnp.square(error_BVP).mean(1).sum(1)",
        _ALGORITHM_2,
    ),
    Mutant(
        "views and slices share a key",
        _LEJEPA,
        "self.sigreg_loss(z_BVP, key_slices, hparams, reduce)",
        "self.sigreg_loss(z_BVP, key_views, hparams, reduce)",
        _VIEWS,
    ),
    Mutant(
        "the averaged weights lag a step",
        _LEJEPA,
        "(step + 1.0) / (step + 2.0)",
        "step / (step + 1.0)",
        ("tests/objectives/lejepa_test.py::test_averaged_weights",),
    ),
    Mutant(
        "lambda weighs the prediction",
        _TERM,
        "rest * prediction + weight * sigreg_loss",
        "weight * prediction + rest * sigreg_loss",
        _ALGORITHM_2,
    ),
    Mutant(
        "the additive form gives the prediction less weight",
        _TERM,
        'rest = 1.0 - weight if self.loss_form == "convex" else 1.0',
        "rest = 1.0 - weight",
        _ALGORITHM_2,
    ),
    Mutant(
        "all agents keep the same directions",
        _TERM,
        'agent_key(hparams.get("seed", 0), Stream.FIXED_SLICES)',
        "agent_key(0, Stream.FIXED_SLICES)",
        ("tests/objectives/shared/sigreg_term_test.py",),
    ),
    Mutant(
        "SIGReg is of the views of an image",
        _LOSSES,
        "else z_BVD.swapaxes(0, 1)",
        "else z_BVD",
        _ALGORITHM_2,
    ),
    Mutant(
        "SIGReg is of the samples of a shard",
        _LOSSES,
        "statistic=statistic, axis_name=reduce.axis_name)",
        "statistic=statistic, axis_name=None)",
        _SHARDED,
    ),
    Mutant(
        "the two conventions of alignment differ by 2 D",
        _LOSSES,
        "distance / (4 * h_BVD.shape[-1])",
        "distance / (2 * h_BVD.shape[-1])",
        _PUBLISHED,
    ),
    Mutant(
        "the covariance is biased",
        _LOSSES,
        "[None]) / (num - 1.0)",
        "[None]) / num",
        _VICREG,
    ),
    Mutant(
        "the covariance is about the mean of a shard",
        _LOSSES,
        "mean_D = reduce.mean(h_BVD.mean(1))",
        "mean_D = h_BVD.mean((0, 1))",
        _SHARDED,
    ),
    Mutant(
        "the hinge is of variances",
        _LOSSES,
        "jax.nn.relu(1.0 - jnp.sqrt(jnp.diagonal(covariance_DD) + 1e-4)).mean()",
        "jax.nn.relu(1.0 - (jnp.diagonal(covariance_DD) + 1e-4)).mean()",
        _VICREG,
    ),
    Mutant(
        "candidates are of the same view",
        _LOSSES,
        "log_candidates(u_BD, all_v) + log_candidates(v_BD, all_u)",
        "log_candidates(u_BD, all_u) + log_candidates(v_BD, all_v)",
        ("tests/objectives/infonce_test.py",),
    ),
    Mutant(
        "candidates are of the own shard",
        _LOSSES,
        "all_u, all_v = reduce.gather(u_BD), reduce.gather(v_BD)",
        "all_u, all_v = u_BD, v_BD",
        _SHARDED,
    ),
    Mutant(
        "the hinges of two views are summed",
        "socialjepa_jax/objectives/vicreg.py",
        "(losses.variance_hinge(first) + losses.variance_hinge(second)) / 2",
        "losses.variance_hinge(first) + losses.variance_hinge(second)",
        _VICREG,
    ),
    Mutant(
        "running statistics are those of the newest batch",
        _EMBEDDING,
        "old + STATISTICS_MOMENTUM * (jax.lax.stop_gradient(new) - old)",
        "new + STATISTICS_MOMENTUM * (old - jax.lax.stop_gradient(new))",
        ("tests/objectives/shared/embedding_test.py::test_running_statistics_move_pass_by_pass",),
    ),
    Mutant(
        "pixels are normalised with a biased variance",
        "socialjepa_jax/objectives/mae.py",
        "keepdims=True, ddof=1)",
        "keepdims=True, ddof=0)",
        ("tests/objectives/mae_test.py::test_loss_against_float64",),
    ),
    Mutant(
        "lambda of pairs weighs the alignment",
        "socialjepa_jax/objectives/pairs/vectors.py",
        "weight * penalty + (1.0 - weight) * align",
        "weight * align + (1.0 - weight) * penalty",
        ("tests/objectives/pairs/vectors_test.py::test_paper_convention_against_float64",),
    ),
    # Networks.
    Mutant(
        "scores are scaled by the width of all heads",
        _TRANSFORMER,
        "scale = (D // self.heads) ** -0.5",
        "scale = D**-0.5",
        _LAYERS,
    ),
    Mutant(
        "queries are hidden in place of keys",
        _TRANSFORMER,
        "valid_BT[:, None, None, :]",
        "valid_BT[:, None, :, None]",
        _LAYERS,
    ),
    Mutant(
        "positions of rows and columns change halves",
        _TRANSFORMER,
        "for axis in (column, row)]",
        "for axis in (row, column)]",
        _LAYERS,
    ),
    Mutant(
        "GELU has the derivative of its first factor",
        _TRANSFORMER,
        "dx * (cdf + x * jnp.exp(-0.5 * x * x) * (2 * np.pi) ** -0.5)",
        "dx * cdf",
        _LAYERS,
    ),
    Mutant(
        "a block is a patch too long",
        _MASKING,
        "(offset >= 0) & (offset < size[axis])",
        "(offset >= 0) & (offset <= size[axis])",
        _MASKS,
    ),
    Mutant(
        "blocks never reach the last row",
        _MASKING,
        "(jnp.asarray(grid) - size + 1)",
        "(jnp.asarray(grid) - size)",
        _MASKS,
    ),
    Mutant(
        "a set that leaves just enough is refused",
        _MASKING,
        "visible_RN.sum(1) >= self.needed)",
        "visible_RN.sum(1) > self.needed)",
        _MASKS,
    ),
    Mutant(
        "all samples share a mask",
        _MASKING,
        "jax.random.bits(jax.random.fold_in(key, index), (num_patches,))",
        "jax.random.bits(key, (num_patches,))",
        ("tests/models/masking_test.py::test_a_subset_depends_on_key_and_sample_alone",),
    ),
    Mutant(
        "batch statistics are of squares about zero",
        "socialjepa_jax/models/batchnorm.py",
        "return mean_C, mean(jnp.square(centred).mean(space))",
        "return mean_C, mean(jnp.square(x).mean(space))",
        ("tests/models/batchnorm_test.py",),
    ),
    # SIGReg.
    Mutant(
        "the last knot has a whole weight",
        _QUADRATURE,
        "trapezoid[[0, -1]] = self.spacing",
        "trapezoid[0] = self.spacing",
        _LEVELS,
    ),
    Mutant(
        "the window is that of half the variance",
        _QUADRATURE,
        "np.exp(-0.5 * self.knots**2)",
        "np.exp(-(self.knots**2))",
        _LEVELS,
    ),
    Mutant(
        "the null level forgets a square",
        _QUADRATURE,
        "self.weights @ (1.0 - self.target**2)",
        "self.weights @ (1.0 - self.target)",
        _LEVELS,
    ),
    Mutant(
        "the characteristic function is over the samples of a shard",
        "socialjepa_jax/sigreg/epps_pulley.py",
        "num_samples = samples.count(u_NM, axis_name)\n    return sums[0]",
        "num_samples = samples.count(u_NM, None)\n    return sums[0]",
        (
            "tests/sigreg/devices_test.py"
            "::test_value_and_gradient_do_not_depend_on_the_number_of_devices",
        ),
    ),
    Mutant(
        "directions have unit rows",
        _DIRECTIONS,
        "jnp.linalg.norm(columns_DM, axis=0, keepdims=True)",
        "jnp.linalg.norm(columns_DM, axis=1, keepdims=True)[:1]",
        (f"{_SPHERE}::test_columns_have_unit_norm_and_are_spread_over_the_sphere",),
    ),
    Mutant(
        "directions are kept where they are to change",
        _DIRECTIONS,
        "step if resample else 0)",
        "0 if resample else step)",
        (f"{_SPHERE}::test_a_step_is_a_function_of_key_and_step_alone",),
    ),
    Mutant(
        "the variance of a slice is biased",
        _UNIVARIATE,
        "* (count / max(count - 1, 1)), _TINY)",
        ", _TINY)",
        _TESTS,
    ),
    Mutant(
        "Watson adds the bias",
        _UNIVARIATE,
        "axis_name=axis_name) - bias**2",
        "axis_name=axis_name) + bias**2",
        _TESTS,
    ),
    Mutant(
        "ranks of order statistics begin half a step late",
        _UNIVARIATE,
        "(np.arange(u.shape[-2]) + 0.5) / u.shape[-2]",
        "(np.arange(u.shape[-2]) + 1.0) / u.shape[-2]",
        _TESTS,
    ),
)
