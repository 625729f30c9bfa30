"""Runs experiments and writes their numbers, figures and one report page.

Command: python -m experiments.reproduce --only=NAME[,NAME] --scale=smoke|cpu|gpu|paper --out=DIR
Cost at --scale=cpu: three and a half hours on one core, 45 minutes of them for id_* and 115 for
rivals_* and table1_*; 20 minutes at --scale=smoke.
Expected at --scale=cpu: 54 of 71 claims of id_2d to id_sfa agree, 36 of 47 of sigreg_*, 9 of 14 of
lejepa_probes and 3 of 10 of lejepa_loss_accuracy.

Every experiment writes DIR/NAME.json and DIR/NAME*.png. DIR/report.html shows all experiments whose
files are in DIR, with the papers' numbers beside ours and a sentence on each claim. `smoke` is a
test whose numbers have no meaning; `cpu` is a reduced set for two cores; `gpu` and `paper` are the
published settings, as far as they are stated. An experiment's module states its own cost and
expected result.
"""

import fnmatch
import importlib
import pathlib
import time

from absl import flags, logging

from experiments import findings
from socialjepa_jax.errors import InputError
from socialjepa_jax.performance import compilation
from socialjepa_jax.report import html
from socialjepa_jax.running import launch

MODULES = {
    "id_2d": ("experiments.identifiability.two_dimensional", "run"),
    "id_scaling": ("experiments.identifiability.scaling", "run"),
    "id_grid": ("experiments.identifiability.grid", "run"),
    "id_gennorm": ("experiments.identifiability.gennorm", "run"),
    "id_bound": ("experiments.identifiability.predictors", "bound"),
    "id_loss": ("experiments.identifiability.predictors", "loss"),
    "id_anisotropic": ("experiments.identifiability.anisotropic", "run"),
    "id_warp": ("experiments.identifiability.warp", "run"),
    "id_unmatched": ("experiments.identifiability.unmatched", "run"),
    "id_samples": ("experiments.identifiability.assumptions", "samples"),
    "id_isotropization": ("experiments.identifiability.assumptions", "isotropization"),
    "id_dimension": ("experiments.identifiability.dimension", "run"),
    "id_oracle": ("experiments.identifiability.dimension", "oracle"),
    "id_social": ("experiments.identifiability.social", "run"),
    "id_planning": ("experiments.identifiability.planning", "run"),
    "id_sfa": ("experiments.identifiability.sfa", "run"),
    "id_dirichlet": ("experiments.identifiability.energy", "run"),
    "sigreg_x": ("experiments.sigreg.x", "run"),
    "sigreg_resampling": ("experiments.sigreg.resampling", "run"),
    "sigreg_quadrature": ("experiments.sigreg.quadrature", "run"),
    "sigreg_slices": ("experiments.sigreg.slices.experiment", "run"),
    "lejepa_probes": ("experiments.lejepa.probes.experiment", "run"),
    "lejepa_loss_accuracy": ("experiments.lejepa.loss_accuracy", "run"),
    "lejepa_lambda_views": ("experiments.lejepa.lambda_views", "run"),
    "lejepa_ablations": ("experiments.lejepa.ablations.experiment", "run"),
    "motion_five": ("experiments.motion.five", "run"),
    "motion_phase": ("experiments.motion.phase.experiment", "run"),
    "motion_weights": ("experiments.motion.weights", "run"),
    "motion_unpaired": ("experiments.motion.unpaired.experiment", "run"),
    "reacher_ou": ("experiments.reacher.ou", "run"),
    "reacher_trajectory": ("experiments.reacher.trajectory", "run"),
    "reacher_planning": ("experiments.reacher.planning", "run"),
    "reacher_collapse": ("experiments.reacher.collapse", "run"),
    "motion_arm": ("experiments.motion.arm.recovery", "run"),
    "arm_factors": ("experiments.motion.arm.factors", "run"),
    "motion_unpaired_worlds": ("experiments.motion.unpaired.worlds", "run"),
    "motion_planning": ("experiments.motion.planning.experiment", "run"),
    "driving": ("experiments.motion.driving.experiment", "run"),
    "rivals_toys": ("experiments.rivals.toys", "run"),
    "rivals_motion": ("experiments.rivals.motion", "run"),
    "table1_structure": ("experiments.rivals.structure", "run"),
    "fig6_projection": ("experiments.rivals.geometry.projection", "run"),
    "fig8_layer_cka": ("experiments.rivals.geometry.layers", "run"),
    "fig9_spectrum": ("experiments.rivals.geometry.spectrum", "run"),
    "table1_paradigms": ("experiments.rivals.tables.paradigms", "run"),
    "table1_eth80": ("experiments.rivals.tables.photographs", "run"),
    "table2_baselines": ("experiments.rivals.tables.baselines", "run"),
    "fig7_bars": ("experiments.rivals.tables.baselines", "fig7"),
    "table4_pair_noise": ("experiments.rivals.stress.noise", "run"),
    "table5_shift": ("experiments.rivals.stress.shift", "run"),
    "table7_seeds": ("experiments.rivals.stress.stability", "seeds"),
    "table8_nos_k": ("experiments.rivals.stress.stability", "nos_k"),
    "fig5_pair_budget": ("experiments.rivals.stress.budget", "run"),
    "table1_cross_view": ("experiments.rivals.predictions.cross_view", "run"),
    "table6_capacity": ("experiments.rivals.predictions.capacity", "run"),
    "exp_predictions": ("experiments.rivals.predictions.theory", "run"),
    "table9": ("experiments.collaboration.table9", "run"),
    "table9_toys": ("experiments.collaboration.table9_pictures", "toys"),
    "table9_eth80": ("experiments.collaboration.table9_pictures", "eth80"),
    "pairs_needed": ("experiments.collaboration.pairs_needed", "run"),
    "who_teaches_whom": ("experiments.collaboration.who_teaches_whom", "run"),
    "probe_labels": ("experiments.collaboration.probe_labels", "run"),
}
"""Every experiment in the order of the report: name -> (module, its function of scale and out)."""

