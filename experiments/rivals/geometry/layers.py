"""Figure 8 of Social-JEPA: CKA of every layer of one agent with every layer of the other.

Debiased linear CKA of raw activations of held-out objects, without any map: the mean of the patch
embeddings, CLS and the mean of the patch tokens after each block, and both after the last
LayerNorm; CLS is the latent that all tables measure. (CLS of the embedding is a constant and has no
CKA.) The encoders are those that `trained` saved. Beside them stand the same agents before
training, principal components of the pixels, and the trained agents after the factors that both
cameras share (lighting, elevation) are regressed out of every layer.

Predictions, written before the run:

paper/depth: the paper (C.3) has later layers more similar. Here similarity falls from the embedding
to the output (mean tokens) in at least 3 of 5 methods.
paper/diagonal: nor does a layer resemble its own layer most: the largest CKA of a row is on the
diagonal in fewer than half of the rows of all methods.
training: training lowers CKA of the latents of SimCLR and LeJEPA.
pixels: components of the pixels have a higher CKA than the latents of at least 3 of 5 methods.
beyond: without the shared factors CKA of the latents is below half of what it was in all methods.

Command: python -m experiments.reproduce --only=fig8_layer_cka --out=runs/table1_paradigms
Cost at --scale=cpu: 2 minutes of one core after the training of table1_paradigms.
Expected at --scale=cpu: 2 of 5 claims agree. CKA of the patch embeddings is .95 and that of the
latents .40 to .99; untrained agents have .95 in every layer.

Shape key: B batch, N states, D features, L layers.
"""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from experiments import figures, findings
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.motion import pairs
from experiments.rivals.methods import PIXELS
from experiments.rivals.tables import trained
from experiments.rivals.tables.reading import row_of
from experiments.rivals.tables.trained import TUNED, World, cross_pairs
from socialjepa_jax import alignment
from socialjepa_jax.data.augment.colour import normalize
from socialjepa_jax.evaluation import controls
from socialjepa_jax.evaluation.encoders import Encoders
from socialjepa_jax.models.functional import functional
from socialjepa_jax.models.vit import ViT, ViTConfig, patchify, vits
from socialjepa_jax.objectives.base import Aux, Objective, Params
from socialjepa_jax.records import RowName
from socialjepa_jax.report.tables import Column, Row, Table

FOLDER = "fig8_layer_cka"
METHODS = {"smoke": ("ijepa",)}
NAMES = ("ijepa", "mae", "simclr", "dino", "lejepa")  # of the other scales
LATENT = "output cls"
DEPTH = ("embedding mean", "block 0 mean", "block 1 mean", "output mean")
KINDS = (RowName.TRAINED, RowName.UNTRAINED, RowName.PARTIALLED)
TOKENS = ("cls", "mean")
BATCH = 512

Layers = dict[str, np.ndarray]  # name -> f32[N, D]


def run(scale: str, out: pathlib.Path) -> Finding:
    """Compares the layers of the agents that `trained` saved."""
    world = World(scale, out)
    names = METHODS.get(scale, NAMES)
    rows = world.measured(FOLDER, (PIXELS, *names), functools.partial(of_method, world))
    return Finding(
        "Similarity of layers",
        claims(rows) if names == NAMES else [],
        {"": plot(rows)},
        rows,
        [table(rows)],
        {"steps": trained.STEPS[scale], "agents of a camera": trained.SEEDS},
    )


def of_pixels(world: World) -> Rows:
    """Compares principal components of both cameras' pixels."""
    value = alignment.cka_debiased(*world.pixels[:, world.split.test])
    return [{"method": PIXELS, "row": RowName.PIXEL_PCA, "cka": [[[value]]]}]


