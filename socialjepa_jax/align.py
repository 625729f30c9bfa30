"""Fits a linear map between files of embeddings and reports how good it is.

    socialjepa-align --x=old.npy --y=new.parquet --out=report/

or `python -m socialjepa_jax.align`. Rows are paired by position, or by `--ids_x` and `--ids_y`.
Files are .npy, .npz, .safetensors, .parquet, .csv, .tsv or .jsonl. Writes report.html with its
figures, the map (map.npz, map.safetensors, map.onnx and apply_map.py, which needs NumPy only),
alignment.json and items.csv. `socialjepa-align apply --map= --in= --out=` applies a map to others.

    socialjepa-align --x=old.npy --y=new.npy --queries_x=old_queries.npy \\
        --queries_y=new_queries.npy --answers=rows.npy --gate=search --out=report/

measures real queries, and says if the old index may stay. `--labels=` adds probes.

    socialjepa-align --x=both.parquet --y=both.parquet --key_x=old --key_y=new --out=report/

reads two columns of one file. Exit codes: 0 done, 2 bad input, 4 the answer of `--gate` is no.
"""

import contextlib
import dataclasses
import functools
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from absl import flags

from socialjepa_jax import apply
from socialjepa_jax.alignment.fitting import METHODS
from socialjepa_jax.alignment.migration.decision import GATES, Decision, decide
from socialjepa_jax.alignment.migration.queries import Queries
from socialjepa_jax.alignment.migration.reading import QuerySources, read_queries
from socialjepa_jax.alignment.migration.search import SIMILARITIES
from socialjepa_jax.alignment.study import outputs
from socialjepa_jax.alignment.study.inputs import (
    Column,
    Sources,
    Spaces,
    printable,
    read_spaces,
)
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

GROUPS = {  # of flags, for --help
    "Inputs": "x y spaces key key_x key_y labels labels_key drop_nonfinite",
    "Pairing and splitting": "ids_x ids_y ids ids_key groups groups_key test_fraction seed",
    "Queries and decision": "queries_x queries_y answers answers_key similarity retention gate",
    "The map": "method ridge rank trim scale standardize",
    "Nulls and intervals": "permutations resamples strata strata_key",
    "Output": "out umap overwrite",
}


def cli() -> None:
    """Runs the command line, for `socialjepa-align` and `python -m socialjepa_jax.align`."""
    if sys.argv[1:2] == ["apply"]:
        del sys.argv[1]
        return apply.cli()
    define_flags(flags.FLAGS)
    for number in (signal.SIGTERM, signal.SIGHUP):  # leave no unfinished folder behind
        signal.signal(number, lambda signum, _: sys.exit(128 + signum))
    warnings.showwarning = lambda message, *_, **__: _warn_once(str(message))
    launch.run(lambda: main(flags.FLAGS), groups=GROUPS)


