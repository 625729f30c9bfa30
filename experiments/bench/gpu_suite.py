"""How near to the chip's limits everything runs: one command, one JSON file, one table.

    python -m experiments.gpu_suite --out=DIR [--only=ijepa,lejepa] [--seconds=480]
    python -m experiments.gpu_suite --out=DIR --rehearse     # every section, tiny, on any machine

Measures the device's matmul peak and copy bandwidth and holds against them: I-JEPA, LeJEPA and MAE
steps over batch sizes, token dropping, attention choices, SIGReg, augmentation on the device, the
toy world's rendering, the sweep of 189 runs, alignment at large N, and a PyTorch step where torch
is installed. Every figure is saved at once, whatever ends the program: the same command goes on
with the sections that are not done, and finds compiled what they had compiled. None begins after
`--seconds`, and one at work then ends with its next figure. A part that does not exist is named.
Writes DIR/gpu_suite.json and DIR/gpu_suite.txt. Cost: no GPU has run it; 15 steps of a ViT-S are
compiled, so that 8 minutes may not be enough for the first call.
"""

import json
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
from absl import flags, logging

from experiments.bench import results as results_lib
from experiments.bench.gpu_sections import GPU, REHEARSAL, SECTIONS, MissingPart, Sizes
from socialjepa_jax.errors import InputError, check_one_of, check_positive
from socialjepa_jax.performance import compilation
from socialjepa_jax.records import write_json

Rows = Sequence[dict[str, Any]]


def run(
    out: pathlib.Path, names: list[str], sizes: Sizes, limit: float = float("inf")
) -> dict[str, Any]:
    """Runs the sections that `out` lacks, and returns all that is there.

    Args:
        out: folder of the results.
        names: sections; all if there are none.
        sizes: how large everything is.
        limit: seconds after which no section begins, nor goes on after its next figure.

    Raises:
        InputError: a section is unknown, or the folder holds what another device measured.
    """
    for name in names:
        check_one_of(tuple(SECTIONS), **{"--only": name})
    out.mkdir(parents=True, exist_ok=True)
    found, begin = _read(out, sizes is REHEARSAL), time.monotonic()
    for name in SECTIONS:
        if (names and name not in names) or found["sections"].get(name, {}).get("status") == "done":
            continue
        # What an earlier call found of it stays until there is something new.
        found["sections"].setdefault(name, _section("left", "nothing was measured"))
        _write(out, found)
        for section in _measure(name, sizes, begin + limit):
            found["sections"][name] = section
            _write(out, found)
    return found


def _write(out: pathlib.Path, found: dict[str, Any]) -> None:
    write_json(out / "gpu_suite.json", found)
    (out / "gpu_suite.txt").write_text(table(found) + "\n")


def _section(status: str, why: str, rows: Rows = (), seconds: float = 0.0) -> dict[str, Any]:
    return {"status": status, "why": why, "rows": rows, "seconds": seconds}


def _measure(name: str, sizes: Sizes, end: float) -> Iterator[dict[str, Any]]:
    """One section as far as it is, whatever becomes of it: the others do not depend on it."""
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
            if time.monotonic() > end and not isinstance(figures, list):  # a list is all there
                yield so_far("left", "no time was left for the rest")
                return
    except MissingPart as missing:
        yield so_far("skipped", str(missing))
    except Exception as error:  # named in the table, and tried again by the next call
        logging.exception("%s failed.", name)
        reason = " ".join(str(error).split())[:300]
        yield so_far("failed", f"{type(error).__name__}: {reason}")
    else:
        yield so_far("done", "")


def _read(out: pathlib.Path, rehearsal: bool) -> dict[str, Any]:
    device = jax.devices()[0]
    here = {
        "device": f"{device.device_kind} ({device.platform})",
        "jax": jax.__version__,
        "rehearsal": rehearsal,
    }
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
    """All figures, their targets and what was met, and what is missing."""
    lines = [f"{found['device']}, jax {found['jax']}" + ", REHEARSAL" * found["rehearsal"]]
    met = wanted = 0
    for name in (name for name in SECTIONS if name in found["sections"]):
        section = found["sections"][name]
        said = f"{section['status']}: {section['why']}"
        if section["status"] == "done":
            said = f"{section['seconds']:.0f} s"
        lines.append(f"[{name}] {said}")
        results = [results_lib.from_row(row) for row in section["rows"]]
        lines += [result.describe() for result in results]
        wanted += sum(result.target is not None for result in results)
        met += sum(result.verdict() in ("met", "stretch") for result in results)
    return "\n".join([*lines, f"{met} of {wanted} targets met"])


def define_flags() -> None:
    """Only a program defines flags; modules that import this one have their own."""
    flags.DEFINE_string("out", None, "Folder of the results.", required=True)
    flags.DEFINE_list("only", [], f"Sections: {', '.join(SECTIONS)}; all without it.")
    flags.DEFINE_bool("rehearse", False, "Tiny sizes: everything runs, nothing means anything.")
    flags.DEFINE_float("seconds", 480.0, "After this time no section begins or goes on.")


def main() -> None:
    """Command line."""
    given = flags.FLAGS
    check_positive(**{"--seconds": given.seconds})
    if jax.default_backend() == "cpu" and not given.rehearse:
        raise InputError("there is no GPU; --rehearse runs everything tiny")
    out = pathlib.Path(given.out).resolve()
    compilation.use_cache(out / "cache" / "xla", f"--out={out}")
    sizes = REHEARSAL if given.rehearse else GPU
    print(table(run(out, given.only, sizes, given.seconds)))
