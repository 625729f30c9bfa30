"""Applies the map of a report to a file of embeddings, in blocks of rows: it may exceed memory.

    socialjepa-align apply --map=report/map.npz --in=old.npy --out=mapped.npy

or `python -m socialjepa_jax.align apply`. The file is .npy or .parquet, whose other columns are
kept; the result has the same format, in float32, and appears when it is whole. Exit codes: 0 done,
2 bad input.
"""

import sys
import time
from functools import partial
from pathlib import Path

from absl import flags

from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.threads import one_blas_thread
from socialjepa_jax.collaboration import apply
from socialjepa_jax.errors import InputError, expand_user
from socialjepa_jax.running import launch

GROUPS = {  # of flags, for --help
    "Files": "map in key out",
    "How": "direction unit_norm batch",
}

_SECONDS = 5.0  # between two lines of progress


def cli() -> None:
    """Runs the command line of `socialjepa-align apply`, without its first word."""
    define_flags(flags.FLAGS)
    launch.run(_main, groups=GROUPS)


def _main() -> None:
    main(flags.FLAGS)


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    text = partial(flags.DEFINE_string, flag_values=values)
    text("map", None, "Map to apply: map.npz of a report.")
    text("in", None, "Embeddings, .npy or .parquet.")
    text("out", None, "File to write, of the same format.")
    text("key", None, "Column of embeddings of a parquet file with several.")
    flags.DEFINE_enum(
        "direction", "forward", apply.DIRECTIONS, "x to y, or back by the reverse regression.",
        flag_values=values,
    )  # fmt: skip
    flags.DEFINE_bool("unit_norm", False, "Divide rows by their norms.", flag_values=values)
    flags.DEFINE_integer("batch", apply.ROWS, "Rows of a block.", lower_bound=1, flag_values=values)


@one_blas_thread()
def main(values: flags.FlagValues) -> None:
    """Applies the map that the flags name."""
    given = {name: str(values[name].value or "") for name in ("map", "in", "out")}
    if not all(given.values()):
        raise InputError("give --map, --in and --out")
    paths = {name: Path(expand_user(path, f"--{name}")) for name, path in given.items()}
    if paths["in"].resolve() == paths["out"].resolve():
        raise InputError(f"--out={paths['out']} is the file of --in")
    if not paths["out"].parent.is_dir():
        raise InputError(f"--out={paths['out']}: its folder does not exist")
    application = apply.Application(
        LinearMap.load(paths["map"]), values.direction, values.unit_norm, values.batch, values.key
    )
    rows = apply.apply_to_file(application, paths["in"], paths["out"], Reported())
    print(f"{rows:,} rows: {paths['out']}")


class Reported:
    """Prints progress: the first block, then a line every five seconds."""

    def __init__(self) -> None:
        self._next = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Prints how many rows are done, if it is time."""
        if time.monotonic() >= self._next:
            print(f"{done:,} of {total:,} rows", file=sys.stderr, flush=True)
            self._next = time.monotonic() + _SECONDS
