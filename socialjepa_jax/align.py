"""Fits and judges the map between files of embeddings.

    python -m socialjepa_jax.align --x=old.npy --y=new.parquet --out=report/

Rows are paired by position, or by `--ids_x` and `--ids_y`. Writes map.npz, map.safetensors,
map.onnx, alignment.json and report.html with its pictures. Exit codes: 0 done, 2 bad input.
"""

import json
import logging
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from socialjepa_jax import collaboration
from socialjepa_jax.alignment import cka_debiased, export, files, pairing, study
from socialjepa_jax.alignment.hub import fit_hub
from socialjepa_jax.alignment.metrics import evaluate
from socialjepa_jax.report import html, tables
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.alignment_page import matrix_figure, write_alignment_report
from socialjepa_jax.validate import InputError

FLAGS = flags.FlagValues()  # of its own: launchers share names, and a process may import several
_text = partial(flags.DEFINE_string, flag_values=FLAGS)
_integer = partial(flags.DEFINE_integer, flag_values=FLAGS)
_bool = partial(flags.DEFINE_bool, flag_values=FLAGS)

_X = _text("x", None, "Embeddings to map from: .npy, .npz, .safetensors, .parquet.")
_Y = _text("y", None, "Embeddings to map to.")
_SPACES = flags.DEFINE_list(
    "spaces", [], "Three or more files with the same rows, instead.", flag_values=FLAGS
)
_OUT = _text("out", None, "Folder for the results.")
_IDS_X = _text("ids_x", None, "Unique ids of the rows of x, to pair by.")
_IDS_Y = _text("ids_y", None, "Unique ids of the rows of y.")
_IDS = _text("ids", None, "Names of rows that are already paired.")
_GROUPS = _text("groups", None, "What must not be split, by row of x; may repeat.")
_STRATA = _text("strata", None, "Shuffle null pairs only within these, by row of x.")
_LABELS = _text("labels", None, "Categories for probes and colours, by row of x.")
_KEY = _text("key", None, "Array or column, for files that hold several.")
_METHOD = _text("method", "ridge", "ridge, lstsq, procrustes, reduced_rank, robust.")
_RIDGE = _text("ridge", "auto", "Absolute lambda, or auto (10 group folds).")
_RANK = _integer("rank", None, "For reduced_rank.")
_STANDARDIZE = _text("standardize", "full", "full or center.")
_TEST = flags.DEFINE_float(
    "test_fraction", 0.2, "Share of rows held out, by whole groups.", flag_values=FLAGS
)
_SEED = _integer("seed", 0, "Of the split, the null and the intervals.")
_PERMUTATIONS = _integer("permutations", 20, "Fits on shuffled pairs.")
_RESAMPLES = _integer("resamples", 200, "Draws of groups for intervals.")
_DROP = _bool("drop_nonfinite", False, "Leave out rows with NaN or Inf.")
_OVERWRITE = _bool("overwrite", False, "Replace a report in --out.")


def main(argv: list[str]) -> None:
    """Runs the study that the arguments describe."""
    logging.getLogger("jax").setLevel(logging.WARNING)
    if "--help" in argv:
        print(f"{__doc__}\n{FLAGS.get_help()}")
        return
    try:
        unexpected = FLAGS(argv)[1:]
        if unexpected:
            raise InputError(f"unexpected argument {unexpected[0]!r}")
        out = _output_folder()
        if _SPACES.value:
            _align_spaces(out)
        else:
            _align_pair(out)
    except (InputError, flags.Error) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"Report: {out / 'report.html'}")


def _output_folder() -> Path:
    if not _OUT.value:
        raise InputError("give --out, a folder for the results")
    out = Path(_OUT.value)
    if (out / "report.html").exists() and not _OVERWRITE.value:
        raise InputError(f"--out={out} already holds a report; give --overwrite to replace it")
    if out.exists() and not out.is_dir():
        raise InputError(f"--out={out} is a file")
    return out


