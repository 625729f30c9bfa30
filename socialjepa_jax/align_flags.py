"""Flags of `socialjepa-align`, and what they say of files and settings."""

import dataclasses
from functools import partial
from typing import Any

from absl import flags

from socialjepa_jax.alignment.fitting import METHODS
from socialjepa_jax.alignment.migration.decision import GATES
from socialjepa_jax.alignment.migration.reading import QuerySources
from socialjepa_jax.alignment.migration.search import SIMILARITIES
from socialjepa_jax.alignment.study.inputs import Column, Sources
from socialjepa_jax.alignment.study.settings import Settings
from socialjepa_jax.errors import InputError, expand_user

GROUPS = {  # of flags, for --help
    "Inputs": "x y spaces key key_x key_y labels labels_key drop_nonfinite",
    "Pairing and splitting": "ids_x ids_y ids ids_key groups groups_key test_fraction seed",
    "Queries and decision": "queries_x queries_y answers answers_key similarity retention gate",
    "The map": "method ridge rank trim scale standardize all_pairs",
    "Nulls and intervals": "permutations resamples strata strata_key",
    "Output": "out umap overwrite",
}


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
    boolean("all_pairs", False, "Save the map of all pairs; what is measured is fitted on a part.")
    real("test_fraction", 0.2, "Share of the rows that is held out, by whole groups.")
    integer("seed", 0, "Seed of the split, the null and the intervals.", lower_bound=0)
    integer("permutations", 20, "Number of fits on shuffled pairs; 0: no null.", lower_bound=0)
    integer("resamples", 200, "Bootstrap draws of groups; 0: no intervals.", lower_bound=0)
    boolean("drop_nonfinite", False, "Leave out rows with NaN or Inf instead of refusing.")
    boolean("umap", True, "Draw UMAP figures too (some seconds; needs umap-learn).")
    boolean("overwrite", False, "Replace an existing report in --out.")


def settings(values: flags.FlagValues) -> Settings:
    """Returns the settings of the study."""
    ridge: float | str = values.ridge
    if ridge != "auto":
        try:
            ridge = float(ridge)
        except ValueError as error:
            raise InputError(f"--ridge={ridge} is neither a number nor auto") from error
    names = [field.name for field in dataclasses.fields(Settings) if field.name != "ridge"]
    given: dict[str, Any] = {name: values[name].value for name in names}
    return Settings(ridge=ridge, **given)


def sources(values: flags.FlagValues) -> Sources:
    """Returns the files of the spaces, and refuses flags that do not go together."""
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
    for name in ("gate", "all_pairs"):
        if values[name].value and values.spaces:
            raise InputError(f"--{name} goes with --x and --y")
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


def query_sources(values: flags.FlagValues) -> QuerySources | None:
    """Returns the files of queries; None if there are none."""
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
