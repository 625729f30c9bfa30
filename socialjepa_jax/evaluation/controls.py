"""Controls: what alignability there is without training, or without a shared world.

A high R2 between two trained latent spaces says little by itself: untrained encoders, pixels and
factors that both cameras see (lighting, elevation) also align. Each function here makes the
latents, or the pairing, of one such control; all are measured like the trained agents.

Shape key: N states, D latent dimensions, P pixels, F one-hot features.
"""

from collections.abc import Callable

import numpy as np

from socialjepa_jax.data.base import Images, ViewDataset

_BLOCK = 1024  # pictures in memory at once
_PCA_ROWS = 2000  # components are fitted on at most so many pictures, drawn at random


def pixel_pca(images: Images, train_rows: np.ndarray, dim: int) -> np.ndarray:
    """Projects pictures on the leading principal components of the training pictures.

    Args:
        images: u8[N, H, W, C].
        train_rows, dim: see `pixel_components`.

    Returns:
        f32[N, dim]; fewer columns where there are fewer training rows or pixels.
    """
    return pixel_components(images, train_rows, dim)(images)


def pixel_components(
    images: Images, train_rows: np.ndarray, dim: int
) -> Callable[[Images], np.ndarray]:
    """Fits principal components of pictures; returns the projection of any pictures on them.

    Args:
        images: u8[N, H, W, C].
        train_rows: i64[R], rows the components are fitted on (2,000 of them at random, since rows
            are sorted by factors and every other one may miss a level).
        dim: components kept; fewer where there are fewer training rows or pixels.

    Returns:
        u8[N, H, W, C] -> f32[N, dim]. The components are turned by a fixed random rotation:
        standardising each principal component would whiten them, so that R2 counts the least of
        them like the first, which it does to no encoder.
    """
    rng = np.random.default_rng(0)
    train_RP = _pixels(images[rng.permutation(train_rows)[:_PCA_ROWS]]).astype(np.float64)
    mean_P = train_RP.mean(axis=0)
    train_RP -= mean_P
    # The smaller Gram matrix holds the same spectrum.
    wide = train_RP.shape[0] <= train_RP.shape[1]
    values, vectors = np.linalg.eigh(train_RP @ train_RP.T if wide else train_RP.T @ train_RP)
    top = np.argsort(values)[::-1][:dim]
    top = top[values[top] > 1e-10 * values[top[0]]]
    basis_PD = train_RP.T @ (vectors[:, top] / np.sqrt(values[top])) if wide else vectors[:, top]
    # The sign of an eigenvector is arbitrary; the rotation would make other latents of each.
    basis_PD *= np.sign(np.take_along_axis(basis_PD, np.abs(basis_PD).argmax(0)[None], axis=0))
    rotation_DD, _ = np.linalg.qr(rng.normal(size=(len(top), len(top))))
    turned_PD, mean_P = (basis_PD @ rotation_DD).astype(np.float32), mean_P.astype(np.float32)

    def project(pictures: Images) -> np.ndarray:
        starts = range(0, len(pictures), _BLOCK)
        blocks = [(_pixels(pictures[s : s + _BLOCK]) - mean_P) @ turned_PD for s in starts]
        return np.concatenate(blocks)

    return project


def _pixels(images: Images) -> np.ndarray:
    """Reads pictures: u8[N, H, W, C] -> f32[N, P] in [0, 1]."""
    return np.asarray(images).reshape(len(images), -1).astype(np.float32) / 255.0


def random_projection(images: Images, dim: int, seed: int) -> np.ndarray:
    """Projects images on random directions.

    Args:
        images: u8[N, H, W, C].
        dim: number of directions.
        seed: of the directions.

    Returns:
        f32[N, dim].
    """
    pixels_NP = np.asarray(images).reshape(len(images), -1).astype(np.float32) / 255.0
    directions_PD = np.random.default_rng(seed).normal(size=(pixels_NP.shape[1], dim))
    return pixels_NP @ (directions_PD / np.sqrt(pixels_NP.shape[1])).astype(np.float32)