def _settings() -> study.Settings:
    ridge: float | str = _RIDGE.value
    if ridge != "auto":
        try:
            ridge = float(ridge)
        except ValueError as error:
            raise InputError(f"--ridge={ridge} is neither a number nor auto") from error
    return study.Settings(
        method=_METHOD.value,
        ridge=ridge,
        standardize=_STANDARDIZE.value,
        rank=_RANK.value,
        test_fraction=_TEST.value,
        seed=_SEED.value,
        permutations=_PERMUTATIONS.value,
        resamples=_RESAMPLES.value,
    )


def _align_pair(out: Path) -> None:
    if not (_X.value and _Y.value):
        raise InputError("give --x and --y, or --spaces")
    settings = _settings()
    x, y = (files.read_latents(path, _KEY.value) for path in (_X.value, _Y.value))
    rows_x, rows_y = _pair_rows(x, y)
    groups, strata, labels, items = (
        _column(flag, len(x), rows_x) for flag in (_GROUPS, _STRATA, _LABELS, _IDS)
    )
    if items is None:
        items = _column(_IDS_X, len(x), rows_x)
    x, y = x[rows_x], y[rows_y]
    found = study.run_study(x, y, settings, groups=groups, strata=strata)
    names = (Path(_X.value).stem, Path(_Y.value).stem)
    if names[0] == names[1]:
        names = (f"{names[0]} (x)", f"{names[1]} (y)")
    out.mkdir(parents=True, exist_ok=True)
    _write_maps(out, found)
    rows = [
        {"row": "given", "method": found.linear_map.method, "back": back, "metrics": metrics}
        for back, metrics in found.metrics.items()
    ]
    null = {key: float(np.nanmean(values)) for key, values in found.null.samples.items()}
    method = found.linear_map.method
    rows.append({"row": "mismatched", "method": method, "back": "forward", "metrics": null})
    common = {"x": names[0], "y": names[1], "split": "state", "seed": settings.seed}
    _write_json(out / "alignment.json", {"schema": 1, "rows": [{**common, **r} for r in rows]})
    probes = None if labels is None else _probes(found, x, y, labels)
    write_alignment_report(
        out / "report.html", found, x, y, names=names, items=items, labels=labels, probes=probes
    )


def _pair_rows(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ids_x = _column(_IDS_X, len(x), np.arange(len(x)))
    ids_y = _column(_IDS_Y, len(y), np.arange(len(y)))
    if (ids_x is None) != (ids_y is None):
        raise InputError("--ids_x and --ids_y go together")
    if ids_x is not None and ids_y is not None:
        rows_x, rows_y = pairing.match_ids(ids_x, ids_y)
    elif len(x) != len(y):
        raise InputError(
            f"{_X.value} has {len(x)} rows but {_Y.value} has {len(y)}; pair by --ids_x, --ids_y"
        )
    else:
        rows_x = rows_y = np.arange(len(x))
    bad = np.isin(rows_x, files.find_bad_rows(x)) | np.isin(rows_y, files.find_bad_rows(y))
    if bad.any() and not _DROP.value:
        listed = ", ".join(str(row) for row in rows_x[bad][:5]) + ", ..." * int(bad.sum() > 5)
        raise InputError(
            f"{bad.sum()} pairs hold NaN or Inf (rows {listed} of "
            f"{_X.value}); give --drop_nonfinite to leave them out"
        )
    return rows_x[~bad], rows_y[~bad]


def _column(flag: flags.FlagHolder, length: int, rows: np.ndarray) -> np.ndarray | None:
    if flag.value is None:
        return None
    column = files.read_column(flag.value)
    if len(column) != length:
        raise InputError(f"{flag.value} has {len(column)} entries for {length} rows")
    return column[rows]


def _probes(
    found: study.Study, x: np.ndarray, y: np.ndarray, labels: np.ndarray
) -> dict[str, float]:
    values, classes = np.unique(labels, return_inverse=True)
    test = np.zeros(len(x), bool)
    test[found.test_rows] = True
    own, oracle = (
        collaboration.fit_probe(z[~test], classes[~test], len(values), ridge="auto") for z in (x, y)
    )
    scores = {"x, its own probe": collaboration.accuracy(own, x[test], classes[test])}
    for kind in ("inverse", "regression", "procrustes"):
        carried = collaboration.transfer_probe(own, found.linear_map, kind=kind)
        scores[f"y, the probe of x carried by {kind}"] = collaboration.accuracy(
            carried, y[test], classes[test]
        )
    if x.shape[1] == y.shape[1]:
        raw = collaboration.accuracy(own, y[test], classes[test])
        scores["y, the probe of x as it is"] = raw
    scores["y, its own probe (oracle)"] = collaboration.accuracy(oracle, y[test], classes[test])
    scores["the most frequent class"] = float(np.bincount(classes[test]).max() / test.sum())
    return scores


def _write_maps(out: Path, found: study.Study) -> None:
    found.linear_map.save(out / "map.npz")
    export.to_safetensors(found.linear_map, out / "map.safetensors")
    export.to_onnx(found.linear_map, out / "map.onnx")
    (out / "apply_map.py").write_text(export.NUMPY_SNIPPET, encoding="utf-8")


def _write_json(path: Path, value: Any) -> None:
    """Writes JSON whole or not at all; values that are not finite become null."""

    def plain(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: plain(child) for key, child in node.items()}
        if isinstance(node, list):
            return [plain(child) for child in node]
        return None if isinstance(node, float) and not np.isfinite(node) else node

    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(plain(value), indent=1, allow_nan=False), encoding="utf-8")
    os.replace(partial, path)


