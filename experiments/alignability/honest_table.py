"""The honest table: does training add alignability, or was it there before?

    python -m experiments.honest_table --seeds=3 --out=runs/honest [--eth80=eth80_96.npz]

Trains the agents of `configs/toys_*.py` (on other toys than those the settings were chosen on) and
of `configs/eth80_*.py`, once a seed and objective, and sets R2, shared dimensions, DSC, NOS@10,
debiased CKA, RankMe and probe accuracies beside every control: on both splits, for every encoder an
objective has (I-JEPA: the trained one and its moving average). Differences to a control are paired
object by object; intervals hold both objects and seeds to be drawn.

Cost: on two CPU cores about five minutes a seed and world with I-JEPA and twelve with LeJEPA. A run
that is there already is reused.
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
    """The experiments of the table by name, world by world."""
    if eth80 is not None and not pathlib.Path(eth80).exists():
        raise InputError(f"--eth80={eth80} does not exist")
    found = {}
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
            found[f"{world}_{objective}"] = config_lib.from_config_dict(config)
    return found


def define_flags() -> None:
    """Defines the command's flags; not at import, since tests import this module."""
    flags.DEFINE_integer("seeds", 3, "Repetitions of every run.", lower_bound=1)
    flags.DEFINE_string("eth80", None, "The ETH-80 photographs (.npz); left out if not given.")
    flags.DEFINE_list("objectives", ["ijepa", "lejepa"], "What trains the agents.")
    flags.DEFINE_integer("steps", None, "Of training; each configuration's own without it.")
    flags.DEFINE_string("out", None, "Folder of the runs and the page.", required=True)
    flags.DEFINE_enum("scale", "cpu", ["smoke", "cpu"], "smoke: seconds, no meaning.")


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
