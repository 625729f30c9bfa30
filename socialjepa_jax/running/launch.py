"""Shared by all commands: parses the flags, prints one line for bad input, exits with a code.

Exit codes: 0 done, 2 bad input, 3 stopped by a monitor, 75 interrupted and saved.
"""

import errno
import logging as python_logging
import os
import pathlib
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from absl import app, flags, logging

from socialjepa_jax.errors import InputError, Stopped

_HELP = {"--help", "-help", "--helpshort", "-h", "-?"}
_ROOT = str(pathlib.Path(__file__).parents[2])


def run(
    main: Callable[[], None],
    expand: Callable[[Sequence[str]], list[str]] = list,
    groups: Mapping[str, str] | None = None,
) -> None:
    """Parses the flags and calls `main`; exits with the code of `exit_status` if it raises.

    Args:
        main: the command.
        expand: rewrites the command line before it is parsed, as `presets.expand` does.
        groups: title -> names of flags, by which `--help` prints them; None: by name.
    """

    def guarded(argv: list[str]) -> None:
        _show_own_messages()
        sys.stdout, sys.stderr = Unheard(sys.stdout), Unheard(sys.stderr)
        try:
            if len(argv) > 1:
                raise InputError(f"unexpected argument {argv[1]!r}")
            main()
        except Exception as error:
            if exit_status(error)[0] == 1:
                raise
            _exit(error)

    _explain(main.__module__)
    if groups and not _HELP.isdisjoint(sys.argv[1:]):
        print(grouped_help(sys.modules["__main__"].__doc__ or "", flags.FLAGS, groups))
        sys.exit(1)  # as absl has it
    app.run(guarded, flags_parser=lambda argv: _parse(argv, expand))


def _explain(module: str) -> None:
    """Lets `--help` print the docstring and the flags of the module that a script calls.

    absl prints those of `__main__` alone, which is almost empty for an installed command.
    """
    if module != "__main__":
        sys.modules["__main__"].__doc__ = sys.modules[module].__doc__
        for flag in flags.FLAGS.get_key_flags_for_module(module):
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)


def grouped_help(doc: str, values: flags.FlagValues, groups: Mapping[str, str]) -> str:
    """Returns a docstring, and the flags of every group with their defaults.

    Args:
        doc: of the command.
        values: flags.
        groups: title -> names of flags, between spaces.
    """
    parts = [doc.strip()]
    for title, names in groups.items():
        parts.append("\n".join([f"{title}:", *(_flag_help(values[n]) for n in names.split())]))
    return "\n\n".join([*parts, "--helpfull prints the flags of the libraries too."])


def _flag_help(flag: flags.Flag) -> str:
    no = "[no]" if flag.boolean else ""
    given = "" if flag.default in (None, []) else (flag.default_as_str or "").strip("'")
    default = f" (default: {given})" if given else ""
    described = f"--{no}{flag.name}: {flag.help}{default}"
    return str(flags.text_wrap(described, indent="      ", firstline_indent="  "))


def exit_status(error: BaseException) -> tuple[int, str]:
    """Returns the exit code and the message of a command that an error ended."""
    if isinstance(error, InputError):
        return 2, f"error: {' '.join(str(error).split())}"
    if isinstance(error, Stopped):
        return error.exit_code, f"stopped: {error}"
    if platforms := _missing_platforms(error):
        return 2, f"error: JAX_PLATFORMS={platforms}: this machine has no such device"
    return 1, "".join(traceback.format_exception(error))


def _parse(argv: list[str], expand: Callable[[Sequence[str]], list[str]]) -> list[str]:
    try:
        return flags.FLAGS(expand(argv))
    except Exception as error:  # a config file is code and may raise anything
        if (refusal := _refusal(error)) is not None:
            _exit(refusal)
        # config_flags escapes some messages twice.
        text = str(error).replace("\\n", " ").replace("\\", "")
        frames = traceback.extract_tb(error.__traceback__)
        loading = any(f.name == "parse" and f.filename.endswith("config_flags.py") for f in frames)
        unknown = isinstance(error, AttributeError | LookupError) and not loading
        setting = _unknown(text, argv) if unknown else ""
        _exit(InputError(setting or f"{type(error).__name__}: {text}"))


def _refusal(error: BaseException | None) -> InputError | None:
    """Returns the first refusal in the chain of an error; None if there is none.

    config_flags and absl raise that of a config file anew, with a traceback in their message.
    """
    first = None
    while error is not None:
        first = error if isinstance(error, InputError) else first
        error = error.__cause__ or error.__context__
    return first


def _unknown(text: str, argv: Sequence[str]) -> str:
    """Names the override that config_flags found no setting for; "" if none fits its message."""
    name = re.match(r"['\"]*(?:Attribute .*\.)?(\w+)('?['\"]*$|' Did| does not exist)", text)
    similar = re.search(r'Did you mean "(\w+)"', text)
    for argument in argv[1:]:
        setting = argument.lstrip("-").partition("=")[0]
        fits = name[1] in re.findall(r"\w+", setting)[1:] if name else "[" in setting
        if fits:
            hint = f"; did you mean {similar[1]!r}?" if similar else ""
            return f"--{setting}: no such setting{hint}"
    return ""


def _missing_platforms(error: BaseException) -> str:
    """Returns the platforms that jax was asked for and did not find; "" for any other error."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or pathlib.Path(frames[-1].filename).name != "xla_bridge.py":
        return ""  # the errors have many types and words
    import jax  # late: some commands do without

    return str(jax.config.values["jax_platforms"] or "")


def _exit(error: Exception) -> NoReturn:
    code, message = exit_status(error)
    print(message, file=sys.stderr)
    sys.exit(code)


def _show_own_messages() -> None:
    """Prints this project's messages without a prefix, and only the warnings of other libraries."""
    handler = logging.get_absl_handler()
    handler.setFormatter(python_logging.Formatter("%(message)s"))
    handler.addFilter(
        lambda record: record.levelno >= python_logging.WARNING or _is_own(record.pathname)
    )


def _is_own(pathname: str) -> bool:
    """True if the file belongs to this project, and not to a library installed below its folder."""
    return pathname.startswith(_ROOT) and "site-packages" not in pathname[len(_ROOT) :]


class Unheard:
    """A standard stream whose writer goes on after its reader has ended.

    The reader is a pipe that was closed, or a terminal that has hung up.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes, or drops the text."""
        return self._unless_closed(self._stream.write, text) or len(text)

    def flush(self) -> None:
        """Flushes."""
        self._unless_closed(self._stream.flush)

    def _unless_closed(self, call: Callable[..., Any], *arguments: str) -> Any:
        try:
            return call(*arguments)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            # What is buffered is written again when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
