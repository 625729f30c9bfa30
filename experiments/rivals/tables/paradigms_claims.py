"""The predictions of `paradigms`, judged on its rows."""

import numpy as np

from experiments.findings import Claim, Rows
from experiments.rivals.methods import PIXELS
from experiments.rivals.tables import measures
from experiments.rivals.tables.entrants import RIVALS
from experiments.rivals.tables.reading import at_equal_work, gain, mean, row_of, spearman
from socialjepa_jax.records import RowName

PUBLISHED = "published"  # row of the agents with the published settings
ABOVE = ("simclr", "moco", "vicreg", "lejepa")
BELOW = ("ijepa", "mae", "autoencoder")
PAPER = ("ijepa", "mae", "simclr", "autoencoder")  # by the R2 of its table 1


def claims(rows: Rows) -> list[Claim]:
    """The paper's order and the predictions of the module's head."""
    r2 = {name: mean(rows, name, "r2") for name in RIVALS}
    area = {name: mean(rows, name, "area") for name in RIVALS}
    rankme = {name: mean(rows, name, "rankme") for name in RIVALS}
    listed = ", ".join(f"{name} {r2[name]:.3f}" for name in PAPER)
    order = -float(np.max(np.diff([r2[name] for name in PAPER])))
    moco = measures.interval(row_of(rows, "moco")["r2"], row_of(rows, "ijepa")["r2"])
    rank, split = spearman(r2, rankme), min(area[a] for a in ABOVE) - max(area[b] for b in BELOW)
    gains = {name: gain(rows, name, "area") for name in RIVALS}
    least = min(gains, key=lambda name: gains[name].low)
    directions = {name: mean(rows, name, "dimensions") for name in RIVALS}
    most = max(directions, key=directions.__getitem__)
    pixels = mean(rows, PIXELS, "dimensions", RowName.PIXEL_PCA)
    beyond = gain(rows, "ijepa", "r2_beyond")
    carried = {name: mean(rows, name, "probe_transferred") for name in RIVALS}
    best = max(carried, key=carried.__getitem__)
    work = {name: float(np.mean(at_equal_work(rows, name)["area"])) for name in RIVALS}
    own = {name: mean(rows, name, "probe_own") for name in (*RIVALS, "supervised")}
    rival = max(RIVALS, key=own.__getitem__)
    masked = mean(rows, "vicreg_masked", "probe_own")
    tuned = {name: area[name] - mean(rows, name, "area", PUBLISHED) for name in RIVALS}
    moved = max(tuned, key=lambda name: abs(tuned[name]))
    agreement = spearman(area, work)
    return [
        Claim("paper/order", "JEPA > MAE > SimCLR > autoencoder", order, order > 0,
              f"R2 of W: {listed}.", because="other data and encoders of another rank"),
        Claim("paper/moco", "MoCo v3 above JEPA", moco.value, moco.low > 0,
              f"R2 of MoCo v3 less that of I-JEPA, {moco.low:.3f} to {moco.high:.3f}.",
              because="a contrastive loss spreads the latents, and R2 counts every direction"),
        Claim("rank", "Spearman's of R2 and RankMe below -.5", rank, rank < -0.5,
              f"over {len(RIVALS)} methods."),
        Claim("area", "contrastive and whitened above predictive and reconstructive", split,
              split > 0, "least area of SimCLR, MoCo v3, VICReg and LeJEPA less the largest of "
              "I-JEPA, MAE and the autoencoder."),
        Claim("gain", "training adds to every area", gains[least].value, gains[least].low > 0,
              f"the least is {least}'s, {gains[least].low:.3f} to {gains[least].high:.3f}."),
        Claim("pixels", "no method has more shared directions", directions[most],
              directions[most] <= pixels, f"the most are {most}'s, pixels have {pixels:.1f}."),
        Claim("beyond", "training does not add", beyond.value, beyond.low <= 0,
              f"R2 of I-JEPA beyond the shared factors, trained less untrained, {beyond.low:.3f} "
              f"to {beyond.high:.3f}."),
        Claim("carried", "no carried probe above .45", carried[best], carried[best] <= 0.45,
              f"the best is {best}'s."),
        Claim("work", "Spearman's above .8", agreement, agreement > 0.8,
              "area at equal work and at equal images."),
        Claim("labels", "the best own probe", own["supervised"] - own[rival],
              own["supervised"] > own[rival],
              f"{own['supervised']:.3f} with labels, {own[rival]:.3f} of {rival}."),
        Claim("masks", "worse than crops", masked - own["vicreg"], masked < own["vicreg"],
              f"{masked:.3f} on masks, {own['vicreg']:.3f} on crops."),
        Claim("tuning", "area within .1", tuned[moved], abs(tuned[moved]) <= 0.1,
              f"the largest difference is {moved}'s; the published settings have one pair."),
    ]  # fmt: skip
