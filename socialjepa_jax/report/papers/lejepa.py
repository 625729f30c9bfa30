"""Ablations of "LeJEPA" (arXiv:2511.08544), as data: top-1 accuracies in percent."""

from functools import partial

from socialjepa_jax.report.papers.table import PaperTable

_table = partial(PaperTable, "LeJEPA")

QUADRATURE = _table(
    1,
    "(a) integration domain and slices against knots on the full line; ViT-L/14, ImageNet-1k",
    ("5", "17", "41"),
    {
        "[-1, 1] 512": (71.82, 72.13, 72.04),
        "[-1, 1] 2048": (72.88, 72.30, 72.69),
        "[-3, 3] 512": (73.95, 74.16, 74.04),
        "[-3, 3] 2048": (75.02, 74.68, 74.77),
        "[-5, 5] 512": (73.71, 74.21, 74.15),
        "[-5, 5] 2048": (74.50, 74.80, 74.77),
    },
)
VIEWS = _table(
    1,
    "(b) number of views against number of global views",
    ("1", "2", "4"),
    {
        "4": (53.06, 72.26, None),
        "6": (58.65, 73.07, 73.68),
        "8": (64.46, 74.24, 73.94),
        "10": (68.97, 74.06, 75.08),
    },
)
BATCH_SIZE = _table(
    1,
    "(c) mini-batch size",
    ("128", "256", "512", "1024"),
    {"LeJEPA": (72.20, 74.15, 74.72, 74.07)},
)
PROJECTOR = _table(
    1,
    "(d) projection dimension against slices and embedding dimension",
    ("1024 slices, 512", "1024 slices, 2048", "4096 slices, 512", "4096 slices, 2048"),
    {
        "64": (75.29, 75.32, 75.50, 75.65),
        "128": (74.77, 75.09, 75.26, 75.47),
        "256": (74.56, 74.66, 75.08, 75.02),
        "512": (73.94, 74.11, 74.81, 74.65),
        "1024": (73.65, 73.94, 74.71, 74.79),
    },
)
REGISTERS = _table(
    1,
    "(e) register tokens",
    ("0", "1", "2", "4", "8"),
    {
        "1024": (75.14, 75.18, 75.08, 75.34, 75.23),
        "4096": (75.61, 75.58, 75.67, 75.63, 75.84),
    },
)
HEADS = _table(
    4,
    "predictor, weight averaging and projector layers; ImageNet-100, 400 epochs",
    ("resnet50 1", "resnet50 2", "resnet50 3", "vit_small 1", "vit_small 2", "vit_small 3",
     "vit_tiny 1", "vit_tiny 2", "vit_tiny 3"),
    {
        "plain": (79.71, 82.44, 83.93, 76.59, 80.77, 81.07, 71.79, 76.87, 80.37),
        "swa": (79.79, 82.69, 83.50, 79.96, 83.63, 84.12, 75.86, 82.36, 80.50),
        "predictor": (79.41, 82.44, 83.57, 77.58, 79.41, 81.91, 67.74, 77.64, 80.73),
        "predictor, swa": (78.87, 82.04, 82.82, 77.11, 81.77, 82.58, 69.53, 78.27, 79.77),
    },
)  # fmt: skip
LAMBDA_VIEWS = _table(
    7,
    "lambda against the number of views (figure 8); ResNet-50, ImageNet-100",
    ("0.001", "0.005", "0.01", "0.02", "0.025", "0.05", "0.1", "0.15", "0.2", "0.3", "0.4", "0.5"),
    {
        "2": (81.41, 82.73, 83.49, 82.99, 82.23) + (None,) * 7,
        "4": (79.88, 83.04, 84.36, 84.68, 84.33, 83.00, 82.91, 81.05, 78.58, None, None, None),
        "8": (76.67, 81.58, 83.59, 83.49, 83.76, 84.32, 83.66, 83.07, 82.16, 81.00, 79.25, 77.72),
    },
)
"""Cells are empty at large lambdas with few views."""

SPEARMAN_PLAIN = 0.85
"""Section 6.2: rank correlation of training loss and downstream accuracy, "about 85 %"."""

SPEARMAN_SCALED, BEST_ALPHA = 0.99, 0.4
"""Section 6.2, equation (8): the same for train_loss / lambda^alpha, "nearly 99 %"."""

DEFAULT_LAMBDA = 0.05
"""Section 6.1, "a robust default"."""
