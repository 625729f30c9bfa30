"""Maps that are fitted in one condition and tested in others, on planted latents."""

import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from configs import toys_ijepa
from socialjepa_jax import evaluation
from socialjepa_jax.config import from_config_dict
from socialjepa_jax.data import ObservationTable, Protocol, Splits, pair_views
from socialjepa_jax.evaluation import shift

DIM = 4


@pytest.fixture(scope="module")
def dataset():
    """Day, night and fog (one object), 12 objects of 6 lightings, two cameras."""
    grid = [(c, i, a, g) for c, count in enumerate((12, 12, 1)) for i in range(count)
            for a in (0, 160) for g in range(2 if c == 2 else 6)]  # fmt: skip
    images = np.random.default_rng(0).integers(0, 256, (len(grid), 2, 2, 1), np.uint8)
    names = ("category", "instance", "azimuth", "lighting")
    table = ObservationTable(images, np.array(grid), names, ("day", "night", "fog"))
    found = pair_views(table, Protocol(), Splits(test_instances=0, test_states=0.5), "drive")
    return dataclasses.replace(found, domain="day")


@pytest.fixture(scope="module")
def latents(dataset):
    """By day y = x + noise, at night half of y's features are others."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(dataset.num_states, DIM))
    y = x + 0.3 * rng.normal(size=x.shape)
    night = dataset.labels > 0
    y[night, : DIM // 2] = rng.normal(size=(night.sum(), DIM // 2))
    return np.stack([x, y]).astype(np.float32)


def test_the_map_of_the_domain_in_it_and_out_of_it(dataset, latents, caplog):
    how = from_config_dict(toys_ijepa.get_config()).alignment
    (split,) = evaluation.splits(dataset)
    found = shift.table5_shift(how, dataset, split, *latents)
    assert list(found) == ["day to day", "day to night"]
    assert "day to fog" in caplog.text and "are too few" in caplog.text
    x, y = latents.astype(np.float64)
    fitted = np.flatnonzero((dataset.split_state == 0) & (dataset.labels == 0))
    scale = x[fitted].std(0), y[fitted].std(0)
    model = Ridge(how.ridge).fit(x[fitted] / scale[0], y[fitted] / scale[1])
    for label, name in enumerate(found):
        tested = np.flatnonzero((dataset.split_state == 1) & (dataset.labels == label))
        expected = r2_score(
            y[tested] / scale[1],
            model.predict(x[tested] / scale[0]),
            multioutput="variance_weighted",
        )
        assert found[name]["r2"] == pytest.approx(expected, abs=1e-4)
        assert (found[name]["n_train"], found[name]["n_test"]) == (len(fitted), len(tested))
    assert found["day to day"]["r2"] > 0.8 > 0.5 > found["day to night"]["r2"]


def test_rows_of_a_shift_stand_beside_their_controls(dataset, latents):
    experiment = from_config_dict(toys_ijepa.get_config())
    agents = dataclasses.replace(experiment.agents, cameras=(0, 1), seeds=(0, 1))
    experiment = dataclasses.replace(experiment, agents=agents)
    fresh = np.random.default_rng(2).normal(size=latents.shape).astype(np.float32)
    untrained = evaluation.Untrained(fresh, fresh)
    rows = evaluation.alignment_rows(experiment, dataset, latents, untrained)
    names = {row["row"] for row in rows if row["split"] == "day to night"}
    assert names == {"trained", "untrained", "pixel_pca", "mismatched"}
    assert {row["split"] for row in rows} == {"state", "day to day", "day to night"}
    without = dataclasses.replace(dataset, domain="")
    rows = evaluation.alignment_rows(experiment, without, latents, untrained)
    assert {row["split"] for row in rows} == {"state"}