def of_method(world: World, name: str) -> Rows:
    """Compares the layers of a method's agents, trained, untrained, and without shared factors."""
    if name == PIXELS:
        return of_pixels(world)
    world.trained(name)  # leaves the encoders
    saved = Encoders.load(world.out / trained.FOLDER / f"{world.scale}_{name}_encoders")
    fresh = pairs.in_memory(world.experiment(name, trained.TOYS), world.out / "cache")
    spaces = [_layers(world, each) for each in (saved, fresh.encoders(fresh.fresh))]
    features = controls.shared_factors(world.dataset, controls.shared_factor_names(world.dataset))
    train = world.split.train

    def without(z_ND: np.ndarray) -> np.ndarray:
        return controls.partial_out(z_ND, features, train, ridge=1e-6)

    spaces.append([{k: without(z) for k, z in agent.items()} for agent in spaces[0]])
    return [
        {"method": name, "row": row, "layers": list(agents[0]), "cka": compared(world, agents)}
        for row, agents in zip(KINDS, spaces)
    ]


def _layers(world: World, encoders: Encoders) -> list[Layers]:
    """All layers of the tuned agents, on all states of their cameras."""
    cameras = encoders.config.agents.cameras
    return [layers(encoders, k, world.dataset.images[cameras[k]]) for k in range(TUNED)]


def layers(encoders: Encoders, agent: int, images: np.ndarray) -> Layers:
    """Returns what an agent's ViT makes of images u8[N, H, W, C] after each of its layers."""
    objective = encoders.config.objective
    own = jax.tree.map(lambda leaf: leaf[agent], (encoders.params, encoders.aux))
    params, pixels = weights(objective, *own), (encoders.mean[agent], encoders.std[agent])
    vit, starts = next(vits(objective)), range(0, len(images), BATCH)
    parts = [jax.device_get(_apply(vit, params, *pixels, images[s : s + BATCH])) for s in starts]
    return {name: np.concatenate([part[name] for part in parts]) for name in layer_names(vit)}


def layer_names(vit: ViTConfig) -> list[str]:
    """Returns the names of the layers that are compared, from the input on."""
    places = [*(f"block {k}" for k in range(vit.depth)), "output"]
    return ["embedding mean", *(f"{place} {token}" for place in places for token in TOKENS)]


@functools.partial(jax.jit, static_argnums=0)
def _apply(
    vit: ViTConfig, params: Params, mean: jax.Array, std: jax.Array, images_BHWC: jax.Array
) -> dict[str, jax.Array]:
    images_BHWC = normalize(images_BHWC.astype(jnp.float32) / 255, mean, std)
    _, out = functional(lambda rngs: ViT(vit, rngs)).apply(params, images_BHWC)
    patches_BE = patchify(images_BHWC, vit.patch_size).mean(1)
    found = {"embedding mean": patches_BE @ params["patch"]["kernel"]}  # but for a constant
    for k in range(vit.depth):
        found[f"block {k} cls"] = out[f"block_{k:02d}/cls"]
        found[f"block {k} mean"] = out[f"block_{k:02d}/tokens"].mean(1)
    return found | {"output cls": out["cls"], "output mean": out["mean"]}


def weights(objective: Objective, params: Params, aux: Aux) -> Params:
    """Returns the parameters of the ViT whose output is the latent."""
    network = getattr(objective, "latent_encoder", "")
    if network == "target":
        return aux["target"]
    return aux["teacher"]["encoder"] if network == "teacher" else params["encoder"]


def compared(world: World, agents: list[Layers]) -> list[list[list[float]]]:
    """Returns CKA of the layers of each pair of agents on held-out states: [pairs, L, L]."""
    test = world.split.test
    held = [[z[test] for z in agent.values()] for agent in agents]
    return [alignment.cka_matrix(held[i], held[j]).tolist() for i, j in cross_pairs()]


def _matrix(rows: Rows, name: str, row: str = RowName.TRAINED) -> np.ndarray:
    """Mean over pairs: [L, L]."""
    return np.mean(row_of(rows, name, row)["cka"], axis=0)


def same(rows: Rows, name: str, layer: str, row: str = RowName.TRAINED) -> float:
    """Returns CKA of a layer of one agent with the same layer of the other."""
    k = row_of(rows, name, row)["layers"].index(layer)
    return float(_matrix(rows, name, row)[k, k])


