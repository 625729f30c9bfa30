"""Any experiment made so small that it runs in seconds: for tests and rehearsals, no meaning."""

import copy

import ml_collections


def shrink(config: ml_collections.ConfigDict, steps: int = 2) -> ml_collections.ConfigDict:
    """Returns the experiment with few states, a tiny encoder and few steps."""
    config = copy.deepcopy(config)
    if config.data.kind == "toys":
        config.data.instances = 3
        config.data.elevations = (0, 4, 8)
        config.data.lightings = (0, 3)
        config.data.splits.test_instances = 1
    objective = config.objective
    vit = objective.vit if "vit" in objective else objective.encoder
    vit.width, vit.depth, vit.heads = 16, 1, 2
    vit.image_size = config.data.image_size = 6 * vit.patch_size
    for name in ("mlp_width", "projector_width", "sigreg_slices"):
        if name in objective:
            objective[name] = 32
    if "decoder_width" in objective:
        objective.decoder_width, objective.decoder_depth, objective.decoder_heads = 16, 1, 2
    if "views" in objective:
        objective.views.local_size = 3 * vit.patch_size
    config.run.steps = steps
    config.run.batch_size = 8
    config.run.steps_per_call = 1
    config.run.log_every = config.run.eval_every = config.run.save_every = 1
    return config
