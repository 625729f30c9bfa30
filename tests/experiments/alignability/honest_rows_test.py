"""Rows of the honest table from made latents: all pairs of agents count."""

import json

import numpy as np
import pytest

from experiments.alignability import honest_page, honest_rows, honest_table
from socialjepa_jax import alignment, evaluation

SAME = (0, 2)  # agents that share a camera


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The experiment, its data, latents of three agents, and the rows of two repetitions."""
    experiment = honest_table.arms(["ijepa"], None, "smoke")["toys_ijepa"]
    dataset = experiment.data.load(tmp_path_factory.mktemp("cache"))
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(dataset.num_states, 4))

    def draw():
        mixed = shared @ rng.normal(size=(3, 4, 4))
        return (mixed + 0.3 * rng.normal(size=mixed.shape)).astype(np.float32)

    untrained = evaluation.Untrained(own_init=draw(), same_init=draw())
    latents = [draw(), draw()]
    runs = [honest_rows.measure(experiment, dataset, each, untrained) for each in latents]
    return experiment, dataset, latents, runs


def test_a_row_is_the_mean_over_its_pairs_of_agents(measured):
    experiment, dataset, latents, runs = measured
    pairs = list(evaluation.pairs(experiment.agents.cameras))
    for split in evaluation.splits(dataset):
        r2 = {}
        for i, j, same_camera in pairs:
            x, y = latents[0][i], latents[0][j]
            linear_map = evaluation.fit_map(experiment.alignment, x, y, split.train)
            value = alignment.r2(linear_map, x[split.test], y[split.test])
            r2.setdefault(same_camera, {})[i, j] = value
        assert list(r2[True]) == [SAME] and len(r2[False]) == 2
        for row, same_camera in (("trained", False), ("same_camera", True)):
            found = runs[0][row, split.name]
            assert found.pairs == tuple(r2[same_camera])
            estimate = found.metrics["r2"]
            assert estimate.value == pytest.approx(np.mean(list(r2[same_camera].values())))
            assert estimate.repeats.tolist() == [estimate.value]  # one run, one repetition
            assert len(estimate.without) == len(np.unique(dataset.instance_ids[split.test]))


def test_repetitions_are_averaged_and_kept_apart(measured):
    runs = measured[-1]
    table = honest_rows.average(runs)
    assert table.keys() == runs[0].keys() == runs[1].keys()
    for key, row in table.items():
        values = [rows[key].metrics["dsc"].value for rows in runs]
        assert row.metrics["dsc"].repeats.tolist() == values
        assert row.metrics["dsc"].value == pytest.approx(np.mean(values))
        assert row.probes["probe_own"] == pytest.approx(
            np.mean([rows[key].probes["probe_own"] for rows in runs])
        )
        assert row.pairs == runs[0][key].pairs


def test_numbers_on_other_data_get_no_verdict(measured, tmp_path):
    experiment, *_, runs = measured
    table = honest_rows.average(runs)
    results = {"toys_ijepa": {"context/cls": table}}
    page = honest_page.write(tmp_path, results, {"toys_ijepa": experiment}, "smoke", 2)
    stored = json.loads((tmp_path / "honest_table.json").read_text())
    assert [claim["id"] for claim in stored["claims"]] == [
        f"toys_ijepa/context/cls/{split}/r2" for split in ("instance", "state")
    ]
    for claim in stored["claims"]:
        assert claim["agrees"] is None
        assert claim["note"].startswith("not comparable: the paper's R² is of smallNORB, ours of")
        assert f"({claim['ours']:.3f} against" in claim["note"]
    rows = stored["rows"]["toys_ijepa"]["context/cls"]
    assert {(r["row"], r["split"]) for r in rows} == set(table)
    trained = next(r for r in rows if (r["row"], r["split"]) == ("trained", "state"))
    assert trained["pairs"] == [[0, 1], [1, 2]]
    assert trained["metrics"]["r2"]["value"] == table["trained", "state"].metrics["r2"].value
    text = page.read_text()
    assert text.count("<table") == 2 and "0.891" in text