def claims(rows: Rows) -> list[Claim]:
    """The paper's statements and the predictions of the module's head."""
    rise = {n: same(rows, n, DEPTH[-1]) - same(rows, n, DEPTH[0]) for n in NAMES}
    deeper = sum(each > 0 for each in rise.values())
    on_diagonal = np.concatenate(
        [_matrix(rows, n).argmax(1) == np.arange(len(_matrix(rows, n))) for n in NAMES]
    )
    latent = {n: same(rows, n, LATENT) for n in NAMES}
    change = {n: latent[n] - same(rows, n, LATENT, RowName.UNTRAINED) for n in NAMES}
    spread = max(change["simclr"], change["lejepa"])
    pixels = float(np.mean(row_of(rows, PIXELS, RowName.PIXEL_PCA)["cka"]))
    below = sum(pixels > each for each in latent.values())
    left = {n: same(rows, n, LATENT, RowName.PARTIALLED) / latent[n] for n in NAMES}
    most = max(left, key=left.__getitem__)
    listed = ", ".join(f"{name} {value:+.2f}" for name, value in rise.items())
    return [
        Claim("paper/depth", "later layers more similar", float(deeper),
              deeper > len(NAMES) / 2, f"methods of {len(NAMES)} whose output is more similar than "
              f"the embedding: {listed}.",
              because="brightness is shared by both cameras and fills the first layers"),
        Claim("paper/diagonal", "a layer is most similar to its own", float(on_diagonal.mean()),
              bool(on_diagonal.mean() >= 0.5),
              f"share of {len(on_diagonal)} rows whose maximum is on the diagonal.",
              because="what both share lies in the same directions of every layer"),
        Claim("training", "lower in SimCLR and LeJEPA", spread, spread < 0,
              "CKA of the latents, trained less untrained, the larger of both."),
        Claim("pixels", "above the latents of 3 of 5 methods", float(below), below >= 3,
              f"components of the pixels have {pixels:.2f}, latents {min(latent.values()):.2f} to "
              f"{max(latent.values()):.2f}."),
        Claim("beyond", "below half in all methods", left[most], left[most] < 0.5,
              f"the largest share that is left is {most}'s.",
              because="kinds of objects are shared too"),
    ]  # fmt: skip


def table(rows: Rows) -> Table:
    """CKA of each layer with itself, and of the latents beside the controls."""
    shown = findings.select(rows, row=RowName.TRAINED)[0]["layers"]
    columns = [Column(name, name, digits=2) for name in shown]
    columns += [
        Column("untrained", "latents, untrained", digits=2),
        Column("partialled", "latents beyond shared factors", digits=2),
    ]
    lines = []
    for found in findings.select(rows, row=RowName.TRAINED):
        name = found["method"]
        cells = {layer: same(rows, name, layer) for layer in shown}
        cells["untrained"] = same(rows, name, LATENT, RowName.UNTRAINED)
        cells["partialled"] = same(rows, name, LATENT, RowName.PARTIALLED)
        lines.append(Row(name, cells, ranked=False))
    value = float(np.mean(row_of(rows, PIXELS, RowName.PIXEL_PCA)["cka"]))
    lines.append(Row(PIXELS, {LATENT: value}, ranked=False))
    return Table(columns, lines, corner="same layer of both agents",
                 caption="Debiased linear CKA; means over nine pairs of agents, held-out objects. "
                 "The output's CLS token is the latent.")  # fmt: skip


def plot(rows: Rows) -> Plot:
    """CKA of all layers for every method, trained above untrained."""
    found = [r for row in KINDS[:2] for r in findings.select(rows, row=row)]
    panels = {f"{r['method']}, {r['row']}": np.mean(r["cka"], axis=0) for r in found}
    figure = figures.heat_maps(
        panels, found[0]["layers"], row_name="layer, camera 0", column_name="layer, camera 1",
        columns=len(found) // 2,
    )  # fmt: skip
    return Plot(figure, "CKA of every layer of one agent with every layer of the other",
                "Debiased linear CKA of held-out objects, means over nine pairs.")  # fmt: skip