def pixel_readout(
    images: Images, states_NL: np.ndarray, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Predicts states from all pixels by ridge regression; its strength is chosen by GCV.

    Generalised cross-validation (Golub, Heath and Wahba, 1979) in the eigenbasis of the Gram
    matrix of the training images.

    Args:
        images: u8[N, H, W, C].
        states_NL: targets.
        train, test: i64 rows.

    Returns:
        f64[test rows, L].
    """
    pixels_NP = np.asarray(images).reshape(len(images), -1) / 255.0
    x_RP, x_TP = pixels_NP[train], pixels_NP[test]
    x_mean, s_mean = x_RP.mean(0), states_NL[train].mean(0)
    x_RP, x_TP = x_RP - x_mean, x_TP - x_mean
    values_R, vectors_RR = np.linalg.eigh(x_RP @ x_RP.T)
    values_R = np.maximum(values_R, 0.0)
    target_RL = vectors_RR.T @ (states_NL[train] - s_mean)

    def gcv(ridge: float) -> float:
        left_R = ridge / (values_R + ridge)
        freedom = left_R.sum() - 1.0  # the constant, whose eigenvalue is 0, is fitted too
        return float(np.square(left_R[:, None] * target_RL).sum() / freedom**2)

    ridge = min(values_R.max() * np.logspace(-8, 0, 33), key=gcv)
    dual_RL = vectors_RR @ (target_RL / (values_R + ridge)[:, None])
    return x_TP @ (x_RP.T @ dual_RL) + s_mean


def one_hot(levels: np.ndarray) -> np.ndarray:
    """Indicator columns of integer levels: [N] -> f64[N, number of levels]."""
    _, index = np.unique(levels, return_inverse=True)
    return np.eye(index.max() + 1)[index]


def shared_factors(dataset: ViewDataset, names: tuple[str, ...]) -> np.ndarray:
    """Indicators of what both cameras share by construction: each factor, and their joint cell.

    Returns:
        f64[N, F].
    """
    single = [one_hot(dataset.factor(name)) for name in names]
    return np.concatenate([*single, one_hot(dataset.cells(names))], axis=1)


def shared_factor_names(dataset: ViewDataset) -> tuple[str, ...]:
    """All factors but the object's own identity."""
    return tuple(name for name in dataset.factor_names if name != "instance")


def shares_factors(dataset: ViewDataset) -> bool:
    """True if a shared factor varies: without one, cells and residuals say nothing of their own."""
    return any(np.ptp(dataset.factor(name)) for name in shared_factor_names(dataset))


def partial_out(
    z_ND: np.ndarray, features_NF: np.ndarray, train_rows: np.ndarray, ridge: float
) -> np.ndarray:
    """Residual of latents after a ridge regression on features, fitted on the training rows.

    Args:
        z_ND: latents.
        features_NF: what is regressed out.
        train_rows: i64[R].
        ridge: in samples a feature. 1 shrinks the means of cells that hold few samples, for the
            best prediction; what it leaves behind it leaves in both agents' residuals, so it must
            be next to 0 where residuals are to share nothing through the features.

    Returns:
        f32[N, D].
    """
    x_RF, z_RD = features_NF[train_rows], z_ND[train_rows].astype(np.float64)
    x_mean, z_mean = x_RF.mean(axis=0), z_RD.mean(axis=0)
    x_RF = x_RF - x_mean
    gram = x_RF.T @ x_RF + ridge * np.eye(x_RF.shape[1])
    weight = np.linalg.solve(gram, x_RF.T @ (z_RD - z_mean))
    return (z_ND - z_mean - (features_NF - x_mean) @ weight).astype(np.float32)


def shuffled_within(
    cells: np.ndarray, parts: tuple[np.ndarray, ...], rng: np.random.Generator
) -> np.ndarray:
    """A pairing that is wrong on purpose: row n is paired with another row of its cell.

    A row that is alone in its cell keeps its partner.

    Args:
        cells: i64[N]; rows move only within equal values (all zeros: anywhere).
        parts: the training rows and the test rows; no row moves from one to the other.
        rng: the shuffle.

    Returns:
        i64[N], a permutation.
    """
    pairing = np.arange(len(cells))
    for rows in parts:
        for cell in np.unique(cells[rows]):
            members = rows[cells[rows] == cell]
            # A random cycle: everyone moves, where there is anyone to move with.
            order = rng.permutation(members)
            pairing[order] = np.roll(order, 1)
    return pairing
