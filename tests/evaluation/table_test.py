"""What is measured of agents: on latents whose relation is known by construction."""

import dataclasses
import logging

import numpy as np
import pytest

from configs import toys_ijepa
from socialjepa_jax import alignment, evaluation
from socialjepa_jax import config as config_lib
from socialjepa_jax.data import ObservationTable, Protocol, Splits, pair_views
from socialjepa_jax.running import monitors

DIM = 8


@pytest.fixture(scope="module")
def dataset():
    """3 categories x 6 objects x 3 elevations x 4 lightings, two cameras, noise for pictures."""
    grid = [(c, i, e, a, g) for c in range(3) for i in range(6) for e in range(3)
            for a in (0, 160) for g in range(4)]  # fmt: skip
    rng = np.random.default_rng(0)
    table = ObservationTable(
        rng.integers(0, 256, (len(grid), 4, 4, 1), dtype=np.uint8),
        np.array(grid, np.int32),
        ("category", "instance", "elevation", "azimuth", "lighting"),
        ("a", "b", "c"),
    )
    return pair_views(table, Protocol(), Splits(test_instances=2, test_states=0.25), "grid")


@pytest.fixture(scope="module")
def experiment():
    return config_lib.from_config_dict(toys_ijepa.get_config())


def _worlds(dataset, objects: float, factors: float, noise: float):
    """Latents of agents (camera 0, camera 1, camera 0): objects, shared factors and noise."""
    rng = np.random.default_rng(1)
    per_object = rng.normal(size=(dataset.instance_ids.max() + 1, DIM))
    per_cell = rng.normal(size=(200, DIM))
    names = tuple(n for n in dataset.factor_names if n != "instance")
    state = objects * per_object[dataset.instance_ids] + factors * per_cell[dataset.cells(names)]
    turns = [np.linalg.qr(rng.normal(size=(DIM, DIM)))[0] for _ in range(3)]
    latents = [state @ turn + noise * rng.normal(size=state.shape) for turn in turns]
    return np.stack(latents).astype(np.float32)


def _table(experiment, dataset, latents):
    rng = np.random.default_rng(2)
    untrained = evaluation.Untrained(*rng.normal(size=(2, *latents.shape)).astype(np.float32))
    rows = evaluation.alignment_rows(experiment, dataset, latents, untrained)
    return {(r["row"], r["split"], r["x"], r["y"], r["back"]): r["metrics"] for r in rows}


def test_every_control_stands_beside_the_trained_pair(experiment, dataset):
    table = _table(experiment, dataset, _worlds(dataset, 1.0, 1.0, 0.1))
    cross = {key[0] for key in table if key[2:4] == ("agent_0", "agent_1")}
    assert cross == {"trained", "untrained", "untrained_same_init", "pixel_pca", "mismatched",
                     "mismatched_cell", "partialled", "untrained_partialled",
                     "pixel_pca_partialled", "shared_factors"}  # fmt: skip
    assert {key[0] for key in table if key[2:4] == ("agent_0", "agent_2")} == {"same_camera"}
    assert {key[1] for key in table} == {"instance", "state"}
    backs = {key[4] for key in table if key[0] == "trained"}
    assert backs == {"inverse", "none", "forward", "regression"}
    pair = ("state", "agent_0", "agent_1")
    r2 = {key[0]: metrics["r2"] for key, metrics in table.items() if key[1:4] == pair}
    assert len(set(r2.values())) == len(cross)  # no control stands for another


def test_single_pictures_of_one_category_have_no_rows_about_factors_nor_probes(experiment, dataset):
    alone = {"labels": np.zeros_like(dataset.labels), "label_names": ("a",)}
    factors = np.stack([alone["labels"], np.arange(dataset.num_states, dtype=np.int32)], axis=1)
    flat = dataclasses.replace(
        dataset, **alone, factors=factors, factor_names=("category", "instance")
    )
    table = _table(experiment, flat, _worlds(dataset, 1.0, 1.0, 0.1))
    cross = {key[0] for key in table if key[2:4] == ("agent_0", "agent_1")}
    assert cross == {"trained", "untrained", "untrained_same_init", "pixel_pca", "mismatched"}
    assert not any("probe_own" in metrics for metrics in table.values())


def test_a_rotation_is_found_and_controls_are_low(experiment, dataset):
    table = _table(experiment, dataset, _worlds(dataset, 1.0, 0.0, 0.05))
    pair = ("state", "agent_0", "agent_1", "inverse")
    assert table["trained", *pair]["r2"] > 0.98
    assert table["same_camera", "state", "agent_0", "agent_2", "inverse"]["r2"] > 0.98
    for control in ("untrained", "mismatched", "mismatched_cell", "pixel_pca"):
        assert table[control, *pair]["r2"] < 0.2
    assert table["partialled", *pair]["r2"] > 0.9


