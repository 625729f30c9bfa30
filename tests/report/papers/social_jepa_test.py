"""The tables agree with each other and with the text of the paper, save where noted."""

import math

import numpy as np
import pytest

from socialjepa_jax.report.papers.social_jepa import SMALLNORB, SOCIAL_JEPA

METRICS = ("mse", "r2", "dsc", "nos@10")
BETTER = {"mse": min, "r2": max, "dsc": max, "nos@10": min, "kappa": min}


def row(table, name, columns=METRICS):
    return [SOCIAL_JEPA[table].value(name, column) for column in columns]


def column(table, name):
    return [SOCIAL_JEPA[table].value(row, name) for row in SOCIAL_JEPA[table].rows]


def test_tables_are_complete_and_rectangular():
    sizes = {n: (len(t.rows), len(t.columns)) for n, t in SOCIAL_JEPA.items()}
    assert sizes == {
        1: (11, 4), 2: (12, 4), 3: (3, 4), 4: (3, 5), 5: (2, 4),
        6: (2, 4), 7: (4, 8), 8: (4, 5), 9: (9, 4), 10: (9, 4),
    }  # fmt: skip
    for table in SOCIAL_JEPA.values():
        assert all(len(values) == len(table.columns) for values in table.rows.values())


def test_numbers_are_plausible_metrics():
    for table in SOCIAL_JEPA.values():
        for name in table.rows:
            for key, value in table.row(name).items():
                if key in ("r2", "dsc") or key.startswith("nos"):
                    assert 0 <= value <= 1
                if isinstance(value, float):
                    assert math.isfinite(value)


@pytest.mark.parametrize(
    "places",
    [
        [
            (1, "smallNORB (Viewpoint 0° vs 160°)"), (1, "Social-JEPA (Ours)"),
            (1, "Normal Environment (Structured)"), (2, "smallNORB / Social-JEPA"), (4, "0.0"),
            (5, "In-domain"), (7, SMALLNORB),
        ],
        [(1, "nuScenes (Front vs Rear)"), (7, "nuScenes (Front vs Rear)")],
        [(1, "nuScenes (Front vs Side)"), (7, "nuScenes (Front vs Side)")],
        [(1, "ImageNet (Data Augmentation)"), (7, "ImageNet-1k (Aug. views)")],
        [(1, "MAE (Reconstructive)"), (2, "smallNORB / MAE")],
        [(1, "SimCLR (Contrastive)"), (2, "smallNORB / SimCLR")],
        [(2, "ImageNet-1k / Social-JEPA"), (10, "Social-JEPA (I-JEPA)")],
        *(
            [(2, f"ImageNet-1k / {name}"), (10, name)]
            for name in ("DINO", "MoCo v3", "iBOT", "MAE", "SimCLR")
        ),
    ],
)  # fmt: skip
def test_a_result_is_the_same_in_every_table(places):
    printed = np.array([row(*place) for place in places])
    np.testing.assert_allclose(printed, np.broadcast_to(printed[0], printed.shape), atol=5.1e-4)


def test_imagenet_differs_between_tables_1_and_2():
    assert row(1, "ImageNet (Data Augmentation)")[1] - row(2, "ImageNet-1k / Social-JEPA")[1] > 0.3


def test_dino_and_ibot_share_all_numbers_on_imagenet():
    assert row(2, "ImageNet-1k / DINO") == row(2, "ImageNet-1k / iBOT")


def test_nos_at_10_is_the_same_in_tables_7_and_8_and_nos_grows_with_k():
    assert SOCIAL_JEPA[7].rows.keys() == SOCIAL_JEPA[8].rows.keys()
    assert column(7, "nos@10") == column(8, "nos@10")
    assert all(list(values) == sorted(values) for values in SOCIAL_JEPA[8].rows.values())


@pytest.mark.parametrize(
    ("table", "names"),
    [
        (1, ["Social-JEPA (Ours)", "MAE (Reconstructive)", "SimCLR (Contrastive)",
             "AutoEncoder (Pixel-level)"]),
        (1, ["Normal Environment (Structured)", "Patch Shuffle (Spatial Broken)",
             "Pixel Shuffle (Total Destruction)"]),
        (4, ["0.0", "0.1", "0.3"]),
        (5, ["In-domain", "Shifted"]),
        (6, ["ViT-S/16 ↔ ViT-B/16", "ViT-S/16 ↔ ViT-L/16"]),
    ],
)  # fmt: skip
def test_every_metric_gets_worse_down_the_rows(table, names):
    for key in SOCIAL_JEPA[table].columns:
        values = [SOCIAL_JEPA[table].value(name, key) for name in names]
        assert values == sorted(values, reverse=BETTER[key] is max) and len(set(values)) > 1


def test_the_best_objectives_are_those_of_the_text():
    imagenet = {n: r for n, r in SOCIAL_JEPA[2].rows.items() if n.startswith("ImageNet")}
    norb = {n: r for n, r in SOCIAL_JEPA[2].rows.items() if n.startswith("smallNORB")}

    def best(rows, key):
        index = METRICS.index(key)
        return BETTER[key](rows, key=lambda name: rows[name][index]).partition(" / ")[2]

    assert [best(imagenet, k) for k in METRICS] == ["Social-JEPA"] * 3 + ["MAE"]
    assert [best(norb, k) for k in METRICS] == ["Social-JEPA", "MoCo v3", "MoCo v3", "DINO"]


def test_mse_follows_neither_reading_of_equation_6():
    ratios = [m / (1 - r) for m, r in zip(column(1, "mse"), column(1, "r2"))]
    assert 0.32 < min(ratios) < 0.33 and 0.62 < max(ratios) < 0.63


def test_standard_deviations_are_small():
    for key in METRICS:
        assert np.all(np.array(column(7, f"{key}_std")) < 0.1 * np.array(column(7, key)))


def test_an_epoch_of_collaboration_costs_at_least_one_of_the_baseline():
    accuracy, epochs, flops = (
        {name: SOCIAL_JEPA[9].row(name)[key] for name in SOCIAL_JEPA[9].rows}
        for key in ("accuracy_percent", "epochs", "relative_flops")
    )
    alone, *migration = "Student from Scratch", "Knowledge Distillation", "Latent Alignment (Ours)"
    baseline, *mutual = (
        "Independent JEPA", "Method A: Alternating Alignment", "Method B: Cross-Model Loss"
    )  # fmt: skip
    for base, others in ((alone, migration), (baseline, mutual)):
        assert flops[base] == 1
        for name in others:
            assert flops[name] / (epochs[name] / epochs[base]) > 1
            assert epochs[name] < epochs[base] and accuracy[name] > accuracy[base]
    assert flops["Latent Alignment (Ours)"] == pytest.approx(0.28)  # the abstract's number
    assert min(list(accuracy.values())[:6]) > 85  # the threshold that epochs are counted to


def test_probe_sharing_needs_no_epochs_and_gains_two_points():
    own, shared = "Source Probe (A-probe)", "Zero-Cost Sharing (Ours)"
    gain = np.subtract(*(SOCIAL_JEPA[9].value(n, "accuracy_percent") for n in (shared, own)))
    assert gain == pytest.approx(2.11)
    assert SOCIAL_JEPA[9].value(shared, "epochs") == SOCIAL_JEPA[9].value(own, "epochs") == 0
