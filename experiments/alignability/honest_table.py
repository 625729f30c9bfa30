"""The honest table: alignment of trained agents beside every control, with intervals.

Trains the agents of `configs/toys_*.py` (on other toys than those the settings were chosen on) and
of `configs/eth80_*.py`, once for each seed and objective. Measures R2, shared dimensions, DSC,
NOS@10, debiased CKA, RankMe and probe accuracies of all pairs of agents on both splits, for every
encoder of an objective (I-JEPA: the trained one and its moving average). Pairs that share a camera
are the ceiling. Differences to a control are paired object by object; intervals are over objects
and seeds. The paper's R2 of smallNORB gets no verdict, since the data are not the same.

Command: python -m experiments.honest_table --seeds=3 --out=runs/honest [--eth80=eth80_96.npz]
Cost: 5 minutes for a seed and world with I-JEPA and 12 with LeJEPA on two CPU cores. Finished runs
are reused.
Expected on held-out toys (I-JEPA with patches of 6 and 2,000 steps, LeJEPA with 800 steps, the
first pair of agents only): R2 .82 [.77, .87] of I-JEPA, .87 untrained, .96 with the same camera;
R2 .69 [.59, .78] of LeJEPA, .83 untrained; .65 of pixel PCA. Shared dimensions 9.9 of I-JEPA and
6.6 of LeJEPA, 5.6 and 3.2 untrained, 11.7 of pixel PCA.
"""

import pathlib
from dataclasses import replace

from absl import flags

from configs import eth80_ijepa, eth80_lejepa, smoke, toys_ijepa, toys_lejepa
from experiments.alignability import honest_page, honest_rows
from socialjepa_jax import config as config_lib
from socialjepa_jax.config import Experiment
from socialjepa_jax.errors import InputError, check_one_of
from socialjepa_jax.performance import compilation

CONFIGS = {
    "ijepa": {"toys": toys_ijepa.get_config, "eth80": eth80_ijepa.get_config},
    "lejepa": {"toys": toys_lejepa.get_config, "eth80": eth80_lejepa.get_config},
}


def arms(
    objectives: list[str], eth80: str | None, scale: str, steps: int | None = None
) -> dict[str, Experiment]:
    """Experiments of the table: "WORLD_OBJECTIVE" -> experiment, world by world.

    Args:
        objectives: "ijepa", "lejepa".
        eth80: file of the photographs; without it there are toys only.
        scale: "smoke" | "cpu".
        steps: of training; each configuration's own without it.

    Raises:
        InputError: an objective is unknown, or the file does not exist.
    """
    if eth80 is not None and not pathlib.Path(eth80).exists():
        raise InputError(f"--eth80={eth80} does not exist")
    experiments = {}
    for world in ("toys", "eth80") if eth80 else ("toys",):
        for objective in objectives:
            check_one_of(tuple(CONFIGS), objectives=objective)
            config = CONFIGS[objective][world]()
            if world == "eth80":
                config.data.path = eth80
            if steps is not None:
                config.run.steps = steps
            if scale == "smoke":
                config = smoke.shrink(config)
            experiments[f"{world}_{objective}"] = config_lib.from_config_dict(config)
    return experiments


def define_flags() -> None:
    """Defines the command's flags; not at import, since tests import this module."""
    flags.DEFINE_integer("seeds", 3, "Repetitions of every run.", lower_bound=1)
    flags.DEFINE_string("eth80", None, "File of the ETH-80 photographs; toys only without it.")
    flags.DEFINE_list("objectives", ["ijepa", "lejepa"], "Objectives of the agents.")
    flags.DEFINE_integer("steps", None, "Training steps; each configuration's own without it.")
    flags.DEFINE_string("out", None, "Folder of the runs and the page.", required=True)
    flags.DEFINE_enum(
        "scale", "cpu", ["smoke", "cpu"], "smoke takes seconds; its numbers have no meaning."
    )


def main() -> None:
    """Runs what is missing and writes the table."""
    given = flags.FLAGS
    out = pathlib.Path(given.out).resolve()
    compilation.use_cache(out / "cache" / "xla", f"--out={out}")
    experiments = arms(given.objectives, given.eth80, given.scale, given.steps)
    results = {}
    for arm, experiment in experiments.items():
        runs = [
            honest_rows.run(replace(experiment, seed=seed), out / f"{arm}_seed{seed}")
            for seed in range(given.seeds)
        ]
        results[arm] = {
            latent: honest_rows.average([run[latent] for run in runs]) for latent in runs[0]
        }
    page = honest_page.write(out, results, experiments, given.scale, given.seeds)
    print(f"Report: {page}")
