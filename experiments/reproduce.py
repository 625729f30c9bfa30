"""Runs experiments and writes their numbers, figures and one report page.

    python -m experiments.reproduce --only=NAME[,NAME] --scale=smoke|cpu|gpu|paper --out=DIR

Every experiment writes DIR/NAME.json and DIR/NAME*.png; DIR/report.html shows all of them, the
papers' numbers beside ours and a sentence on each claim. `smoke` takes seconds and means nothing;
`cpu` is a reduced set for two cores; `gpu` and `paper` are the published settings.
"""

import importlib
import pathlib
import sys
import time

from absl import app, flags, logging

from experiments import findings
from socialjepa_jax import loop
from socialjepa_jax.report import html
from socialjepa_jax.validate import InputError

NAMES = (
    "id_2d",
    "id_scaling",
    "id_grid",
    "id_gennorm",
    "id_bound",
    "id_loss",
    "id_anisotropic",
    "id_warp",
    "id_unmatched",
    "id_samples",
    "id_isotropization",
    "id_dimension",
    "id_oracle",
    "id_social",
    "id_planning",
    "id_sfa",
)
"""Every experiment, in the order of the report; each is the module of that name in this package."""

_ONLY = flags.DEFINE_list("only", [], "Experiments to run; all without it.")
_SCALE = flags.DEFINE_enum("scale", "cpu", ["smoke", "cpu", "gpu", "paper"], "How much to spend.")
_OUT = flags.DEFINE_string("out", None, "Folder of the results.", required=True)


def reproduce(names: list[str], scale: str, out: pathlib.Path) -> pathlib.Path:
    """Runs the experiments in the order of `NAMES` and returns the report page.

    Raises:
        InputError: a name is unknown.
    """
    for name in names:
        if name not in NAMES:
            raise InputError(f"--only={name}: no such experiment; known: {', '.join(NAMES)}")
    out.mkdir(parents=True, exist_ok=True)
    loop.use_compilation_cache(out / "cache" / "xla")
    sections = {}
    verdicts: list[bool] = []
    for name in [n for n in NAMES if n in names or not names]:
        begin = time.monotonic()
        finding = importlib.import_module(f"experiments.{name}").run(scale, out)
        sections[name] = (finding.title, findings.save(finding, name, scale, out))
        verdicts += [claim.agrees for claim in finding.claims]
        logging.info("%s: %.0f s.", name, time.monotonic() - begin)
    lede = html.paragraph(
        f"{sum(verdicts)} of {len(verdicts)} claims agree. Every number was measured by this run; "
        "what differs says why."
    )
    page = out / "report.html"
    page.write_text(html.page("Experiments", f"scale {scale}", lede, sections))
    return page


def main(argv: list[str]) -> None:
    """Command line."""
    del argv
    try:
        page = reproduce(_ONLY.value, _SCALE.value, pathlib.Path(_OUT.value).resolve())
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    print(page)


if __name__ == "__main__":
    app.run(main)
