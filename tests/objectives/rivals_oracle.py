"""Losses of the rivals in float64 NumPy, written from their papers, with gradients by differences.

Shape key: as in `socialjepa_jax.objectives.shared.crossentropy`.
"""

import numpy as np


def u(n, d, s):
    """Inputs of the golden values: sin(s + .9 i + 1.7 j + .31 i j)."""
    i, j = np.arange(n)[:, None], np.arange(d)[None]
    return np.sin(s + 0.9 * i + 1.7 * j + 0.31 * i * j)


def stack(n, d, *shifts):
    return np.stack([u(n, d, s) for s in shifts])


def l2(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def softmax(x):
    return np.exp(log_softmax(x))


def gradient(function, x, step=1e-6):
    """Central differences of a scalar function at float64 x."""
    slopes = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        ends = [x.copy(), x.copy()]
        ends[0][place] += step
        ends[1][place] -= step
        slopes[place] = (function(ends[0]) - function(ends[1])) / (2 * step)
    return slopes


def nt_xent(z1, z2, temperature, candidates=None):
    """Mean over anchors; `candidates` take the place of the projections as candidates."""
    anchors = l2(np.concatenate([z1, z2]))
    others = anchors if candidates is None else l2(np.concatenate(candidates))
    n, losses = len(z1), []
    for i, anchor in enumerate(anchors):
        similarities = np.exp(others @ anchor / temperature)
        partner = similarities[(i + n) % (2 * n)]
        losses.append(-np.log(partner / (similarities.sum() - similarities[i])))
    return np.mean(losses)


def contrast(q, k, temperature):
    log_p = log_softmax(l2(q) @ l2(k).T / temperature)
    return -2 * temperature * np.mean(np.diag(log_p))


def cross_correlation(z1, z2, eps):
    u1, u2 = ((z - z.mean(0)) / np.sqrt(z.var(0) + eps) for z in (z1, z2))
    return u1.T @ u2 / len(z1)


def cross_correlation_loss(z1, z2, off_diagonal=0.0051, eps=1e-5):
    c = cross_correlation(z1, z2, eps)
    on = np.square(np.diag(c) - 1).sum()
    return on + off_diagonal * (np.square(c).sum() - np.square(np.diag(c)).sum())


def sinkhorn(scores, eps, rounds=3):
    q = np.exp(scores / eps).T
    prototypes, samples = q.shape
    q /= q.sum()
    for _ in range(rounds):
        q /= q.sum(1, keepdims=True) * prototypes
        q /= q.sum(0, keepdims=True) * samples
    return (q * samples).T


def assignments(z_VBD, prototypes, assign, eps, queue=None):
    targets = []
    for number, crop in enumerate(assign):
        scores = l2(z_VBD[crop]) @ prototypes.T
        if queue is not None:
            scores = np.concatenate([queue[number] @ prototypes.T, scores])
        targets.append(sinkhorn(scores, eps)[-z_VBD.shape[1] :])
    return targets


def swap_loss(z_VBD, prototypes, targets, assign, temperature):
    log_p = log_softmax(l2(z_VBD) @ prototypes.T / temperature)
    return between_crops(targets, log_p, assign)


def between_crops(targets, log_p, own):
    pairs = [
        -(target * log_p[v]).sum(-1).mean()
        for target, crop in zip(targets, own)
        for v in range(len(log_p))
        if v != crop
    ]
    return np.mean(pairs)


def cross_view_loss(student, teacher, centre, teacher_temperature, student_temperature=0.1):
    targets = softmax((teacher - centre) / teacher_temperature)
    return between_crops(targets, log_softmax(student / student_temperature), range(len(teacher)))


def masked_loss(student, targets, mask, student_temperature=0.1):
    """Crop by crop and image by image."""
    log_p, losses = log_softmax(student / student_temperature), []
    for crop in range(len(mask)):
        for image in range(len(mask[0])):
            (masked,) = np.nonzero(mask[crop, image])
            cross = [-(targets[crop, image, p] * log_p[crop, image, p]).sum() for p in masked]
            losses.append(sum(cross) / max(1, len(masked)))
    return np.mean(losses)


def koleo(z, eps=1e-8):
    x, losses = l2(z), []
    for i in range(len(x)):
        others = [j for j in range(len(x)) if j != i]
        nearest = max(others, key=lambda j: x[i] @ x[j])
        losses.append(-np.log(np.linalg.norm(x[i] - x[nearest] + eps) + eps))
    return np.mean(losses)
