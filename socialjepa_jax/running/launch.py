"""What every command of the project shares: flags in, one clear line and an exit code out.

Exit codes: 0 done, 2 bad input, 3 stopped by a monitor, 75 interrupted and saved.
"""

import logging as python_logging
import pathlib
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from absl import app, flags, logging

from socialjepa_jax.errors import InputError, Stopped

_ROOT = str(pathlib.Path(__file__).parents[2])


def run(main: Callable[[], None], expand: Callable[[Sequence[str]], list[str]] = list) -> None:
    """Parses the flags and calls `main`; bad input becomes one line and exit code 2.

    Args:
        main: what to do.
        expand: what becomes of the arguments before they are parsed.
    """

    def guarded(argv: list[str]) -> None:
        _show_own_messages()
        try:
            if len(argv) > 1:
                raise InputError(f"unexpected argument {argv[1]!r}")
            main()
        except (InputError, Stopped) as error:
            code, message = verdict(error)
            print(message, file=sys.stderr)
            sys.exit(code)

    app.run(guarded, flags_parser=lambda argv: _parse(argv, expand))


def verdict(error: BaseException) -> tuple[int, str]:
    """The exit code of a program that an error ends, and what it says."""
    if isinstance(error, InputError):
        return 2, f"error: {' '.join(str(error).split())}"
    if isinstance(error, Stopped):
        return error.exit_code, f"stopped: {error}"
    return 1, "".join(traceback.format_exception(error))


def _parse(argv: list[str], expand: Callable[[Sequence[str]], list[str]]) -> list[str]:
    try:
        return flags.FLAGS(expand(argv))
    except SystemExit:
        raise
    except InputError as error:
        _refuse(str(error))
    except Exception as error:  # config files are code and may raise anything
        text = str(error).replace("\\n", " ").replace("\\", "")  # some arrive escaped twice
        _refuse(f"{type(error).__name__}: {text}")


def _refuse(message: str) -> NoReturn:
    code, line = verdict(InputError(message))
    print(line, file=sys.stderr)
    sys.exit(code)


def _show_own_messages() -> None:
    """Prints this project's messages as they are, and only warnings of the libraries it uses."""
    handler = logging.get_absl_handler()
    handler.setFormatter(python_logging.Formatter("%(message)s"))
    handler.addFilter(
        lambda record: record.levelno >= python_logging.WARNING or _is_own(record.pathname)
    )


def _is_own(pathname: str) -> bool:
    """Whether a message comes from this project, and not from a library installed below it."""
    return pathname.startswith(_ROOT) and "site-packages" not in pathname[len(_ROOT) :]