def test_shared_factors_are_not_taken_for_a_shared_world(experiment, dataset):
    """Where agents share nothing but factors, R2 is high and what is left after them is not."""
    table = _table(experiment, dataset, _worlds(dataset, 0.0, 1.0, 0.1))
    pair = ("instance", "agent_0", "agent_1")
    assert table["trained", *pair, "inverse"]["r2"] > 0.9
    assert table["mismatched_cell", *pair, "inverse"]["r2"] > 0.9
    assert table["shared_factors", *pair, "none"]["r2"] > 0.9
    assert table["partialled", *pair, "inverse"]["r2"] < 0.2


def test_probes_cross_by_the_map_and_not_without_it(experiment, dataset):
    rng = np.random.default_rng(3)
    centres = 3 * rng.normal(size=(3, DIM))
    z = centres[dataset.labels] + 0.3 * rng.normal(size=(dataset.num_states, DIM))
    turn = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
    split = evaluation.splits(dataset)[0]
    subject = evaluation.Subject("trained", split, (0, 1), z, z @ turn)
    linear_map = evaluation.fit_map(experiment.alignment, subject.x, subject.y, split.train)
    found = evaluation.probe_accuracies(experiment.alignment, dataset, subject, linear_map)
    assert found["probe_own"] > 0.95 and found["probe_transferred"] > 0.95
    assert found["probe_raw"] < 0.9


def test_shared_dimensions_count_directions_whatever_their_size(experiment, dataset):
    rng = np.random.default_rng(4)
    split = evaluation.splits(dataset)[1]
    x = rng.normal(size=(dataset.num_states, DIM))
    turn = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]

    def count(y):
        linear_map = evaluation.fit_map(experiment.alignment, x, y, split.train)
        return alignment.shared_dimensions(linear_map, y[split.train], x[split.test], y[split.test])

    sizes = np.logspace(0, -2, DIM)
    assert count((x * sizes) @ turn) == pytest.approx(DIM, abs=1e-2)
    three = np.concatenate([x[:, :3], rng.normal(size=(dataset.num_states, DIM - 3))], axis=1)
    assert count((three * sizes) @ turn) == pytest.approx(3, abs=0.4)
    assert count(rng.normal(size=x.shape)) < 0.4


def test_monitors_tell_collapse(caplog):
    rng = np.random.default_rng(0)
    healthy = evaluation.collapse_metrics(rng.normal(size=(500, DIM)))
    assert healthy["rankme"] > 0.95 * DIM
    assert healthy["feature_std"] == pytest.approx(1.0, abs=0.05)
    line = rng.normal(size=(500, 1)) * np.ones(DIM) + 5.0
    assert evaluation.collapse_metrics(line)["rankme"] == pytest.approx(1.0, abs=1e-6)
    scalars = {f"agent_0/{k}": v for k, v in evaluation.collapse_metrics(line).items()}
    scalars |= {f"agent_1/{k}": v for k, v in healthy.items()}
    with caplog.at_level(logging.WARNING, logger="absl"):
        assert monitors.collapsed_agents(scalars) == ["agent_0"]
    assert "COLLAPSE of agent_0" in caplog.text and "agent_1" not in caplog.text


def test_scalars_cover_agents_pairs_and_splits(experiment, dataset):
    found = evaluation.scalars(experiment, dataset, _worlds(dataset, 1.0, 1.0, 0.1))
    assert {"agent_2/rankme", "pair_0_1/instance/r2", "pair_0_2/state/r2"} <= found.keys()
    assert all(np.isfinite(value) for value in found.values())


def test_a_data_set_without_held_out_objects_has_one_split(dataset):
    none = dataclasses.replace(dataset, split_instance=np.zeros_like(dataset.split_instance))
    assert [split.name for split in evaluation.splits(none)] == ["state"]


def test_evaluations_are_compared_by_one_number():
    found = {"agent_0/rankme": 3.0, "agent_1/rankme": 5.0, "agent_0/feature_std": 9.0,
             "pair_0_1/instance/r2": 0.2, "pair_0_1/state/r2": 0.9,
             "pair_0_2/instance/r2": 0.4, "pair_0_2/state/r2": 0.8}  # fmt: skip
    assert evaluation.best_metric("rankme", found) == 4.0
    assert evaluation.best_metric("r2", found) == pytest.approx(0.3)
