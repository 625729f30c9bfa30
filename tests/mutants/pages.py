"""Changes of controls, probes, and pages."""

from tests.mutants.mutant import Mutant

_CONTROLS = "socialjepa_jax/evaluation/controls.py"
_PROBE = "socialjepa_jax/collaboration/probe.py"
_COLLAPSE = "socialjepa_jax/report/run/collapse.py"
_DATA = "socialjepa_jax/report/run/data.py"
_TABLES = "socialjepa_jax/report/tables.py"
_DECISION = "socialjepa_jax/alignment/migration/decision.py"
_VERDICT = "socialjepa_jax/report/alignment/verdict.py"

_CONTROL = ("tests/evaluation/controls_test.py",)
_GEOMETRY = "socialjepa_jax/report/run/geometry.py"
_PLANE = ("tests/report/run/geometry_test.py",)
_CELLS = ("tests/report/tables_test.py",)
_TOOL = ("tests/report/alignment/readback_test.py",)

PAGES = (
    Mutant(
        "pixels are projected on their least components",
        _CONTROLS,
        "top = np.argsort(values)[::-1][:dim]",
        "top = np.argsort(-values)[::-1][:dim]",
        _CONTROL,
    ),
    Mutant(
        "pixel components are of the first training rows",
        _CONTROLS,
        "images[rng.permutation(train_rows)[:_PCA_ROWS]]",
        "images[train_rows[:_PCA_ROWS]]",
        _CONTROL,
    ),
    Mutant(
        "wrong pairs are right",
        _CONTROLS,
        "pairing[order] = np.roll(order, 1)",
        "pairing[order] = order",
        _CONTROL,
    ),
    Mutant(
        "residuals keep the mean of the training rows",
        _CONTROLS,
        "(z_ND - z_mean - (features_NF - x_mean) @ weight)",
        "(z_ND - (features_NF - x_mean) @ weight)",
        _CONTROL,
    ),
    Mutant(
        "evaluations are compared by the last split",
        "socialjepa_jax/evaluation/metrics.py",
        "key.endswith(ends[0])",
        "key.endswith(ends[-1])",
        ("tests/evaluation/table_test.py::test_evaluations_are_compared_by_one_number",),
    ),
    # Probes.
    Mutant(
        "a transferred probe forgets the offset of the map",
        _PROBE,
        "offset_D @ probe.weight + probe.bias",
        "probe.bias",
        ("tests/collaboration/probe_test.py",),
    ),
    Mutant(
        "a logistic probe adds the mean",
        "socialjepa_jax/collaboration/logistic.py",
        "bias_C - mean_D @ weight_DC",
        "bias_C + mean_D @ weight_DC",
        ("tests/collaboration/scoring_test.py",),
    ),
    Mutant(
        "the most frequent class is that of the training rows",
        "socialjepa_jax/collaboration/scoring.py",
        "np.bincount(held_N).max() / len(held_N)",
        "np.bincount(fit_N).max() / len(fit_N)",
        ("tests/collaboration/scoring_test.py",),
    ),
    # The page of a run.
    Mutant(
        "the spread at the start is that of the end",
        _COLLAPSE,
        'float(curves["feature_std"][0])',
        'float(curves["feature_std"][-1])',
        ("tests/report/run/readback_test.py",),
    ),
    Mutant(
        "a rank is low below a hundredth of D",
        _COLLAPSE,
        "self.rankme < 0.1 * self.dim",
        "self.rankme < 0.01 * self.dim",
        ("tests/report/run/collapse_test.py",),
    ),
    Mutant(
        "the best control is the worst",
        _DATA,
        "return max(finite.items(), key=",
        "return min(finite.items(), key=",
        ("tests/report/run/data_test.py", "tests/report/run/page_test.py"),
    ),
    Mutant(
        "the bounds of a mean are its first and last value",
        _DATA,
        "min(values), max(values))",
        "values[0], values[-1])",
        ("tests/report/run/data_test.py",),
    ),
    Mutant(
        "the best is judged by more digits than are shown",
        _TABLES,
        "round(_number(row.cells.get(column.key)), column.digits)",
        "_number(row.cells.get(column.key))",
        _CELLS,
    ),
    Mutant(
        "the best is the highest even where the lowest is",
        _TABLES,
        '(max if column.best == "max" else min)(numbers.values())',
        "max(numbers.values())",
        _CELLS,
    ),
    Mutant(
        "the bounds of an interval change places",
        _TABLES,
        'f"{value} [{low}, {high}]"',
        'f"{value} [{high}, {low}]"',
        _CELLS,
    ),
    Mutant(
        "a true match is behind no tie",
        _GEOMETRY,
        "(distances_QQ <= own).sum(axis=1) - 1",
        "(distances_QQ < own).sum(axis=1)",
        _PLANE,
    ),
    Mutant(
        "principal axes are of latents about zero",
        _GEOMETRY,
        "np.linalg.svd(z_ND - z_ND.mean(axis=0)[None], full_matrices=False)",
        "np.linalg.svd(z_ND, full_matrices=False)",
        _PLANE,
    ),
    Mutant(
        "distances are from every candidate to every query",
        _GEOMETRY,
        "a, b = view.mapped_QD, view.y_QD",
        "b, a = view.mapped_QD, view.y_QD",
        _PLANE,
    ),
    # The pages of the alignment tool.
    Mutant(
        "spaces are related without their null",
        _DECISION,
        'return bool(low > max(0.0, float(study.null.samples["r2"].max())))',
        "return bool(low > 0.0)",
        ("tests/alignment/migration/decision_test.py",),
    ),
    Mutant(
        "spaces are related by the middle of the interval",
        _DECISION,
        "low = interval.low if interval.known else",
        "low = (interval.low + interval.high) / 2 if interval.known else",
        ("tests/alignment/migration/decision_test.py",),
    ),
    Mutant(
        "better distances are called worse",
        _VERDICT,
        'kind = "better" if difference.low > 0 else "worse"',
        'kind = "better" if difference.low < 0 else "worse"',
        ("tests/report/alignment/verdict_test.py",),
    ),
    Mutant(
        "an interval that holds zero is a difference",
        _VERDICT,
        "if small or difference.low <= 0 <= difference.high:",
        "if small:",
        ("tests/report/alignment/verdict_test.py",),
    ),
)
