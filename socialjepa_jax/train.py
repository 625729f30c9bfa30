"""Trains agents and reports how their latent spaces relate.

    python -m socialjepa_jax.train --config=configs/toys_ijepa.py --workdir=runs/toys

Settings are overridden as `--config.run.steps=200`. The config file is Python and is executed.
Exit codes: 0 done, 2 bad input, 3 stopped by a monitor, 75 interrupted and saved (run it again).
"""

import logging as python_logging
import pathlib
import sys

from absl import app, flags, logging
from ml_collections import config_flags

from socialjepa_jax import config as config_lib
from socialjepa_jax import loop
from socialjepa_jax.validate import InputError

_CONFIG = config_flags.DEFINE_config_file("config", None, "What to run.", lock_config=True)
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Folder of the run; an existing run is resumed.", required=True
)
flags.mark_flag_as_required("config")


def parse(argv: list[str]) -> list[str]:
    """Parses the flags; whatever is wrong with them or the config file becomes one line."""
    try:
        return flags.FLAGS(argv)
    except SystemExit:
        raise
    except Exception as error:  # config files are code and may raise anything
        text = " ".join(str(error).split()) or repr(error)
        print(f"error: {type(error).__name__}: {text}", file=sys.stderr)
        sys.exit(2)


def show_own_messages() -> None:
    """Prints this program's messages as they are, and only warnings of the libraries it uses."""
    own = str(pathlib.Path(__file__).parent)
    handler = logging.get_absl_handler()
    handler.setFormatter(python_logging.Formatter("%(message)s"))
    handler.addFilter(
        lambda record: record.levelno >= python_logging.WARNING or record.pathname.startswith(own)
    )


def main(argv: list[str]) -> None:
    """Runs the experiment that the flags describe."""
    show_own_messages()
    try:
        if len(argv) > 1:
            raise InputError(f"unexpected argument {argv[1]!r}")
        experiment = config_lib.from_config_dict(_CONFIG.value)
        workdir = pathlib.Path(_WORKDIR.value)
        loop.use_compilation_cache(loop.cache_folder(workdir) / "xla")
        report = loop.fit(experiment, workdir).report
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except loop.Stopped as stop:
        print(f"stopped: {stop}", file=sys.stderr)
        sys.exit(stop.exit_code)
    print(f"Report: {report}")


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