NAMES = tuple(MODULES)

ON_IMAGES = (
    "lejepa_loss_accuracy", "lejepa_lambda_views", "lejepa_ablations", "table1_eth80",
    "table9_eth80",
)  # fmt: skip
"""The experiments that train on images: toys, or photographs if their function gets `eth80`."""

ON_TRAJECTORIES = ("reacher_trajectory", "reacher_planning")
"""The experiments on episodes: built-in ones, or those of a file if it is given."""

OPTIONAL = ("reacher_ou", "reacher_collapse", *ON_TRAJECTORIES, "table1_eth80", "table9_eth80")
"""The experiments that need MuJoCo or a file, and are left out of a run of all without it."""

ON_FRAMES = ("driving",)
"""The experiments on a recording: rendered, or the one that their function gets as `frames`."""


def reproduce(
    names: list[str],
    scale: str,
    out: pathlib.Path,
    eth80: str | None = None,
    trajectories: str | None = None,
    frames: str | None = None,
) -> pathlib.Path:
    """Runs the experiments in the order of `NAMES` and returns the report page.

    Args:
        names: of the experiments, or patterns of names; all if empty.
        scale: "smoke" | "cpu" | "gpu" | "paper".
        out: folder of the results.
        eth80: file of photographs for the experiments that train on images.
        trajectories: file of joint angles for the experiments on episodes.
        frames: file or folder of a recording for those of `ON_FRAMES`.

    Raises:
        InputError: a name is unknown, or a file does not exist; an experiment that is named needs
            MuJoCo, which is missing.
    """
    files = {"eth80": eth80, "trajectories": trajectories, "frames": frames}
    for flag, path in files.items():
        if path is not None and not pathlib.Path(path).exists():
            raise InputError(f"--{flag}={path} does not exist")
    names = [name for pattern in names for name in matching(pattern)]
    compilation.use_cache(out / "cache" / "xla", f"--out={out}")
    page = out / "report.html"
    chosen = [name for name in NAMES if name in names or not names]
    for number, name in enumerate(chosen, 1):
        logging.info("%s begins, %d of %d.", name, number, len(chosen))
        begin = time.monotonic()
        module, function = MODULES[name]
        settings = {"eth80": eth80} if name in ON_IMAGES else {}
        settings |= {"trajectories": trajectories} if name in ON_TRAJECTORIES else {}
        settings |= {"frames": frames} if name in ON_FRAMES else {}
        try:
            finding = getattr(importlib.import_module(module), function)(scale, out, **settings)
        except InputError as error:
            if names or name not in OPTIONAL:
                raise
            logging.warning("%s is left out: %s", name, error)
            continue
        findings.save(finding, name, scale, out)
        page = write_page(out)
        logging.info("%s: %.0f s.", name, time.monotonic() - begin)
    return page


def matching(pattern: str) -> list[str]:
    """Returns the experiments of a name or a pattern, such as `id_*`.

    Raises:
        InputError: there is none.
    """
    found = fnmatch.filter(NAMES, pattern)
    if not found:
        raise InputError(f"--only={pattern}: no such experiment; known: {', '.join(NAMES)}")
    return found


def write_page(out: pathlib.Path) -> pathlib.Path:
    """Writes DIR/report.html from the files of all experiments in the folder."""
    parts = {name: part for name in NAMES if (part := findings.section(name, out))}
    verdicts = [agrees for part in parts.values() for agrees in part.verdicts]
    lede = html.paragraph(
        f"{sum(verdicts)} of {len(verdicts)} claims agree. Every number was measured by these "
        "runs; what differs says why."
    )
    if any(part.scale == "smoke" for part in parts.values()):
        warning = "Scale smoke tests the program: its numbers and verdicts mean nothing."
        lede = html.join(html.paragraph(warning, class_="lede"), lede)
    scales = ", ".join(dict.fromkeys(part.scale for part in parts.values()))
    sections = {name: (part.title, part.content) for name, part in parts.items()}
    page = out / "report.html"
    page.write_text(html.page("Experiments", f"scale {scales}", lede, sections))
    return page


def define_flags() -> None:
    """Defines the command's flags; not at import, since other commands import this module."""
    flags.DEFINE_list("only", [], "Experiments to run, such as id_2d or id_*; all by default.")
    flags.DEFINE_enum("scale", "cpu", ["smoke", "cpu", "gpu", "paper"], "How much to spend.")
    flags.DEFINE_string("out", None, "Folder of the results.", required=True)
    flags.DEFINE_string(
        "trajectories", None, f"File (.npz) of joint angles: {', '.join(ON_TRAJECTORIES)}."
    )
    flags.DEFINE_string(
        "eth80", None, f"File of ETH-80: {', '.join(ON_IMAGES)} on photographs, not on toys."
    )
    flags.DEFINE_string(
        "frames", None, f"File or folder of a recording: {', '.join(ON_FRAMES)} on it."
    )


def main() -> None:
    """Runs the command."""
    given = flags.FLAGS
    out = pathlib.Path(given.out).resolve()
    files = given.eth80, given.trajectories, given.frames
    print(reproduce(given.only, given.scale, out, *files))


if __name__ == "__main__":
    define_flags()
    launch.run(main)
