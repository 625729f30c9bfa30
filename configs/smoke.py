"""toys_ijepa made so small that it runs in seconds, to check an installation.

`shrink` makes any experiment as small, for tests and rehearsals.

Paper: none; the numbers of this run mean nothing.
Command: python -m socialjepa_jax.train --preset=smoke --workdir=runs/smoke
Cost: 25 seconds of CPU time, 8 if an earlier run left its compiled programs.
Expected: exit code 0, a report, and losses of 0.73-0.75 after 20 steps.
"""

import copy
import math

import ml_collections

from configs import toys_ijepa


def get_config() -> ml_collections.ConfigDict:
    """Returns toys_ijepa with 15 objects, an encoder of width 16 and 20 steps."""
    config = shrink(toys_ijepa.get_config(), steps=20)
    config.name = "Smoke test: toys, I-JEPA, 0 against 160 degrees"
    config.run.steps_per_call = config.run.log_every = config.run.eval_every = 10
    config.run.save_every = 10
    return config


def shrink(config: ml_collections.ConfigDict, steps: int = 2) -> ml_collections.ConfigDict:
    """Returns a copy of an experiment with few states, a tiny encoder and few steps.

    Args:
        config: any experiment.
        steps: number of steps.
    """
    config = copy.deepcopy(config)
    if config.data.kind == "toys":
        config.data.instances = 3
        config.data.elevations = (0, 4, 8)
        config.data.lightings = (0, 3)
        config.data.splits.test_instances = 1
    if config.data.kind == "motion":
        config.data.states, config.data.walk = 40, 20
        config.data.pool = min(config.data.pool, 64)  # 0: fresh pairs
    if config.data.kind == "reacher":
        config.data.grid, config.data.states, config.data.pool = (8, 8), 40, 64
    objective = config.objective.get("objective", config.objective)  # of a coupled one
    encoder = objective.vit if "vit" in objective else objective.encoder
    if encoder.kind in ("patch_net", "cnn"):
        patches = encoder.patches if "patches" in encoder else (2,) * len(encoder.widths)
        side = 2 * math.prod(patches)
        encoder.widths, encoder.hidden = (8,) * len(encoder.widths), 16
    elif encoder.kind == "resnet":
        side = 32
        encoder.stem_width, encoder.depth, encoder.stem = 8, 10, "small"
    else:
        side = 6 * encoder.patch_size
        encoder.width, encoder.depth, encoder.heads = 16, 1, 2
    encoder.image_size = config.data.image_size = side
    for name in ("mlp_width", "projector_width", "sigreg_slices", "num_slices"):
        if name in objective:
            objective[name] = 32
    if "decoder_width" in objective:
        objective.decoder_width, objective.decoder_depth, objective.decoder_heads = 16, 1, 2
    if "views" in objective:
        objective.views.local_size = side // 2
    config.run.steps = steps
    config.run.batch_size = 8
    config.run.steps_per_call = 1
    config.run.log_every = config.run.eval_every = config.run.save_every = 1
    return config
