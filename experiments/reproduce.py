"""Runs experiments and writes their numbers, figures and one report page.

    python -m experiments.reproduce --only=NAME[,NAME] --scale=smoke|cpu|gpu|paper --out=DIR

Every experiment writes DIR/NAME.json and DIR/NAME*.png; DIR/report.html shows all that are in DIR,
those of earlier calls too: the papers' numbers beside ours and a sentence on each claim. `smoke`
takes seconds and means nothing; `cpu` is a reduced set for two cores; `gpu` and `paper` are the
published settings, as far as they are stated.
"""

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
    "id_2d": "experiments.identifiability.two_dimensional",
    "id_scaling": "experiments.identifiability.scaling",
    "id_grid": "experiments.identifiability.grid",
    "id_gennorm": "experiments.identifiability.gennorm",
    "id_bound": "experiments.identifiability.bound",
    "id_loss": "experiments.identifiability.loss",
    "id_anisotropic": "experiments.identifiability.anisotropic",
    "id_warp": "experiments.identifiability.warp",
    "id_unmatched": "experiments.identifiability.unmatched",
    "id_samples": "experiments.identifiability.samples",
    "id_isotropization": "experiments.identifiability.isotropization",
    "id_dimension": "experiments.identifiability.dimension",
    "id_oracle": "experiments.identifiability.oracle",
    "id_social": "experiments.identifiability.social",
    "id_planning": "experiments.identifiability.planning",
    "id_sfa": "experiments.identifiability.sfa",
    "sigreg_x": "experiments.sigreg.x",
    "sigreg_resampling": "experiments.sigreg.resampling",
    "sigreg_quadrature": "experiments.sigreg.quadrature",
    "sigreg_slices": "experiments.sigreg.slices.experiment",
    "lejepa_probes": "experiments.lejepa.probes.experiment",
    "lejepa_loss_accuracy": "experiments.lejepa.loss_accuracy",
    "lejepa_lambda_views": "experiments.lejepa.lambda_views",
    "lejepa_ablations": "experiments.lejepa.ablations",
}
"""Every experiment in the order of the report: name -> module with `run(scale, out)`."""

NAMES = tuple(MODULES)

PICTURED = ("lejepa_loss_accuracy", "lejepa_lambda_views", "lejepa_ablations")
"""Those that train on pictures, and so can do it on photographs too."""


def reproduce(
    names: list[str], scale: str, out: pathlib.Path, eth80: str | None = None
) -> pathlib.Path:
    """Runs the experiments in the order of `NAMES` and returns the report page.

    Args:
        names: which; all if there are none.
        scale: how much to spend.
        out: folder of the results.
        eth80: file of photographs for those experiments that train on pictures.

    Raises:
        InputError: a name is unknown, or there is no such file.
    """
    if eth80 is not None and not pathlib.Path(eth80).exists():
        raise InputError(f"--eth80={eth80} does not exist")
    for name in names:
        if name not in NAMES:
            raise InputError(f"--only={name}: no such experiment; known: {', '.join(NAMES)}")
    out.mkdir(parents=True, exist_ok=True)
    compilation.use_cache(out / "cache" / "xla", f"--out={out}")
    for name in [n for n in NAMES if n in names or not names]:
        begin = time.monotonic()
        settings = {"eth80": eth80} if name in PICTURED else {}
        finding = importlib.import_module(MODULES[name]).run(scale, out, **settings)
        findings.save(finding, name, scale, out)
        page = write_page(out)
        logging.info("%s: %.0f s.", name, time.monotonic() - begin)
    return page


def write_page(out: pathlib.Path) -> pathlib.Path:
    """Writes DIR/report.html from what all experiments so far have left in the folder."""
    found = {name: part for name in NAMES if (part := findings.section(name, out))}
    verdicts = [agrees for part in found.values() for agrees in part.verdicts]
    lede = html.paragraph(
        f"{sum(verdicts)} of {len(verdicts)} claims agree. Every number was measured by these "
        "runs; what differs says why."
    )
    scales = ", ".join(dict.fromkeys(part.scale for part in found.values()))
    sections = {name: (part.title, part.content) for name, part in found.items()}
    page = out / "report.html"
    page.write_text(html.page("Experiments", f"scale {scales}", lede, sections))
    return page


def define_flags() -> None:
    """Only a program defines flags; modules that import this one have their own."""
    flags.DEFINE_list("only", [], "Experiments to run; all without it.")
    flags.DEFINE_enum("scale", "cpu", ["smoke", "cpu", "gpu", "paper"], "How much to spend.")
    flags.DEFINE_string("out", None, "Folder of the results.", required=True)
    flags.DEFINE_string(
        "eth80", None, f"File of ETH-80: {', '.join(PICTURED)} on photographs, not on toys."
    )


def main() -> None:
    """Command line."""
    given = flags.FLAGS
    print(reproduce(given.only, given.scale, pathlib.Path(given.out).resolve(), given.eth80))


if __name__ == "__main__":
    define_flags()
    launch.run(main)