def _align_spaces(out: Path) -> None:
    settings = _settings()
    if len(_SPACES.value) < 3:
        raise InputError(f"--spaces needs at least 3 files, got {len(_SPACES.value)}")
    spaces = [files.read_latents(path, _KEY.value) for path in _SPACES.value]
    if len({len(z) for z in spaces}) != 1:
        raise InputError(f"--spaces have different numbers of rows: {[len(z) for z in spaces]}")
    groups = _column(_GROUPS, len(spaces[0]), np.arange(len(spaces[0])))
    groups = np.arange(len(spaces[0])) if groups is None else groups
    test = pairing.hold_out(groups, settings.test_fraction, settings.seed)
    names = [Path(path).stem for path in _SPACES.value]
    rows: list[dict[str, Any]] = []
    r2 = np.eye(len(spaces))
    for i, x in enumerate(spaces):
        for j, y in enumerate(spaces):
            if i != j:
                linear_map = settings.fit(x[~test], y[~test], groups[~test])
                metrics = evaluate(linear_map, x[test], y[test], back="forward")
                r2[i, j] = metrics["r2"]
                rows.append(
                    {
                        "x": names[i],
                        "y": names[j],
                        "row": "given",
                        "split": "state",
                        "method": linear_map.method,
                        "back": "forward",
                        "seed": settings.seed,
                        "metrics": metrics,
                    }
                )
    cka = np.asarray([[cka_debiased(x[test], y[test]) for y in spaces] for x in spaces])
    hub = fit_hub([z[~test] for z in spaces])
    out.mkdir(parents=True, exist_ok=True)
    for name, linear_map in zip(names, hub.maps):
        linear_map.save(out / f"hub_{name}.npz")
    _write_json(out / "alignment.json", {"schema": 1, "rows": rows})
    _write_spaces_page(out / "report.html", names, r2, cka, hub.objective, int(test.sum()))


def _write_spaces_page(
    path: Path, names: list[str], r2: np.ndarray, cka: np.ndarray, objective: float, held: int
) -> None:
    album = Album(path)
    pictures = [
        album.add(key, matrix_figure(values, names, names, title=title), alt=title, caption=text)
        for key, values, title, text in (
            ("r2", r2, "R² on held-out rows", "From the row's space to the column's."),
            ("cka", cka, "CKA, debiased", "Without any map."),
        )
    ]
    lede = html.paragraph(
        f"One rotation a space to a common hub leaves {objective:.1%} of the variance "
        f"(0 %: the same shape). {len(names)} maps serve all pairs.",
        class_="lede",
    )
    columns = [tables.Column(name, name) for name in names]
    body = [tables.Row(a, dict(zip(names, map(float, r2[i])))) for i, a in enumerate(names)]
    table = tables.to_html(tables.Table(columns, body, "R² from \\ to"))
    sections = {"pairs": ("Every pair", html.join(html.pictures(*pictures), table))}
    page = html.page(f"{len(names)} spaces", f"{held} rows held out", lede, sections)
    path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv)
