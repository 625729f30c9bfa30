"""Fits a linear map between files of embeddings and reports how good it is.

    socialjepa-align --x=old.npy --y=new.parquet --out=report/

or `python -m socialjepa_jax.align`. Rows are paired by position, or by `--ids_x` and `--ids_y`.
Files are .npy, .npz, .safetensors, .parquet, .csv, .tsv or .jsonl. Writes report.html with its
figures, the map (map.npz, map.safetensors, map.onnx and apply_map.py, which needs NumPy only),
alignment.json and items.csv. `socialjepa-align apply --map= --in= --out=` applies a map to others.

    socialjepa-align --x=old.npy --y=new.npy --queries_x=old_queries.npy \\
        --queries_y=new_queries.npy --answers=rows.npy --gate=search --out=report/

measures real queries, and says if the old index may stay; `--gate=bridge` asks if queries of the
new encoder may be mapped into it. `--labels=` adds probes.

    socialjepa-align --x=both.parquet --y=both.parquet --key_x=old --key_y=new --out=report/

reads two columns of one file. Exit codes: 0 done, 2 bad input, 4 the answer of `--gate` is no.
"""

import contextlib
import functools
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Set
from pathlib import Path
from typing import NoReturn

from absl import flags

from socialjepa_jax import align_flags, apply
from socialjepa_jax.align_flags import GROUPS, define_flags
from socialjepa_jax.alignment.migration.decision import Decision, decide
from socialjepa_jax.alignment.migration.queries import Queries
from socialjepa_jax.alignment.migration.reading import QuerySources, read_queries
from socialjepa_jax.alignment.study import outputs
from socialjepa_jax.alignment.study.inputs import Sources, Spaces, printable, read_spaces
from socialjepa_jax.alignment.study.settings import Settings, Split
from socialjepa_jax.alignment.study.spaces import compare_spaces
from socialjepa_jax.alignment.study.study import Progress, run_study
from socialjepa_jax.alignment.threads import one_blas_thread
from socialjepa_jax.collaboration import scoring
from socialjepa_jax.errors import GateClosed, InputError, expand_user
from socialjepa_jax.running import launch

# The pages are imported where they are written: matplotlib is slow to import, and bad input must
# be refused at once.


_PART = ".part-"  # begins the name of an unfinished folder in that of the results
_WRITTEN = "report.html report_*.png alignment.json items.csv map*.npz hub_*.npz map.onnx "
_WRITTEN += "map.safetensors apply_map.py novelty.npz"  # patterns of the files of the results


def cli() -> None:
    """Runs the command line, for `socialjepa-align` and `python -m socialjepa_jax.align`."""
    if sys.argv[1:2] == ["apply"]:
        del sys.argv[1]
        return apply.cli()
    define_flags(flags.FLAGS)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda signum, _: _stop(signum))
    warnings.showwarning = lambda message, *_, **__: _warn_once(str(message))
    launch.run(lambda: main(flags.FLAGS), groups=GROUPS)


def _stop(signum: int) -> NoReturn:
    """Ends the process at once, without unfinished folders.

    An exception would be lost if the signal comes while a callback of another library runs.
    """
    if flags.FLAGS.is_parsed() and flags.FLAGS.out:
        _remove_parts(Path(flags.FLAGS.out).expanduser())
    os._exit(128 + signum)


def _remove_parts(out: Path) -> None:
    for part in out.glob(f"{_PART}*"):
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part, ignore_errors=True)
    with contextlib.suppress(OSError):  # a folder that is not empty stays
        out.rmdir()


