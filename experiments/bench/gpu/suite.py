"""Speed of everything on a GPU, as shares of the limits that are measured on the same chip.

Sections: the matmul peak and the copy bandwidth; I-JEPA, LeJEPA and MAE steps over batch sizes;
token dropping; attention kernels; SIGReg; augmentation on the device; the toy world's rendering;
steps in worlds in motion, on pairs from a pool and on fresh ones; the sweep of 189 runs; alignment
of many latents; a PyTorch step where torch is installed.

Every figure is saved at once: the same command goes on with the sections that are not done, and
loads the compiled programs. No section begins after `--seconds`, and the one at work then ends with
its next figure. A section that needs something that is missing is skipped, and says why.
Writes DIR/gpu_suite.json and DIR/gpu_suite.txt.

Command: python -m experiments.gpu_suite --out=DIR [--only=ijepa,lejepa] [--seconds=480]
    python -m experiments.gpu_suite --out=DIR --rehearse     # every section, tiny, on any machine
Cost: unknown, since no GPU has run it; seventeen steps of a ViT-S are compiled, for which the first
call's 8 minutes may not suffice.
Expected: not measured. Targets: I-JEPA 0.35, LeJEPA 0.33 and MAE 0.33 of the matmul peak; the sweep
in 180 s; moments of 1,000,000 x 1,024 latents in 0.5 s; the others are in the table.
"""

import json
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
from absl import flags, logging

from experiments.bench import results as results_lib
from experiments.bench.gpu import motion, parts, training
from experiments.bench.gpu.sizes import GPU, REHEARSAL, MissingPart, Sizes
from experiments.bench.results import Result
from socialjepa_jax.errors import InputError, check_one_of, check_positive
from socialjepa_jax.performance import compilation
from socialjepa_jax.records import write_json

SECTIONS: dict[str, Callable[[Sizes], Iterable[Result]]] = {
    "hardware": parts.devices,
    "ijepa": training.ijepa,
    "lejepa": training.lejepa,
    "mae": training.mae,
    "dropping": training.dropping,
    "attention": parts.attention_choices,
    "sigreg": parts.sigreg,
    "pipeline": training.pipeline,
    "views": training.views,
    "rendering": parts.rendering,
    "motion": motion.motion,
    "sweep": parts.sweep,
    "alignment": parts.alignments,
    "pytorch": training.pytorch,
}
"""Name -> the function that measures a section, in the order of the table."""


def run(
    out: pathlib.Path, names: list[str], sizes: Sizes, limit: float = float("inf")
) -> dict[str, Any]:
    """Runs the sections that are not done in `out`, and returns all that are there.

    Args:
        out: folder of the results.
        names: sections; all if there are none.
        sizes: of the sections' problems.
        limit: seconds after which no section begins, nor goes on after its next figure.

    Raises:
        InputError: a section is unknown, or the folder holds figures of another device.
    """
    for name in names:
        check_one_of(tuple(SECTIONS), **{"--only": name})
    out.mkdir(parents=True, exist_ok=True)
    found, begin = _read(out, sizes is REHEARSAL), time.monotonic()
    for name in SECTIONS:
        if (names and name not in names) or found["sections"].get(name, {}).get("status") == "done":
            continue
        # The figures of an earlier call stay until there are new ones.
        found["sections"].setdefault(name, _section("left", "nothing was measured"))
        _write(out, found)
        for section in _measure(name, sizes, begin + limit):
            found["sections"][name] = section
            _write(out, found)
    return found


def _write(out: pathlib.Path, found: dict[str, Any]) -> None:
    write_json(out / "gpu_suite.json", found)
    (out / "gpu_suite.txt").write_text(table(found) + "\n")


def _section(
    status: str, why: str, rows: Sequence[dict[str, Any]] = (), seconds: float = 0.0
) -> dict[str, Any]:
    return {"status": status, "why": why, "rows": rows, "seconds": seconds}


def _measure(name: str, sizes: Sizes, end: float) -> Iterator[dict[str, Any]]:
    """Yields a section after each of its figures; an error ends it and not the other sections."""
    start, rows = time.monotonic(), list[dict[str, Any]]()

    def so_far(status: str, why: str) -> dict[str, Any]:
        return _section(status, why, rows, time.monotonic() - start)

    if start > end:
        return
    logging.info("%s ...", name)
    try:
        figures = SECTIONS[name](sizes)
        for result in figures:
            rows.append(result.row())
            yield so_far("left", "ended in the middle")
            if time.monotonic() > end and not isinstance(figures, list):  # a list is complete
                yield so_far("left", "no time was left for the rest")
                return
    except MissingPart as missing:
        yield so_far("skipped", str(missing))
    except Exception as error:  # shown in the table, and tried again by the next call
        logging.exception("%s failed.", name)
        reason = " ".join(str(error).split())[:300]
        yield so_far("failed", f"{type(error).__name__}: {reason}")
    else:
        yield so_far("done", "")


def _read(out: pathlib.Path, rehearsal: bool) -> dict[str, Any]:
    device = jax.devices()[0]
    name = f"{device.device_kind} ({device.platform})"
    here = {"device": name, "jax": jax.__version__, "rehearsal": rehearsal}
    path = out / "gpu_suite.json"
    if not path.exists():
        return {**here, "sections": {}}
    try:
        found = json.loads(path.read_text())
        differs = {name for name, value in here.items() if found[name] != value}
        sections = {name: dict(section) for name, section in found["sections"].items()}
        table({**here, "sections": sections})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path} is not a file of this program; use another --out") from None
    if differs:
        raise InputError(
            f"{path} was measured with another {sorted(differs)[0]}; use another --out"
        )
    return {**here, "sections": sections}


def table(found: dict[str, Any]) -> str:
    """Returns lines with all figures and targets, the sections that are missing, and a total."""
    lines = [f"{found['device']}, jax {found['jax']}" + ", REHEARSAL" * found["rehearsal"]]
    met = wanted = 0
    for name in (name for name in SECTIONS if name in found["sections"]):
        section = found["sections"][name]
        status = f"{section['status']}: {section['why']}"
        if section["status"] == "done":
            status = f"{section['seconds']:.0f} s"
        lines.append(f"[{name}] {status}")
        results = [results_lib.from_row(row) for row in section["rows"]]
        lines += [result.describe() for result in results]
        wanted += sum(result.target is not None for result in results)
        met += sum(result.verdict() in ("met", "stretch") for result in results)
    return "\n".join([*lines, f"{met} of {wanted} targets met"])


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_string("out", None, "Folder of the results.", required=True)
    flags.DEFINE_list("only", [], f"Sections: {', '.join(SECTIONS)}; all without it.")
    flags.DEFINE_bool("rehearse", False, "Tiny sizes: everything runs, no figure means anything.")
    flags.DEFINE_float("seconds", 480.0, "After this time no section begins or goes on.")


def main() -> None:
    """Runs the sections and prints the table."""
    given = flags.FLAGS
    check_positive(**{"--seconds": given.seconds})
    if jax.default_backend() == "cpu" and not given.rehearse:
        raise InputError("there is no GPU; --rehearse runs everything tiny")
    out = pathlib.Path(given.out).resolve()
    compilation.use_cache(out / "cache" / "xla", f"--out={out}")
    sizes = REHEARSAL if given.rehearse else GPU
    print(table(run(out, given.only, sizes, given.seconds)))
