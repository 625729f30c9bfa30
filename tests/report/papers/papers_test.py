import math

import pytest

from socialjepa_jax.report.papers import social_jepa


@pytest.mark.parametrize(
    ("table", "row", "column", "printed"),
    [
        (1, "Social-JEPA (Ours)", "r2", 0.8908),
        (1, "Pixel Shuffle (Total Destruction)", "nos@10", 0.86),
        (2, "ImageNet-1k / MoCo v3", "mse", 54.343),
        (2, "smallNORB / DINO", "nos@10", 0.046),
        (3, "ImageNet-1k", "learning_rate", 1.5e-4),
        (4, "0.3", "kappa", 138.42),
        (5, "Shifted", "dsc", 0.813),
        (6, "ViT-S/16 ↔ ViT-L/16", "r2", 0.742),
        (7, social_jepa.SMALLNORB, "nos@10_std", 0.008),
        (7, "nuScenes (Front vs Side)", "dsc_std", 0.009),
        (8, social_jepa.SMALLNORB, "nos@50", 0.441),
        (9, "Zero-Cost Sharing (Ours)", "accuracy_percent", 51.70),
        (9, "Latent Alignment (Ours)", "relative_flops", 0.28),
        (10, "DINOv2", "dsc", 0.542),
    ],
)
def test_values_are_those_printed(table, row, column, printed):
    assert social_jepa.SOCIAL_JEPA[table].value(row, column) == printed


def test_tables_are_complete_and_rectangular():
    sizes = {n: (len(t.rows), len(t.columns)) for n, t in social_jepa.SOCIAL_JEPA.items()}
    assert sizes == {
        1: (11, 4), 2: (12, 4), 3: (3, 4), 4: (3, 5), 5: (2, 4),
        6: (2, 4), 7: (4, 8), 8: (4, 5), 9: (9, 4), 10: (9, 4),
    }  # fmt: skip
    for table in social_jepa.SOCIAL_JEPA.values():
        assert all(len(values) == len(table.columns) for values in table.rows.values())


def test_numbers_are_plausible_metrics():
    for table in social_jepa.SOCIAL_JEPA.values():
        for row in table.rows:
            for column, value in table.row(row).items():
                if column in ("r2", "dsc") or column.startswith("nos"):
                    assert 0 <= value <= 1
                if isinstance(value, float):
                    assert math.isfinite(value)


def test_a_text_cell_is_not_a_number():
    with pytest.raises(KeyError, match="Plug-and-Play"):
        social_jepa.SOCIAL_JEPA[9].value("Zero-Cost Sharing (Ours)", "migration_cost")
