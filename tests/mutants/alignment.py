"""Changes of maps, their metrics, and what a study says of them."""

from tests.mutants.mutant import Mutant

_FITTING = "socialjepa_jax/alignment/fitting.py"
_SOLVE = "socialjepa_jax/alignment/solve.py"
_MAPS = "socialjepa_jax/alignment/maps.py"
_METRICS = "socialjepa_jax/alignment/metrics.py"
_NULL = "socialjepa_jax/alignment/permutation.py"
_DRAWS = "socialjepa_jax/alignment/resampling.py"
_SIMILARITY = "socialjepa_jax/alignment/similarity.py"
_NEAR = "socialjepa_jax/alignment/neighbourhoods.py"
_STUDY = "socialjepa_jax/alignment/study"

_FITS = ("tests/alignment/fitting_test.py",)
_FOLDS = (
    "tests/alignment/fitting_test.py::test_auto_ridge_is_the_best_of_brute_force_folds",
    "tests/alignment/solve_test.py",
)
_GOLDEN = ("tests/alignment/metrics_test.py",)
_BOTH_WAYS = ("tests/alignment/maps_test.py", "tests/alignment/map_properties_test.py")
_NULLS = ("tests/alignment/permutation_test.py",)
_BOOTSTRAP = ("tests/alignment/resampling_test.py",)
_SIMILAR = ("tests/alignment/similarity_test.py",)
_LOCAL = ("tests/alignment/neighbourhoods_test.py",)

