"""Alignability against one setting at a time, on objects kept for choosing settings.

Every variant trains two agents on another toy world than that of the honest table, and writes one
line per latent: held-out R2 trained, untrained and of pixel PCA, the same after the shared factors
are regressed out, shared dimensions and RankMe. The settings of `configs/toys_ijepa.py` were chosen
from this table.

Command: python -m experiments.what_moves_it --out=runs/knobs [--only=base,steps_x3] [--seed=0]
Cost: 1 to 3 minutes for a variant on two CPU cores. Finished variants are kept.
Expected on held-out objects: R2 .86 of the base's encoder, .94 of its moving average, .82 of
untrained encoders, .62 of pixel PCA. `steps_x3` lowers the first two to .80 and raises RankMe of
the moving average from 3.7 to 11.8; `vit_predictor` has the highest R2, .97 and .99, at RankMe 1.7.
"""

import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
import ml_collections
import numpy as np
from absl import flags

from configs import toys_ijepa
from socialjepa_jax import alignment, build, evaluation, loop
from socialjepa_jax import config as config_lib
from socialjepa_jax.agents import AgentState
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.errors import check_one_of
from socialjepa_jax.evaluation import controls
from socialjepa_jax.records import RowName
from socialjepa_jax.running.hooks import Progress

CHOOSING_SEED = 100  # of the toy world; the honest table reports another
Config = ml_collections.ConfigDict


def base() -> Config:
    """The setting that is varied: two agents, 20 objects a category, 800 steps."""
    config = toys_ijepa.get_config()
    config.data.seed = CHOOSING_SEED
    config.agents.cameras, config.agents.seeds = (0, 1), (0, 1)
    config.run.batch_size, config.run.steps = 64, 800
    return config


def _set(**values: Any) -> Callable[[Config], None]:
    """A change of settings; a double underscore stands for the dot of a path."""

    def change(config: Config) -> None:
        for path, value in values.items():
            *groups, name = path.split("__")
            group = config
            for key in groups:
                group = group[key]
            if name not in group:
                raise KeyError(path)
            group[name] = value

    return change


VARIANTS: dict[str, Callable[[Config], None]] = {
    "base": _set(),
    "mlp_cls": _set(objective__predictor="mlp_cls"),
    "vit_predictor": _set(
        objective__predictor="vit",
        objective__predictor_width=32,
        objective__predictor_depth=2,
        objective__predictor_heads=2,
    ),
    "target_plain": _set(objective__target_norm="none"),
    "no_ema": _set(objective__ema="off"),
    "steps_x3": _set(run__steps=2400),
    "batch_128": _set(run__batch_size=128, run__steps=400),
    "ema_0.99": _set(objective__ema_start=0.99),
    "instances_10": _set(data__instances=10, data__splits__test_instances=2),
    "instances_60": _set(data__instances=60, data__splits__test_instances=12),
    "no_augment": _set(augment__crop_scale=(1.0, 1.0), augment__flip=False),
    "no_flip": _set(augment__flip=False),
    "crop_0.2": _set(augment__crop_scale=(0.2, 1.0)),
    "view_a": _set(augment__crop_scale=(0.2, 1.0), augment__colours__jitter=(0.4, 0.4, 0.0, 0.0)),
    "view_b": _set(
        augment__crop_scale=(0.2, 1.0),
        augment__colours__jitter=(0.4, 0.4, 0.0, 0.0),
        augment__colours__blur=0.5,
        augment__colours__solarize=0.2,
    ),
    "width_128": _set(objective__vit__width=128),
    "patch_6": _set(objective__vit__patch_size=6),
    "pixels_96": _set(
        data__image_size=96, objective__vit__image_size=96, objective__vit__patch_size=16
    ),
    "lr_3e-4": _set(optim__learning_rate=3e-4),
    "lr_3e-3": _set(optim__learning_rate=3e-3),
}


def measure(config: Config, cache: pathlib.Path) -> list[dict[str, Any]]:
    """Trains one variant and returns its lines."""
    experiment = config_lib.from_config_dict(config)
    dataset = experiment.data.load(cache)
    parts = build.build(experiment)
    feed = build.open_feed(experiment, dataset, parts, cache, cache)

    def encode(state: AgentState) -> dict[str, np.ndarray]:
        return evaluation.encode_states(parts.trainer.encode_all, state, feed)

    progress = Progress(parts.fresh_state(), 0, experiment.run.steps)
    untrained, begin = encode(progress.state), time.monotonic()
    call = experiment.run.steps_per_call
    loop.run(parts.trainer.step, feed, parts.hparams, progress, call)
    loss = np.asarray(jax.device_get(progress.metrics["loss"]))[:, -1]
    seconds, trained = time.monotonic() - begin, encode(progress.state)
    return [
        {
            **_r2_of_all(experiment, dataset, split, trained[name], untrained[name]),
            "split": split.name,
            "latent": name,
            "rankme": alignment.effective_rank(trained[name][1]),
            "rankme_untrained": alignment.effective_rank(untrained[name][1]),
            "loss": float(loss.mean()),
            "seconds": round(seconds, 1),
        }
        for split in evaluation.splits(dataset)
        for name in sorted(trained)
        if name != "latent"
    ]


def _r2_of_all(
    experiment: Experiment,
    dataset: ViewDataset,
    split: evaluation.Split,
    trained: np.ndarray,
    untrained: np.ndarray,
) -> dict[str, float]:
    """Held-out R2 of trained, untrained and pixel latents, as they are and partialled."""
    dim = trained.shape[-1]
    pixels = [controls.pixel_pca(images, split.train, dim) for images in dataset.images]
    features = controls.shared_factors(dataset, controls.shared_factor_names(dataset))
    found = {}
    spaces_of = {RowName.TRAINED: trained, RowName.UNTRAINED: untrained, RowName.PIXEL_PCA: pixels}
    for name, spaces in spaces_of.items():
        rest = [controls.partial_out(z, features, split.train, ridge=1e-6) for z in spaces]
        for suffix, (x, y) in {"": spaces, "_partialled": rest}.items():
            linear_map = evaluation.fit_map(experiment.alignment, x, y, split.train)
            found[name + suffix] = float(alignment.r2(linear_map, x[split.test], y[split.test]))
            shared = alignment.shared_dimensions(
                linear_map, y[split.train], x[split.test], y[split.test]
            )
            found[f"{name}{suffix}_shared_dims"] = shared
    return found


def define_flags() -> None:
    """Only a program defines flags; modules that import this one have their own."""
    flags.DEFINE_string("out", None, "Folder of lines and rendered pictures.", required=True)
    flags.DEFINE_list("only", [], "Variants to run; all by default.")
    flags.DEFINE_integer("seed", 0, "Repetition.", lower_bound=0)


def main() -> None:
    """Runs the variants that are not in the folder yet."""
    given = flags.FLAGS
    out = pathlib.Path(given.out).resolve()
    for name in given.only:
        check_one_of(tuple(VARIANTS), only=name)
    out.mkdir(parents=True, exist_ok=True)
    for name in given.only or VARIANTS:
        path = out / f"{name}_seed{given.seed}.json"
        if path.exists():
            continue
        config = base()
        VARIANTS[name](config)
        config.seed = CHOOSING_SEED + given.seed
        lines = [{"variant": name, **line} for line in measure(config, out / "cache")]
        path.write_text(json.dumps(lines, indent=1))
        for line in lines:
            print(
                json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in line.items()})
            )