@functools.cache  # a study fits many maps
def _warn_once(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


@one_blas_thread()
def main(values: flags.FlagValues) -> None:
    """Runs the study that the flags describe."""
    settings, sources = align_flags.settings(values), align_flags.sources(values)
    asked = align_flags.query_sources(values)
    out = _output_path(values, {Path(path).resolve() for path in _inputs(sources, asked)})
    say = Stages()
    say("reading")
    spaces = read_spaces(sources)
    queries = None if asked is None else read_queries(asked, sources, spaces)
    for line in spaces.remarks():
        print(line)
    decision = None
    with _folder(out):
        if len(spaces.latents) == 2:
            decision = _align_pair(spaces, queries, settings, out, say, umap=values.umap)
        else:
            _align_spaces(spaces, settings, out, say)
    if decision:
        print(f"Verdict: {decision.summary}")
    print(f"Report: {printable(out / 'report.html')}")
    gate = "classifiers" if values.gate == "probes" else values.gate
    if gate and decision and not decision.passes(gate):
        raise GateClosed(f"--gate={values.gate}: {getattr(decision, gate)}")


def _output_path(values: flags.FlagValues, inputs: Set[Path]) -> Path:
    if not values.out:
        raise InputError("give --out, a folder for the results")
    out = Path(expand_user(values.out, "--out"))
    if os.path.exists(out) and not out.is_dir():
        raise InputError(f"--out={out} is a file")
    if os.path.exists(out / "report.html") and not values.overwrite:
        raise InputError(f"--out={out} already holds a report; give --overwrite to replace it")
    for path in _results(out):
        if not values.overwrite:
            raise InputError(f"{path} exists; give --overwrite to replace it, or another --out")
        if path.resolve() in inputs:
            raise InputError(f"{path} is an input, and a result would replace it: other --out")
    return out


def _results(out: Path) -> list[Path]:
    """Files of earlier results in a folder, or others of their names."""
    if not os.path.exists(out):
        return []
    return sorted(path for pattern in _WRITTEN.split() for path in out.glob(pattern))


def _inputs(sources: Sources, asked: QuerySources | None) -> Iterator[str]:
    columns = [sources.groups, sources.labels, *sources.ids, *sources.strata]
    yield from sources.spaces
    if asked is not None:
        columns.append(asked.answers)
        yield from (path for path in (asked.x, asked.y) if path)
    yield from (column.path for column in columns if column is not None)


class Stages:
    """Prints every stage when it begins, with the seconds since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def __call__(self, stage: str) -> None:
        """Prints a line to stderr."""
        print(f"{time.monotonic() - self._start:6.1f} s  {stage}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _folder(out: Path) -> Iterator[None]:
    """Makes the folder of the results, at once, and removes it if it stays empty.

    Unfinished folders of a run that was killed are removed.
    """
    try:
        if out.exists():
            _remove_parts(out)
        out.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError(f"--out={out}: {error}") from error
    finally:
        with contextlib.suppress(OSError):  # a folder that is not empty stays
            out.rmdir()


@contextlib.contextmanager
def _staged(out: Path, *, first: bool = False) -> Iterator[Path]:
    """Yields a folder whose files are moved to `out` when all are written.

    The first batch replaces all earlier results, which do not fit it.
    """
    with tempfile.TemporaryDirectory(prefix=_PART, dir=out) as name:
        yield Path(name)
        for path in _results(out) if first else ():
            path.unlink()
        for path in Path(name).iterdir():
            os.replace(path, out / path.name)


def _align_pair(
    spaces: Spaces,
    queries: Queries | None,
    settings: Settings,
    out: Path,
    say: Progress,
    *,
    umap: bool,
) -> Decision:
    x, y = spaces.latents
    study = run_study(
        x,
        y,
        settings,
        groups=spaces.groups,
        strata=spaces.strata,
        labels=spaces.labels,
        queries=queries,
        progress=say,
    )
    _print_remarks(study.split)
    probes = scoring.probe_scores(study, spaces)
    decision = decide(study, probes)
    with _staged(out, first=True) as folder:  # before the figures, which take long and may fail
        outputs.write_pair(folder, study, spaces, probes, decision)
    say("drawing")
    from socialjepa_jax.report.alignment.page import write_pair_page

    with _staged(out) as folder:
        write_pair_page(folder / "report.html", study, spaces, probes, decision, umap=umap)
    return decision


def _print_remarks(split: Split) -> None:
    for line in split.remarks:
        print(line)


def _align_spaces(spaces: Spaces, settings: Settings, out: Path, say: Progress) -> None:
    say("fitting every pair")
    comparison = compare_spaces(
        spaces.latents,
        settings,
        groups=spaces.groups,
        strata=spaces.strata,
        labels=spaces.labels,
    )
    _print_remarks(comparison.split)
    probes = scoring.space_probes(comparison, spaces)
    with _staged(out, first=True) as folder:
        outputs.write_spaces(folder, comparison, spaces, settings, probes)
    say("drawing")
    from socialjepa_jax.report.alignment.spaces import write_spaces_page

    with _staged(out) as folder:
        write_spaces_page(folder / "report.html", comparison, spaces, probes)


if __name__ == "__main__":
    cli()
