"""Fits a linear map between files of embeddings and reports how good it is.

    socialjepa-align --x=old.npy --y=new.parquet --out=report/

or `python -m socialjepa_jax.align`. Rows are paired by position, or by `--ids_x` and `--ids_y`.
Files are .npy, .npz, .safetensors or .parquet. Writes report.html with its figures, the map
(map.npz, map.safetensors, map.onnx and apply_map.py, which needs NumPy only), alignment.json and
items.csv. `socialjepa-align apply --map= --in= --out=` applies a map to other files. Exit codes: 0
done, 2 bad input.
"""

import contextlib
import dataclasses
import functools
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from absl import flags

from socialjepa_jax import apply
from socialjepa_jax.alignment.fitting import METHODS
from socialjepa_jax.alignment.study import outputs
from socialjepa_jax.alignment.study.inputs import (
    Column,
    Sources,
    Spaces,
    printable,
    read_spaces,
)
from socialjepa_jax.alignment.study.settings import Settings
from socialjepa_jax.alignment.study.spaces import compare_spaces
from socialjepa_jax.alignment.study.study import run_study
from socialjepa_jax.alignment.threads import one_blas_thread
from socialjepa_jax.collaboration import scoring
from socialjepa_jax.errors import InputError, expand_user
from socialjepa_jax.running import launch

# The pages are imported where they are written: matplotlib is slow to import, and bad input must
# be refused at once.


def cli() -> None:
    """Runs the command line, for `socialjepa-align` and `python -m socialjepa_jax.align`."""
    if sys.argv[1:2] == ["apply"]:
        del sys.argv[1]
        return apply.cli()
    define_flags(flags.FLAGS)
    warnings.showwarning = lambda message, *_, **__: _warn_once(str(message))
    launch.run(lambda: main(flags.FLAGS))


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
    choice("method", "ridge", METHODS, "Method of the fit.")
    text("ridge", "auto", "Absolute lambda on standardised latents, or auto (10 group folds).")
    integer("rank", None, "For reduced_rank: the largest rank of the map.", lower_bound=1)
    real("trim", 0.1, "For robust: share of the pairs that is left out.")
    boolean("scale", False, "For procrustes: also fit one global scale.")
    choice("standardize", "full", ("full", "center"), "Standardise mean and scale, or the mean.")
    real("test_fraction", 0.2, "Share of the rows that is held out, by whole groups.")
    integer("seed", 0, "Seed of the split, the null and the intervals.", lower_bound=0)
    integer("permutations", 20, "Number of fits on shuffled pairs.", lower_bound=0)
    integer("resamples", 200, "Number of bootstrap draws of groups.", lower_bound=0)
    boolean("drop_nonfinite", False, "Leave out rows with NaN or Inf instead of refusing.")
    boolean("umap", True, "Draw UMAP figures too (some seconds; needs umap-learn).")
    boolean("overwrite", False, "Replace an existing report in --out.")


@one_blas_thread()
def main(values: flags.FlagValues) -> None:
    """Runs the study that the flags describe."""
    out = _output_folder(values)
    settings, sources = _settings(values), _sources(values)
    spaces = read_spaces(sources)
    for line in spaces.left_out():
        print(line)
    with _staged(out) as folder:
        if len(spaces.latents) == 2:
            _align_pair(spaces, settings, folder, umap=values.umap)
        else:
            _align_spaces(spaces, settings, folder)
    print(f"Report: {printable(out / 'report.html')}")


def _output_folder(values: flags.FlagValues) -> Path:
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
        key=values.key,
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


@contextlib.contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """Yields a folder whose files are moved to `out` when all are written, the report last."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".part-", dir=out) as name:
            yield Path(name)
            written = sorted(Path(name).iterdir(), key=lambda path: path.name == "report.html")
            for path in written:
                os.replace(path, out / path.name)
    except OSError as error:
        raise InputError(f"--out={out}: {error}") from error
    finally:
        with contextlib.suppress(OSError):  # a folder that is not empty stays
            out.rmdir()


def _align_pair(spaces: Spaces, settings: Settings, folder: Path, *, umap: bool) -> None:
    x, y = spaces.latents
    study = run_study(x, y, settings, groups=spaces.groups, strata=spaces.strata)
    probes = scoring.probe_scores(study, spaces)
    outputs.write_pair(folder, study, spaces, probes)
    from socialjepa_jax.report.alignment.page import write_pair_page

    write_pair_page(folder / "report.html", study, spaces, probes, umap=umap)


def _align_spaces(spaces: Spaces, settings: Settings, folder: Path) -> None:
    comparison = compare_spaces(
        spaces.latents, settings, groups=spaces.groups, strata=spaces.strata
    )
    probes = scoring.space_probes(comparison, spaces)
    outputs.write_spaces(folder, comparison, spaces, settings, probes)
    from socialjepa_jax.report.alignment.spaces import write_spaces_page

    write_spaces_page(folder / "report.html", comparison, spaces, probes)


if __name__ == "__main__":
    cli()