ALIGNMENT = (
    # Fits.
    Mutant(
        "the ridge grows with the number of features",
        _SOLVE,
        "xx_DD + lam * np.eye(len(xx_DD))",
        "xx_DD + lam * len(xx_DD) * np.eye(len(xx_DD))",
        _GOLDEN,
    ),
    Mutant(
        "latents are divided by unbiased deviations",
        "socialjepa_jax/alignment/moments.py",
        "np.sqrt(np.maximum(scatter, 0.0) / self.count)",
        "np.sqrt(np.maximum(scatter, 0.0) / (self.count - 1))",
        _FITS,
    ),
    Mutant(
        "the sum of two parts forgets that their means differ",
        "socialjepa_jax/alignment/moments.py",
        "self.xy + sign * other.xy + between * np.outer(dx_D, dy_E),",
        "self.xy + sign * other.xy,",
        ("tests/alignment/moments_test.py",),
    ),
    Mutant(
        "a fold is centred by its own mean",
        _SOLVE,
        "held = held.about(train.mean_x, train.mean_y)",
        "held = held.about(held.mean_x, held.mean_y)",
        _FOLDS,
    ),
    Mutant(
        "a fold is scaled by its own deviations",
        _SOLVE,
        "scales = train.scales()",
        "scales = held.scales()",
        _FOLDS,
    ),
    Mutant(
        "the held-out error counts the cross term once",
        _SOLVE,
        "- 2 * r_LD @ linear_D",
        "- r_LD @ linear_D",
        _FOLDS,
    ),
    Mutant(
        "the grid of strengths does not grow with the pairs",
        _FITTING,
        "lambdas = n * np.logspace(-8, 1, 37)",
        "lambdas = np.logspace(-8, 1, 37)",
        _FOLDS,
    ),
    Mutant(
        "rows of a group may be in two folds",
        _SOLVE,
        "return fold_of_group[group_of_row]",
        "return np.arange(len(group_of_row)) % num_folds",
        _FOLDS,
    ),
    Mutant(
        "a robust fit keeps the worst pairs",
        _FITTING,
        "next_N[order[:num_keep]] = True",
        "next_N[order[-num_keep:]] = True",
        _FITS,
    ),
    Mutant(
        "a rotation is scaled by its largest direction alone",
        _SOLVE,
        "u_ER @ v_RD, float(s_R.sum())",
        "u_ER @ v_RD, float(s_R[0])",
        _FITS,
    ),
    Mutant(
        "reduced rank keeps the least directions",
        _SOLVE,
        "u_EE[:, ::-1][:, :rank]",
        "u_EE[:, :rank]",
        _FITS,
    ),
    # Maps.
    Mutant(
        "the inverse keeps the directions that rounding left",
        _MAPS,
        "        r = self.rank\n",
        "        r = len(s)\n",
        _GOLDEN,
    ),
    Mutant(
        "the effective condition number is that of all directions",
        _MAPS,
        "float(s[0] / s[self.rank - 1]) if self.rank",
        "float(s[0] / s[-1]) if self.rank",
        _BOTH_WAYS,
    ),
    Mutant(
        "a map of zeros has full rank",
        _MAPS,
        "s > s[0] / self.kappa_max",
        "s >= s[0] / self.kappa_max",
        _BOTH_WAYS,
    ),
    Mutant(
        "scales change sides in the affine form",
        _MAPS,
        "self.w.T * self.y_scale / self.x_scale[:, None]",
        "self.w.T / self.y_scale * self.x_scale[:, None]",
        _BOTH_WAYS,
    ),
    Mutant(
        "the way back keeps the scale of y",
        _MAPS,
        "@ w_DE.T * self.x_scale + self.x_mean",
        "@ w_DE.T + self.x_mean",
        _BOTH_WAYS,
    ),
    Mutant(
        "the distance from orthogonality is divided by the dimension",
        _MAPS,
        "np.eye(d)) / np.sqrt(d))",
        "np.eye(d)) / d)",
        _GOLDEN,
    ),
    Mutant(
        "a hub translates the other way",
        "socialjepa_jax/alignment/hub.py",
        "self.maps[target].backward(self.maps[source].forward(z))",
        "self.maps[source].backward(self.maps[target].forward(z))",
        ("tests/alignment/hub_test.py",),
    ),
    # Metrics.
    Mutant(
        "the baseline of R2 is the training mean",
        _METRICS,
        "np.sum(residual_NE**2, axis=0), np.sum((y_NE - y_NE.mean(axis=0)) ** 2, axis=0)",
        "np.sum(residual_NE**2, axis=0), np.sum(y_NE**2, axis=0)",
        _GOLDEN,
    ),
    Mutant(
        "eq. (6) is summed over samples",
        _METRICS,
        '"mse_sum": mse * y_NE.shape[1]',
        '"mse_sum": mse * y_NE.shape[0]',
        _GOLDEN,
    ),
    Mutant(
        "raw errors are divided by the scale",
        _METRICS,
        "unit_E = linear_map.y_scale**2",
        "unit_E = linear_map.y_scale**-2",
        _GOLDEN,
    ),
    Mutant(
        "the noise ceiling takes a biased total variance",
        _METRICS,
        "total = np.sum((z_ND - z_ND.mean(axis=0)) ** 2) / (len(z_ND) - 1)",
        "total = np.sum((z_ND - z_ND.mean(axis=0)) ** 2) / len(z_ND)",
        _GOLDEN,
    ),
    Mutant(
        "the noise ceiling counts a mean for no degree of freedom",
        _METRICS,
        "repeats = len(z_ND) - len(counts_S)",
        "repeats = len(z_ND)",
        _GOLDEN,
    ),
    # Nulls and intervals.
    Mutant(
        "a p value may be zero",
        _NULL,
        "(1 + hits) / (1 + len(values))",
        "hits / len(values)",
        _NULLS,
    ),
    Mutant(
        "every shuffle is the same",
        _NULL,
        "permute(len((y0, y1)[part]), rng, *labels)",
        "permute(len((y0, y1)[part]), np.random.default_rng(seed), *labels)",
        _NULLS,
    ),
    Mutant(
        "groups are exchanged over strata",
        _NULL,
        "targets = np.flatnonzero(strata[first] == stratum)",
        "targets = np.arange(len(first))",
        _NULLS,
    ),
    Mutant(
        "an interval has half of its coverage",
        _DRAWS,
        "tail = (1 - level) / 2",
        "tail = 1 - level",
        _BOOTSTRAP,
    ),
    Mutant(
        "a pair weighs the sum of its rows' counts",
        _DRAWS,
        "weight_N[rows] * weight_N[columns]",
        "weight_N[rows] + weight_N[columns]",
        _BOOTSTRAP,
    ),
    Mutant(
        "rows are drawn in place of groups",
        _DRAWS,
        "return draws_RG[:, group_N].astype(np.float64)",
        "draws_RN = np.random.default_rng(seed).multinomial(\n"
        "        len(group_N), np.full(len(group_N), 1 / len(group_N)), size=num\n"
        "    )\n"
        "    return draws_RN.astype(np.float64)",
        _BOOTSTRAP,
    ),
    Mutant(
        "the spread of a draw is about the mean of all rows",
        _DRAWS,
        " - np.sum(sum_RE**2, axis=1) / total_R",
        "",
        _BOOTSTRAP,
    ),
    Mutant(
        "intervals widen where more rows are measured",
        f"{_STUDY}/intervals.py",
        "np.sqrt(counts[0] / counts[1])",
        "np.sqrt(counts[1] / counts[0])",
        ("tests/alignment/study/intervals_test.py",),
    ),
    Mutant(
        "differences are to the inverse in place of no map",
        f"{_STUDY}/intervals.py",
        'samples[back], samples["none"])',
        'samples[back], samples["inverse"])',
        ("tests/alignment/study/intervals_test.py",),
    ),
    # Similarities.
    Mutant(
        "HSIC is debiased for one row too many",
        _SIMILARITY,
        "sums_3 / ((n - 1) * (n - 2))",
        "sums_3 / (n * (n - 1))",
        _SIMILAR,
    ),
    Mutant(
        "kernels are centred on one side",
        _SIMILARITY,
        "float(2 * k_N @ l_N / n - ",
        "float(k_N @ l_N / n - ",
        _SIMILAR,
    ),
    Mutant(
        "SVCCA keeps a direction less",
        _SIMILARITY,
        "int(np.searchsorted(share, variance) + 1)",
        "int(np.searchsorted(share, variance))",
        _SIMILAR,
    ),
    Mutant(
        "the effective rank is of squared singular values",
        _SIMILARITY,
        "entropy_rank(np.sqrt(eigenvalues[eigenvalues > rounding]))",
        "entropy_rank(eigenvalues[eigenvalues > rounding])",
        _SIMILAR,
    ),
    Mutant(
        "a match is behind its ties",
        _NEAR,
        "best.append(1 + np.asarray(closer))",
        "best.append(1 + np.asarray(closer) + np.asarray(tied))",
        _LOCAL,
    ),
    Mutant(
        "chance counts a row as its own neighbour",
        _NEAR,
        "return nos / (1 - k / (count - 1))",
        "return nos / (1 - k / count)",
        _LOCAL,
    ),
    Mutant(
        "cosines are of rows that are centred by the gallery",
        _NEAR,
        "query_ND, gallery_ND = unit_rows(query_ND), unit_rows(gallery_ND)\n"
        '    if similarity == "dot":',
        "centre_D = gallery_ND.mean(axis=0)\n"
        "        query_ND, gallery_ND = unit_rows(query_ND - centre_D),"
        " unit_rows(gallery_ND - centre_D)\n"
        '    if similarity == "dot":',
        (*_LOCAL, *_GOLDEN),
    ),
    # A study.
    Mutant(
        "wrong pairs stay right",
        f"{_STUDY}/curves.py",
        "partner[wrong] = np.roll(wrong, 1)",
        "partner[wrong] = wrong",
        ("tests/alignment/study/curves_test.py",),
    ),
    Mutant(
        "every draw of a budget is the first pairs",
        f"{_STUDY}/curves.py",
        "fit(x[order[:size]], y[order[:size]], **options)",
        "fit(x[:size], y[:size], **options)",
        ("tests/alignment/study/curves_test.py",),
    ),
    Mutant(
        "novelty is measured against the rows of the covariance",
        f"{_STUDY}/novelty.py",
        "np.linalg.norm((z_ND[held] - mean_D) @ whitening_DD, axis=1)",
        "np.linalg.norm((z_ND[fitted] - mean_D) @ whitening_DD, axis=1)",
        ("tests/alignment/study/novelty_test.py",),
    ),
    Mutant(
        "groups are held out in the order of their names",
        f"{_STUDY}/settings.py",
        "order = np.random.default_rng(seed).permutation(len(sizes))",
        "order = np.arange(len(sizes))",
        ("tests/alignment/study/settings_test.py",),
    ),
    Mutant(
        "a sample holds rows twice",
        f"{_STUDY}/settings.py",
        "choice(rows, limit, replace=False)",
        "choice(rows, limit)",
        ("tests/alignment/study/settings_test.py",),
    ),
    Mutant(
        "relative representations keep the common offset",
        f"{_STUDY}/references.py",
        'return unit_rows(as_latents(z, "z") - centre_D) @ unit_rows(anchors_AD - centre_D).T',
        'return unit_rows(as_latents(z, "z")) @ unit_rows(anchors_AD).T',
        ("tests/alignment/study/references_test.py",),
    ),
)
