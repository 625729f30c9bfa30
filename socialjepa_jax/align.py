"""Fits and judges the map between files of embeddings.

    python -m socialjepa_jax.align --x=old.npy --y=new.parquet --out=report/

Rows are paired by position, or by `--ids_x` and `--ids_y`. Files are .npy, .npz, .safetensors or
.parquet. Writes report.html with its pictures, the map (map.npz, map.safetensors, map.onnx and
apply_map.py, which needs NumPy only), alignment.json and items.csv.
Exit codes: 0 done, 2 bad input.
"""

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from absl import flags

from socialjepa_jax.alignment.maps import METHODS
from socialjepa_jax.alignment.study.inputs import Column, Sources, Spaces, read_spaces
from socialjepa_jax.alignment.study.spaces import compare_spaces
from socialjepa_jax.alignment.study.study import Settings, run_study
from socialjepa_jax.errors import InputError
from socialjepa_jax.report.alignment import files
from socialjepa_jax.report.alignment.page import write_alignment_report
from socialjepa_jax.report.alignment.spaces import write_spaces_report
from socialjepa_jax.running import launch


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    text = partial(flags.DEFINE_string, flag_values=values)
    several = partial(flags.DEFINE_list, flag_values=values)
    whole = partial(flags.DEFINE_integer, lower_bound=0, flag_values=values)
    share = partial(flags.DEFINE_float, flag_values=values)
    switch = partial(flags.DEFINE_bool, flag_values=values)
    choice = partial(flags.DEFINE_enum, flag_values=values)
    text("x", None, "Embeddings to map from.")
    text("y", None, "Embeddings to map to.")
    several("spaces", [], "Two or more files instead of --x and --y: every pair, and a hub.")
    text("out", None, "Folder for the results.")
    text("key", None, "Which array or column, in files that hold several.")
    text("ids_x", None, "Unique ids of the rows of x, to pair by.")
    text("ids_y", None, "Unique ids of the rows of y.")
    several("ids", [], "Names of rows that are already paired; or one file a space, to pair by.")
    text("ids_key", None, "Which column of the files of ids.")
    text("groups", None, "What must not be split (an object, a video), by row of x.")
    text("groups_key", None, "Which column of --groups.")
    text("labels", None, "Categories for probes and colours, by row of x.")
    text("labels_key", None, "Which column of --labels.")
    several("strata", [], "Factors within which the null shuffles pairs, by row of x.")
    several("strata_key", [], "Which columns of the one file of --strata.")
    choice("method", "ridge", METHODS, "How the map is fitted.")
    text("ridge", "auto", "Absolute lambda on standardised latents, or auto (10 group folds).")
    flags.DEFINE_integer("rank", None, "For reduced_rank.", lower_bound=1, flag_values=values)
    share("trim", 0.1, "For robust: share of the pairs left out.")
    switch("scale", False, "For procrustes: fit one global scale too.")
    choice("standardize", "full", ("full", "center"), "Each feature's mean and scale, or its mean.")
    share("test_fraction", 0.2, "Share of the rows held out, by whole groups.")
    whole("seed", 0, "Of the split, the null and the intervals.")
    whole("permutations", 20, "Fits on shuffled pairs.")
    whole("resamples", 200, "Draws of groups for the intervals.")
    switch("drop_nonfinite", False, "Leave out rows with NaN or Inf instead of refusing.")
    switch("umap", True, "Draw UMAP pictures as well, which takes some seconds.")
    switch("overwrite", False, "Replace a report in --out.")


def main(values: flags.FlagValues) -> None:
    """Runs the study that the flags describe."""
    out = _output_folder(values)
    settings, sources = _settings(values), _sources(values)
    spaces = read_spaces(sources)
    with _staged(out) as folder:
        if len(spaces.latents) == 2:
            _align_pair(spaces, settings, folder, umap=values.umap)
        else:
            _align_spaces(spaces, settings, folder)
    print(f"Report: {out / 'report.html'}")


def _output_folder(values: flags.FlagValues) -> Path:
    if not values.out:
        raise InputError("give --out, a folder for the results")
    out = Path(values.out)
    if out.exists() and not out.is_dir():
        raise InputError(f"--out={out} is a file")
    if (out / "report.html").exists() and not values.overwrite:
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

    def column(name: str) -> Column | None:
        path, option = values[name].value, f"--{name}_key"
        return Column(path, values[f"{name}_key"].value, option) if path else None

    ids = [values.ids_x, values.ids_y] if values.ids_x else values.ids
    return Sources(
        spaces=tuple(values.spaces) or (values.x, values.y),
        key=values.key,
        ids=tuple(Column(path, values.ids_key, "--ids_key") for path in ids),
        groups=column("groups"),
        labels=column("labels"),
        strata=tuple(
            Column(path, key, "--strata_key")
            for path in values.strata
            for key in values.strata_key or [None]
        ),
        drop_nonfinite=values.drop_nonfinite,
    )


@contextlib.contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """A folder whose files go to `out` once all of them are written, the report last."""
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
        with contextlib.suppress(OSError):  # what was there before stays
            out.rmdir()


def _align_pair(spaces: Spaces, settings: Settings, folder: Path, *, umap: bool) -> None:
    x, y = spaces.latents
    study = run_study(x, y, settings, groups=spaces.groups, strata=spaces.strata)
    probes = files.probe_scores(study, spaces)
    files.write_pair(folder, study, spaces, probes)
    write_alignment_report(folder / "report.html", study, spaces, probes=probes, umap=umap)


def _align_spaces(spaces: Spaces, settings: Settings, folder: Path) -> None:
    found = compare_spaces(spaces.latents, settings, groups=spaces.groups, strata=spaces.strata)
    probes = files.space_probes(found, spaces)
    files.write_spaces(folder, found, spaces, settings, probes)
    write_spaces_report(folder / "report.html", found, spaces, probes)


def _run() -> None:
    main(flags.FLAGS)


if __name__ == "__main__":
    define_flags(flags.FLAGS)
    launch.run(_run)
