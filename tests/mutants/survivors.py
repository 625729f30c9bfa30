"""Changes that an earlier collection of tests did not notice: where numbers become a page.

Wrong rows, wrong agents, swapped columns, and a step whose parts are told something else.
"""

from tests.mutants.mutant import Mutant

_TABLE = "socialjepa_jax/evaluation/table.py"
_METRICS = "socialjepa_jax/evaluation/metrics.py"
_AGENTS = "socialjepa_jax/agents.py"
_SCORES = "socialjepa_jax/report/run/scores.py"
_SCORING = "socialjepa_jax/collaboration/scoring.py"
_QUALITY = "socialjepa_jax/report/alignment/quality.py"
_USES = "socialjepa_jax/report/alignment/uses.py"
_SPACES = "socialjepa_jax/report/alignment/spaces.py"
_MASKED = "socialjepa_jax/objectives/masked_lejepa.py"

_RECOMPUTED = ("tests/evaluation/recomputed_test.py",)
_RUN = ("tests/loop_test.py",)
_WIRING = ("tests/wiring_test.py",)
_PAGE = ("tests/report/run/readback_test.py",)
_TOOL = ("tests/report/alignment/readback_test.py",)
_PROBES = ("tests/collaboration/scoring_test.py",)
_PENALTY = ("tests/objectives/masked_lejepa_test.py",)

