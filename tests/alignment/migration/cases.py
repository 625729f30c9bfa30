"""Cases of migrations: words with one typing error, and two that storage or units spoil."""

import pathlib

import numpy as np

GOLDEN = pathlib.Path(__file__).parents[2] / "golden"


def words():
    """Documents and queries of two word encoders, and the row of the word that each query means."""
    with np.load(GOLDEN / "words.npz") as file:
        names = "old_docs", "new_docs", "old_queries", "new_queries"
        arrays = [file[name].astype(np.float64) for name in names]
        return *arrays, file["query_document"].astype(np.int64)


def units():
    """A few large features of y can be told from x, many small ones cannot."""
    r = np.random.default_rng(0)
    z = r.normal(size=(3000, 64))
    scale = np.r_[np.full(32, 1.0), np.full(96, 0.02)]
    y = np.c_[z[:, :32], r.normal(size=(3000, 96))] * scale
    return z.astype(np.float32), y.astype(np.float32)


def dead_feature():
    """A feature of x that hardly varies, as those of all-MiniLM-L6-v2."""
    r = np.random.default_rng(0)
    z = r.normal(size=(3000, 64))
    x = z @ r.normal(size=(64, 64)) / 180
    x[:, 5] = -8.7e-8 + 4e-9 * z[:, 5]
    y = np.tanh(z @ r.normal(size=(64, 64)) / 8) / 18
    return x.astype(np.float32), y.astype(np.float32)


def unit(z):
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def recall(queries, index, answers):
    """Share of queries whose answer has the largest cosine."""
    return np.mean((unit(queries) @ unit(index).T).argmax(axis=1) == answers)


def ridge(x, y, strength):
    """Ridge regression of standardised y on standardised x: a function of raw x."""
    means, scales = (x.mean(0), y.mean(0)), (x.std(0), y.std(0))
    a, b = ((z - m) / s for z, m, s in zip((x, y), means, scales))
    weight = np.linalg.solve(a.T @ a + strength * np.eye(a.shape[1]), a.T @ b)
    return lambda raw: (raw - means[0]) / scales[0] @ weight * scales[1] + means[1]