@functools.cache  # a study fits many maps
def _warn_once(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    text = partial(flags.DEFINE_string, flag_values=values)
    texts = partial(flags.DEFINE_list, flag_values=values)
    integer = partial(flags.DEFINE_integer, flag_values=values)
    real = partial(flags.DEFINE_float, flag_values=values)
    boolean = partial(flags.DEFINE_bool, flag_values=values)
    choice = partial(flags.DEFINE_enum, flag_values=values)
    text("x", None, "Embeddings to map from.")
    text("y", None, "Embeddings to map to.")
    texts("spaces", [], "Two or more files instead of --x and --y: maps of every pair, and a hub.")
    text("out", None, "Folder for the results.")
    text("key", None, "Array or column to read from files that hold several.")
    text("key_x", None, "Array or column of --x and --queries_x, instead of --key.")
    text("key_y", None, "Array or column of --y and --queries_y, instead of --key.")
    text("ids_x", None, "Unique ids of the rows of x, by which rows are paired.")
    text("ids_y", None, "Unique ids of the rows of y.")
    texts("ids", [], "Names of rows that are already paired; or one file of ids per space.")
    text("ids_key", None, "Column of the files of ids.")
    text("groups", None, "Groups that must not be split (objects, videos), by row of x.")
    text("groups_key", None, "Column of --groups.")
    text("labels", None, "Classes for probes and colours, by row of x.")
    text("labels_key", None, "Column of --labels.")
    texts("strata", [], "Factors within which the null shuffles pairs, by row of x.")
    texts("strata_key", [], "Columns of the one file of --strata.")
    text("queries_x", None, "Queries embedded by the encoder of x.")
    text("queries_y", None, "The same queries embedded by the encoder of y.")
    text("answers", None, "Rows of x that answer each query (one or several, -1 pads), or its ids.")
    text("answers_key", None, "Column of --answers.")
    choice("similarity", "cosine", SIMILARITIES, "Similarity by which raw embeddings are searched.")
    real("retention", 0.9, "Share of what full re-embedding finds that a map must keep.")
    choice(
        "gate", None, [*GATES, "probes"], "Exit with code 4 if this answer of the verdict is no."
    )
    choice("method", "ridge", METHODS, "Method of the fit.")
    text("ridge", "auto", "Absolute lambda on standardised latents, or auto (10 group folds).")
    integer("rank", None, "For reduced_rank: the largest rank of the map.", lower_bound=1)
    real("trim", 0.1, "For robust: share of the pairs that is left out.")
    boolean("scale", False, "For procrustes: also fit one global scale.")
    choice("standardize", "full", ("full", "center"), "Standardise mean and scale, or the mean.")
    real("test_fraction", 0.2, "Share of the rows that is held out, by whole groups.")
    integer("seed", 0, "Seed of the split, the null and the intervals.", lower_bound=0)
    integer("permutations", 20, "Number of fits on shuffled pairs; 0: no null.", lower_bound=0)
    integer("resamples", 200, "Bootstrap draws of groups; 0: no intervals.", lower_bound=0)
    boolean("drop_nonfinite", False, "Leave out rows with NaN or Inf instead of refusing.")
    boolean("umap", True, "Draw UMAP figures too (some seconds; needs umap-learn).")
    boolean("overwrite", False, "Replace an existing report in --out.")


@one_blas_thread()
def main(values: flags.FlagValues) -> None:
    """Runs the study that the flags describe."""
    out = _output_path(values)
    settings, sources, asked = _settings(values), _sources(values), _query_sources(values)
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
    print(f"Report: {printable(out / 'report.html')}")
    gate = "classifiers" if values.gate == "probes" else values.gate
    if gate and decision and not decision.passes(gate):
        raise GateClosed(f"--gate={values.gate}: {getattr(decision, gate)}")


def _output_path(values: flags.FlagValues) -> Path:
    if not values.out:
        raise InputError("give --out, a folder for the results")
    out = Path(expand_user(values.out, "--out"))
    if os.path.exists(out) and not out.is_dir():
        raise InputError(f"--out={out} is a file")
    if os.path.exists(out / "report.html") and not values.overwrite:
        raise InputError(f"--out={out} already holds a report; give --overwrite to replace it")
    return out


def _settings(values: flags.FlagValues) -> Settings:
    ridge: float | str = values.ridge
    if ridge != "auto":
        try:
            ridge = float(ridge)
        except ValueError as error:
            raise InputError(f"--ridge={ridge} is neither a number nor auto") from error
    names = [field.name for field in dataclasses.fields(Settings) if field.name != "ridge"]
    given: dict[str, Any] = {name: values[name].value for name in names}
    return Settings(ridge=ridge, **given)


def _sources(values: flags.FlagValues) -> Sources:
    if bool(values.x) != bool(values.y) or bool(values.x) == bool(values.spaces):
        raise InputError("give --x and --y, or --spaces")
    if len(values.spaces) == 1:
        raise InputError("--spaces needs at least 2 files, got 1")
    if bool(values.ids_x) != bool(values.ids_y):
        raise InputError("--ids_x and --ids_y go together")
    if values.ids_x and (values.ids or values.spaces):
        raise InputError("--ids_x and --ids_y go with --x and --y, without --ids")
    if (values.key_x or values.key_y) and values.spaces:
        raise InputError("--key_x and --key_y go with --x and --y")
    if values.gate and values.spaces:
        raise InputError("--gate goes with --x and --y")
    if len(values.strata_key) > 1 and len(values.strata) > 1:
        raise InputError("--strata_key names columns of one file, --strata has several")

    def paths(*names: str) -> list[str]:
        given = [(name, values[name].value) for name in names]
        listed = [(name, [v] if isinstance(v, str) else v or []) for name, v in given]
        return [expand_user(path, f"--{name}") for name, some in listed for path in some]

    def column(name: str) -> Column | None:
        found = paths(name)
        return Column(found[0], values[f"{name}_key"].value, f"--{name}_key") if found else None

    ids = paths("ids_x", "ids_y", "ids")
    return Sources(
        spaces=tuple(paths("x", "y", "spaces")),
        keys=_keys(values),
        ids=tuple(Column(path, values.ids_key, "--ids_key") for path in ids),
        groups=column("groups"),
        labels=column("labels"),
        strata=tuple(
            Column(path, key, "--strata_key")
            for path in paths("strata")
            for key in values.strata_key or [None]
        ),
        drop_nonfinite=values.drop_nonfinite,
    )


def _keys(values: flags.FlagValues) -> tuple[str | None, ...]:
    if values.spaces:
        return (values.key,) * len(values.spaces)
    return values.key_x or values.key, values.key_y or values.key


def _query_sources(values: flags.FlagValues) -> QuerySources | None:
    paths = {name: values[name].value for name in ("queries_x", "queries_y", "answers")}
    if not any(paths.values()):
        return None
    if values.spaces:
        raise InputError("--queries_x and --queries_y go with --x and --y")
    if not paths["answers"] or not (paths["queries_x"] or paths["queries_y"]):
        raise InputError("give --answers with --queries_x, --queries_y, or both")
    given = {name: expand_user(path, f"--{name}") for name, path in paths.items() if path}
    answers = Column(given["answers"], values.answers_key, "--answers_key")
    return QuerySources(given.get("queries_x"), given.get("queries_y"), answers)


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
        out.mkdir(parents=True, exist_ok=True)
        for part in out.glob(f"{_PART}*"):
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part)
        yield
    except OSError as error:
        raise InputError(f"--out={out}: {error}") from error
    finally:
        with contextlib.suppress(OSError):  # a folder that is not empty stays
            out.rmdir()


@contextlib.contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """Yields a folder whose files are moved to `out` when all are written.

    A report that is there is removed first: it belongs to the files that are replaced.
    """
    with tempfile.TemporaryDirectory(prefix=_PART, dir=out) as name:
        yield Path(name)
        (out / "report.html").unlink(missing_ok=True)
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
    with _staged(out) as folder:  # before the figures, which take long and may fail
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
    with _staged(out) as folder:
        outputs.write_spaces(folder, comparison, spaces, settings, probes)
    say("drawing")
    from socialjepa_jax.report.alignment.spaces import write_spaces_page

    with _staged(out) as folder:
        write_spaces_page(folder / "report.html", comparison, spaces, probes)


if __name__ == "__main__":
    cli()