SURVIVORS = (
    # The table of a run.
    Mutant(
        "the final W is fitted on all rows",
        _TABLE,
        "linear_map = fit_map(how, x, y, split.train)",
        "linear_map = fit_map(how, x, y, np.arange(len(x)))",
        _RECOMPUTED,
    ),
    Mutant(
        "the final W is fitted on the rows it is tested on",
        _TABLE,
        "linear_map = fit_map(how, x, y, split.train)",
        "linear_map = fit_map(how, x, y, split.test)",
        _RECOMPUTED,
    ),
    Mutant(
        "probes are fitted on test rows",
        _TABLE,
        "collaboration.fit_probe(z[train], labels[train], classes, ridge=ridge)",
        "collaboration.fit_probe(z[test], labels[test], classes, ridge=ridge)",
        _RECOMPUTED,
    ),
    Mutant(
        "probes are scored on training rows",
        _TABLE,
        "collaboration.accuracy(probe, y[test], labels[test])",
        "collaboration.accuracy(probe, y[train], labels[train])",
        _RECOMPUTED,
    ),
    Mutant(
        "the own probe is that of the other agent",
        _TABLE,
        '"probe_own": probe_of(y),',
        '"probe_own": source,',
        _RECOMPUTED,
    ),
    Mutant(
        "a probe is transferred by regression in place of the inverse",
        _TABLE,
        "collaboration.transfer_probe(source, linear_map),",
        'collaboration.transfer_probe(source, linear_map, kind="regression"),',
        _RECOMPUTED,
    ),
    Mutant(
        "a probe is transferred by the inverse in place of regression",
        _TABLE,
        'collaboration.transfer_probe(source, linear_map, kind="regression")',
        "collaboration.transfer_probe(source, linear_map)",
        _RECOMPUTED,
    ),
    Mutant(
        "the strength of the probes is not passed on",
        _TABLE,
        "classes, ridge=ridge)",
        "classes)",
        _RECOMPUTED,
    ),
    Mutant(
        "the untrained rows show one initial value",
        _TABLE,
        "RowName.UNTRAINED: (untrained.own_init[i], untrained.own_init[j]),",
        "RowName.UNTRAINED: (untrained.same_init[i], untrained.same_init[j]),",
        _RECOMPUTED,
    ),
    Mutant(
        "untrained_same_init shows the other control",
        _TABLE,
        "RowName.UNTRAINED_SAME_INIT: (untrained.same_init[i], untrained.same_init[j]),",
        "RowName.UNTRAINED_SAME_INIT: (untrained.own_init[i], untrained.own_init[j]),",
        _RECOMPUTED,
    ),
    Mutant(
        "pixel components are those of the first camera twice",
        _TABLE,
        "pixels(cameras[j], split.name),",
        "pixels(cameras[i], split.name),",
        _RECOMPUTED,
    ),
    Mutant(
        "pixel components are fitted on all rows",
        _TABLE,
        "controls.pixel_pca(dataset.images[camera], halves[name].train, dim)",
        "controls.pixel_pca(dataset.images[camera], np.arange(dataset.num_states), dim)",
        _RECOMPUTED,
    ),
    Mutant(
        "the shared factors explain the first agent",
        _TABLE,
        "y = latents_AND[subject.agents[1]]",
        "y = latents_AND[subject.agents[0]]",
        _RECOMPUTED,
    ),
    Mutant(
        "the shared factors are scored where they are fitted",
        _TABLE,
        "alignment.prediction_r2(predicted[split.test], y[split.test], scale)",
        "alignment.prediction_r2(predicted[split.train], y[split.train], scale)",
        _RECOMPUTED,
    ),
    Mutant(
        "the shared factors are regressed out on all rows",
        _TABLE,
        "controls.partial_out(z, features, split.train, ridge=1e-6)",
        "controls.partial_out(z, features, np.arange(len(z)), ridge=1e-6)",
        _RECOMPUTED,
    ),
    Mutant(
        "the factors are left in the second space",
        _TABLE,
        "name: (rest(found[row][0]), rest(found[row][1]))",
        "name: (rest(found[row][0]), found[row][1])",
        _RECOMPUTED,
    ),
    Mutant(
        "pairs are shuffled anywhere in both rows",
        _TABLE,
        "found[RowName.MISMATCHED_CELL] = (x, y[in_cell])",
        "found[RowName.MISMATCHED_CELL] = (x, y[anywhere])",
        _RECOMPUTED,
    ),
    Mutant(
        "wrong pairs move from the training rows to the test rows",
        _TABLE,
        "rng, parts = np.random.default_rng(seed), (split.train, split.test)",
        "rng, parts = np.random.default_rng(seed), (np.arange(len(x)),)",
        _RECOMPUTED,
    ),
    Mutant(
        "RankMe of the first agent",
        _TABLE,
        'collapse_metrics(y[split.test])["rankme"]',
        'collapse_metrics(x[split.test])["rankme"]',
        _RECOMPUTED,
    ),
    Mutant(
        "every way back is the inverse",
        _TABLE,
        "linear_map, x[split.test], y[split.test], back=back, neighbors=neighbors",
        "linear_map, x[split.test], y[split.test], neighbors=neighbors",
        _RECOMPUTED,
    ),
    Mutant(
        "two ways back change names",
        "socialjepa_jax/alignment/metrics.py",
        "return x_ND, y_NE @ linear_map.back_matrix(back).T",
        'other = {"inverse": "regression", "regression": "inverse"}[back]\n'
        "    return x_ND, y_NE @ linear_map.back_matrix(other).T",
        _RECOMPUTED,
    ),
    Mutant(
        "the splits change names",
        "socialjepa_jax/evaluation/splits.py",
        '{"instance": dataset.split_instance, "state": dataset.split_state}',
        '{"instance": dataset.split_state, "state": dataset.split_instance}',
        _RECOMPUTED,
    ),
    Mutant(
        "kappa_max is not passed on",
        _METRICS,
        "ridge=how.ridge, kappa_max=how.kappa_max",
        "ridge=how.ridge",
        _RECOMPUTED,
    ),
    Mutant(
        "the method is not passed on",
        _METRICS,
        "method=how.method, ridge",
        "ridge",
        _RECOMPUTED,
    ),
    Mutant(
        "R2 of the training rows is logged as held out",
        _METRICS,
        "alignment.r2(linear_map, x[split.test], y[split.test])",
        "alignment.r2(linear_map, x[split.train], y[split.train])",
        _RECOMPUTED,
    ),
    Mutant(
        "the R2 that is logged is of a map of all rows",
        _METRICS,
        "linear_map = fit_map(experiment.alignment, x, y, split.train)",
        "linear_map = fit_map(experiment.alignment, x, y, np.arange(len(x)))",
        _RECOMPUTED,
    ),
    Mutant(
        "the run hands over its two untrained controls in the wrong order",
        "socialjepa_jax/loop.py",
        "evaluation.Untrained(baseline[:, good], again[:, good])",
        "evaluation.Untrained(again[:, good], baseline[:, good])",
        _RUN,
    ),
    Mutant(
        "the untrained rows are of trained encoders",
        "socialjepa_jax/loop.py",
        "evaluation.Untrained(baseline[:, good], again[:, good])",
        "evaluation.Untrained(latents, again[:, good])",
        _RUN,
    ),
    # The step.
    Mutant(
        "the average follows the parameters before the update",
        _AGENTS,
        "self.objective.after_update(params, aux, state.step, hparams)",
        "self.objective.after_update(state.params, aux, state.step, hparams)",
        _WIRING,
    ),
    Mutant(
        "after_update forgets what the loss carried",
        _AGENTS,
        "self.objective.after_update(params, aux, state.step, hparams)",
        "self.objective.after_update(params, state.aux, state.step, hparams)",
        _WIRING,
    ),
    Mutant(
        "after_update is told the next step",
        _AGENTS,
        "self.objective.after_update(params, aux, state.step, hparams)",
        "self.objective.after_update(params, aux, state.step + 1, hparams)",
        _WIRING,
    ),
    Mutant(
        "after_update comes before the projection",
        _AGENTS,
        "params = projected(self.objective, params)\n"
        "            aux = self.objective.after_update(params, aux, state.step, hparams)",
        "aux = self.objective.after_update(params, aux, state.step, hparams)\n"
        "            params = projected(self.objective, params)",
        _WIRING,
    ),
    Mutant(
        "the moments are not carried",
        _AGENTS,
        "params=params, aux=aux, opt_state=opt_state)",
        "params=params, aux=aux)",
        _WIRING,
    ),
    Mutant(
        "the optimiser's schedule counts draws",
        _AGENTS,
        "step=state.step,\n            total_steps",
        "step=state.step + state.passed_over,\n            total_steps",
        _WIRING,
    ),
    Mutant(
        "the loss is told the draw in place of the step",
        _AGENTS,
        '{**batch, "step": state.step, "draw": draw}',
        '{**batch, "step": draw, "draw": draw}',
        _WIRING,
    ),
    Mutant(
        "the key of the loss counts steps in place of draws",
        _AGENTS,
        "keys.step_keys(seed, draw)",
        "keys.step_keys(seed, state.step)",
        _WIRING,
    ),
    Mutant(
        "the agents' own factor on the learning rate is left out",
        _AGENTS,
        'rate=hparams["learning_rate"],',
        "rate=jnp.float32(1.0),",
        _WIRING,
    ),
    Mutant(
        "the log shows the first step of a call",
        "socialjepa_jax/running/hooks.py",
        "enumerate(values[:, -1])",
        "enumerate(values[:, 0])",
        _WIRING,
    ),
    Mutant(
        "the log shows the first learning rate of a call",
        "socialjepa_jax/running/hooks.py",
        'float(metrics["learning_rate"][0, -1])',
        'float(metrics["learning_rate"][0, 0])',
        _WIRING,
    ),
    Mutant(
        "same_init keeps the agents' own seeds",
        "socialjepa_jax/build.py",
        "np.full_like(seeds, seeds[0])",
        "seeds",
        _WIRING,
    ),
    Mutant(
        "same_init takes the last agent's seed",
        "socialjepa_jax/build.py",
        "np.full_like(seeds, seeds[0])",
        "np.full_like(seeds, seeds[-1])",
        _WIRING,
    ),
    Mutant(
        "view_b is not used",
        "socialjepa_jax/data/augment/views.py",
        "self.global_views - half, self.view_b, of",
        "self.global_views - half, self.view_a, of",
        ("tests/data/augment/views_test.py",),
    ),
    Mutant(
        "flip and colours share a key",
        "socialjepa_jax/data/augment/geometry.py",
        "colour.augment_colour(image_HWC, colour_key, config.colours)",
        "colour.augment_colour(image_HWC, flip_key, config.colours)",
        ("tests/data/augment/geometry_test.py",),
    ),
    Mutant(
        "one Sobol shift for all coordinates",
        "socialjepa_jax/sigreg/directions.py",
        "jax.random.bits(key, (1, dim), jnp.uint32)",
        "jax.random.bits(key, (1, 1), jnp.uint32)",
        (
            "tests/sigreg/directions_test.py"
            "::test_every_coordinate_of_sobol_points_has_a_shift_of_its_own",
        ),
    ),
    Mutant(
        "SIGReg acts on stopped targets of blocks",
        _MASKED,
        '"targets": target if self.predictor',
        '"targets": constant if self.predictor',
        _PENALTY,
    ),
    Mutant(
        "SIGReg acts on stopped tokens",
        _MASKED,
        'else whole["tokens"],',
        'else jax.lax.stop_gradient(whole["tokens"]) if self.stop_gradient else whole["tokens"],',
        _PENALTY,
    ),
    # The page of a run.
    Mutant(
        "DSC and CKA change columns",
        _SCORES,
        'Column("dsc", "DSC", 3, "max", "rank correlation of all pairwise distances"),',
        'Column("cka_debiased", "DSC", 3, "max", "rank correlation of all pairwise distances"),',
        _PAGE,
    ),
    Mutant(
        "CKA shows DSC",
        _SCORES,
        'Column("cka_debiased", "CKA", 3, "max", "debiased linear CKA"),',
        'Column("dsc", "CKA", 3, "max", "debiased linear CKA"),',
        _PAGE,
    ),
    Mutant(
        "biased CKA under the name of the debiased one",
        _SCORES,
        'Column("cka_debiased", "CKA", 3',
        'Column("cka", "CKA", 3',
        (*_PAGE, "tests/report/run/scores_test.py"),
    ),
    Mutant(
        "the transferred probe shows the own one",
        _SCORES,
        'Column("probe_transferred", "carried over by W"',
        'Column("probe_own", "carried over by W"',
        _PAGE,
    ),
    Mutant(
        "the probe without W shows the one with it",
        _SCORES,
        'Column("probe_raw", "carried over without W"',
        'Column("probe_transferred", "carried over without W"',
        _PAGE,
    ),
    Mutant(
        "two ways back change labels",
        _SCORES,
        '"regression": "reverse regression",\n    "none": "no map",',
        '"none": "reverse regression",\n    "regression": "no map",',
        _PAGE,
    ),
    Mutant(
        "the bars of DSC and CKA change places",
        _SCORES,
        'BarSeries(label, [value(c["dsc"]), 1 - value(c["nos@10"]), value(c["cka_debiased"])],',
        'BarSeries(label, [value(c["cka_debiased"]), 1 - value(c["nos@10"]), value(c["dsc"])],',
        _PAGE,
    ),
    Mutant(
        "a bar of NOS is not turned round",
        _SCORES,
        '1 - value(c["nos@10"])',
        'value(c["nos@10"])',
        _PAGE,
    ),
    Mutant(
        "the groups of bars change names",
        _SCORES,
        '("DSC", "1 − NOS@10", "CKA"), series',  # noqa: RUF001
        '("CKA", "1 − NOS@10", "DSC"), series',  # noqa: RUF001
        _PAGE,
    ),
    Mutant(
        "bars of the last way back first",
        "socialjepa_jax/report/figures.py",
        "container = axes.bar(x, bar.values,",
        "container = axes.bar(x, bar.values[::-1],",
        _PAGE,
    ),
    Mutant(
        "a table takes the last way back of a pair",
        "socialjepa_jax/report/run/data.py",
        "chosen.setdefault((score.x, score.via, score.y, score.method, score.seed), score)",
        "chosen[score.x, score.via, score.y, score.method, score.seed] = score",
        _PAGE,
    ),
    Mutant(
        "a table shows the other split",
        "socialjepa_jax/report/run/data.py",
        "if score.row == row and score.split == split and",
        "if score.row == row and score.split != split and",
        _PAGE,
    ),
    Mutant(
        "a mean of pairs is their highest",
        "socialjepa_jax/report/run/data.py",
        "Interval(math.fsum(values) / len(values), min(values), max(values))",
        "Interval(max(values), min(values), max(values))",
        _PAGE,
    ),
    Mutant(
        "two controls change labels",
        "socialjepa_jax/report/looks.py",
        'RowName.UNTRAINED: Look(\n        "untrained, other init",',
        'RowName.UNTRAINED: Look(\n        "untrained, same init",',
        _PAGE,
    ),
    Mutant(
        "the map of the page is fitted on held-out states",
        "socialjepa_jax/report/run/geometry.py",
        "alignment.fit(first.z[train], second.z[train]",
        "alignment.fit(first.z[test], second.z[test]",
        _PAGE,
    ),
    Mutant(
        "the page's settings of the fit are not passed on",
        "socialjepa_jax/report/run/geometry.py",
        ", **_fit_settings(run.config))",
        ")",
        _PAGE,
    ),
    Mutant(
        "chance of NOS counts the state itself",
        _SCORES,
        "1 - ticks / (n_test - 1)",
        "1 - ticks / n_test",
        _PAGE,
    ),
    # The pages of the alignment tool.
    Mutant(
        "the tool's map is fitted on all rows",
        "socialjepa_jax/alignment/study/study.py",
        "files.take_rows(z, split.train) for z in (x, y)",
        "files.take_rows(z, np.arange(len(z))) for z in (x, y)",
        _TOOL,
    ),
    Mutant(
        "the tool's DSC and CKA change columns",
        _QUALITY,
        'tables.Column("dsc", "DSC"',
        'tables.Column("cka_debiased", "DSC"',
        _TOOL,
    ),
    Mutant(
        "the tool's ways back change rows",
        _QUALITY,
        '"regression": ("back by regression", "the reverse regression of y against x"),\n'
        '    "inverse": (',
        '"inverse": ("back by regression", "the reverse regression of y against x"),\n'
        '    "regression": (',
        _TOOL,
    ),
    Mutant(
        "the null is not refitted",
        "socialjepa_jax/alignment/study/settings.py",
        "lambda x, y, *held_out: score(fit(x, y, **options), *held_out),",
        "lambda x, y, *held_out: score(linear_map, *held_out),",
        _TOOL,
    ),
    Mutant(
        "the p value of the page is of the other tail",
        _QUALITY,
        'cells["p"] = study.null.p_value(key)',
        'cells["p"] = study.null.p_value(key, larger=False)',
        _TOOL,
    ),
    Mutant(
        "a p value counts the other tail",
        "socialjepa_jax/alignment/permutation.py",
        "values >= observed if larger else values <= observed",
        "values <= observed if larger else values >= observed",
        (*_TOOL, "tests/alignment/permutation_test.py"),
    ),
    Mutant(
        "the tool's probes change rows",
        _USES,
        "tables.Row(_PROBES[name], dict(probes[name])",
        'tables.Row(_PROBES[name], dict(probes["own"])',
        _TOOL,
    ),
    Mutant(
        "the tool's classifiers change columns",
        _USES,
        'tables.Column("logistic", "logistic"',
        'tables.Column("ridge", "logistic"',
        _TOOL,
    ),
    Mutant(
        "heat maps of spaces are turned over",
        "socialjepa_jax/report/alignment/figures.py",
        "axes.imshow(values,",
        "axes.imshow(values.T,",
        _TOOL,
    ),
    Mutant(
        "the hub's heat map shows direct maps",
        _SPACES,
        '("hub", hub,',
        '("hub", direct,',
        _TOOL,
    ),
    Mutant(
        "the table of spaces shows the hub's R2 as direct",
        _SPACES,
        '"hub": pair.hub_r2,',
        '"hub": pair.r2,',
        _TOOL,
    ),
    # Probes of the tool.
    Mutant(
        "probe_matrix goes through the map of the other direction",
        _SCORING,
        "transfer_probe(probe, maps[i, j],",
        "transfer_probe(probe, maps[j, i],",
        _PROBES,
    ),
    Mutant(
        "probe_matrix carries by the forward map's inverse",
        _SCORING,
        'maps[i, j], kind="regression")',
        "maps[i, j])",
        _PROBES,
    ),
    Mutant(
        "probe_matrix is turned over",
        _SCORING,
        "scores[i, j] = accuracy(probe",
        "scores[j, i] = accuracy(probe",
        _PROBES,
    ),
    Mutant(
        "probe_matrix fits on the rows it scores",
        _SCORING,
        "fit_logistic(z[train], classes[train], len(names))",
        "fit_logistic(z[test], classes[test], len(names))",
        _PROBES,
    ),
    Mutant(
        "kinds of transferred probes are one",
        _SCORING,
        "transfer_probe(own, linear_map, kind=kind) for kind",
        "transfer_probe(own, linear_map) for kind",
        _PROBES,
    ),
    Mutant(
        "the oracle is scored on x",
        _SCORING,
        '"oracle": accuracy(oracle, test[1], held_N)',
        '"oracle": accuracy(own, test[0], held_N)',
        _PROBES,
    ),
    Mutant(
        "the tool's probes are fitted on the rows they are scored on",
        _SCORING,
        "for part in (rows, study.split.test)",
        "for part in (study.split.test, study.split.test)",
        _TOOL,
    ),
    Mutant(
        "the tool's probes are scored on the rows they are fitted on",
        _SCORING,
        "for part in (rows, study.split.test)",
        "for part in (rows, rows)",
        _TOOL,
    ),
    Mutant(
        "probes of spaces are scored on the rows they are fitted on",
        _SCORING,
        "maps, spaces.labels, train, split.test)",
        "maps, spaces.labels, train, train)",
        _TOOL,
    ),
)
