"""Tables 1 to 10 of "Social-JEPA", as data.

Metrics carry the names of `alignment.evaluate`, so that a printed row can stand beside a measured
one. Values are copied as printed, also where they contradict each other: Tables 1 and 2 give
different numbers for ImageNet.

The printed `mse` fits neither reading of equation (6): on standardised latents MSE / (1 - R2) is 1
(mean over features) or 384 (sum), and lies between 0.32 and 0.63 in Table 1. It cannot be compared
with the `mse` of `alignment.evaluate`.
"""

from collections.abc import Mapping
from functools import partial

from socialjepa_jax.report.papers.table import PaperTable

SMALLNORB = "smallNORB (0° vs 160°)"  # the row of Tables 7 and 8 for two cameras

_table = partial(PaperTable, "Social-JEPA")
_METRICS = ("mse", "r2", "dsc", "nos@10")
_METRICS_AND_STD = ("mse", "mse_std", "r2", "r2_std", "dsc", "dsc_std", "nos@10", "nos@10_std")
_JEPA_NORB = (0.036, 0.8908, 0.872, 0.27)

_TABLES = (
    _table(
        1,
        "Latent isomorphism across views and data sets, learning paradigms, broken structure",
        _METRICS,
        {
            "ImageNet (Data Augmentation)": (0.041, 0.873, 0.846, 0.31),
            "smallNORB (Viewpoint 0° vs 160°)": (0.036, 0.891, 0.872, 0.27),
            "nuScenes (Front vs Rear)": (0.058, 0.852, 0.821, 0.34),
            "nuScenes (Front vs Side)": (0.062, 0.838, 0.804, 0.36),
            "Social-JEPA (Ours)": _JEPA_NORB,
            "MAE (Reconstructive)": (0.041, 0.8823, 0.845, 0.31),
            "SimCLR (Contrastive)": (0.112, 0.6778, 0.641, 0.52),
            "AutoEncoder (Pixel-level)": (0.138, 0.6109, 0.593, 0.58),
            "Normal Environment (Structured)": _JEPA_NORB,
            "Patch Shuffle (Spatial Broken)": (0.162, 0.7200, 0.540, 0.69),
            "Pixel Shuffle (Total Destruction)": (0.241, 0.6158, 0.280, 0.86),
        },
    ),
    _table(
        2,
        "Metrics across learning paradigms on ImageNet-1k and smallNORB",
        _METRICS,
        {
            "ImageNet-1k / Social-JEPA": (0.091, 0.489, 0.584, 0.033),
            "ImageNet-1k / DINO": (0.662, 0.283, 0.391, 0.102),
            "ImageNet-1k / MoCo v3": (54.343, 0.358, 0.521, 0.086),
            "ImageNet-1k / iBOT": (0.662, 0.283, 0.391, 0.102),
            "ImageNet-1k / MAE": (10.023, 0.409, 0.450, 0.028),
            "ImageNet-1k / SimCLR": (13.474, 0.437, 0.558, 0.072),
            "smallNORB / Social-JEPA": _JEPA_NORB,
            "smallNORB / DINO": (93.641, 0.811, 0.913, 0.046),
            "smallNORB / MoCo v3": (0.478, 0.987, 0.994, 0.125),
            "smallNORB / iBOT": (24.433, 0.851, 0.916, 0.130),
            "smallNORB / MAE": (0.041, 0.8823, 0.845, 0.31),
            "smallNORB / SimCLR": (0.112, 0.6778, 0.641, 0.52),
        },
    ),
    _table(
        3,
        "Training hyper-parameters",
        ("epochs", "batch_size", "learning_rate", "weight_decay"),
        {
            "smallNORB": (200, 256, 3e-4, 0.05),
            "nuScenes": (200, 256, 3e-4, 0.05),
            "ImageNet-1k": (300, 1024, 1.5e-4, 0.05),
        },
    ),
    _table(
        4,
        "Pair-noise stress test: metrics against the share of mismatched pairs",
        (*_METRICS, "kappa"),
        {
            "0.0": (0.036, 0.891, 0.872, 0.270, 1.68),
            "0.1": (0.078, 0.814, 0.736, 0.413, 14.3750),
            "0.3": (0.146, 0.692, 0.528, 0.637, 138.42),
        },
    ),
    _table(
        5,
        "Distribution shift: fit in-domain, evaluate in-domain and shifted",
        _METRICS,
        {"In-domain": (0.036, 0.891, 0.872, 0.270), "Shifted": (0.054, 0.844, 0.813, 0.331)},
    ),
    _table(
        6,
        "Heterogeneous capacity (marked as an example template in the paper)",
        _METRICS,
        {
            "ViT-S/16 ↔ ViT-B/16": (0.072, 0.814, 0.785, 0.421),
            "ViT-S/16 ↔ ViT-L/16": (0.115, 0.742, 0.693, 0.548),
        },
    ),
    _table(
        7,
        "Seed robustness: mean and standard deviation over at least three runs",
        _METRICS_AND_STD,
        {
            SMALLNORB: (0.036, 0.002, 0.891, 0.004, 0.872, 0.003, 0.270, 0.008),
            "nuScenes (Front vs Rear)": (0.058, 0.004, 0.852, 0.006, 0.821, 0.005, 0.340, 0.011),
            "nuScenes (Front vs Side)": (0.062, 0.005, 0.838, 0.007, 0.804, 0.009, 0.360, 0.014),
            "ImageNet-1k (Aug. views)": (0.041, 0.003, 0.873, 0.005, 0.846, 0.007, 0.310, 0.010),
        },
    ),
    _table(
        8,
        "Neighbourhood disagreement NOS@k across k",
        ("nos@1", "nos@5", "nos@10", "nos@20", "nos@50"),
        {
            SMALLNORB: (0.124, 0.198, 0.270, 0.352, 0.441),
            "nuScenes (Front vs Rear)": (0.182, 0.265, 0.340, 0.418, 0.512),
            "nuScenes (Front vs Side)": (0.195, 0.281, 0.360, 0.437, 0.529),
            "ImageNet-1k (Aug. views)": (0.151, 0.232, 0.310, 0.386, 0.473),
        },
    ),
    _table(
        9,
        "Collaboration: migration, mutual teaching, probe sharing",
        ("accuracy_percent", "epochs", "relative_flops", "migration_cost"),
        {
            "Student from Scratch": (85.2, 150, 1.00, "N/A"),
            "Knowledge Distillation": (86.1, 90, 0.62, "Active Update"),
            "Latent Alignment (Ours)": (87.4, 35, 0.28, "Alternating Opt."),
            "Independent JEPA": (86.2, 120, 1.00, "N/A"),
            "Method A: Alternating Alignment": (87.1, 80, 1.05, "Weak Coupling"),
            "Method B: Cross-Model Loss": (88.0, 55, 1.12, "Strong Coupling"),
            "Source Probe (A-probe)": (49.59, 0, 0.0, "N/A"),
            "Traditional KD Baseline": (50.63, 50, "Active Training", "High"),
            "Zero-Cost Sharing (Ours)": (51.70, 0, 0.0, "Plug-and-Play"),
        },
    ),
    _table(
        10,
        "Expanded ImageNet-1k baselines",
        _METRICS,
        {
            "Social-JEPA (I-JEPA)": (0.091, 0.489, 0.584, 0.033),
            "DINO": (0.662, 0.283, 0.391, 0.102),
            "MoCo v3": (54.343, 0.358, 0.521, 0.086),
            "iBOT": (0.662, 0.283, 0.391, 0.102),
            "MAE": (10.023, 0.409, 0.450, 0.028),
            "SimCLR": (13.474, 0.437, 0.558, 0.072),
            "SwAV": (0.745, 0.312, 0.428, 0.094),
            "Barlow Twins": (1.256, 0.452, 0.561, 0.058),
            "DINOv2": (0.512, 0.441, 0.542, 0.045),
        },
    ),
)

SOCIAL_JEPA: Mapping[int, PaperTable] = {table.number: table for table in _TABLES}
