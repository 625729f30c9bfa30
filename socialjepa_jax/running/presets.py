"""Presets: the configurations that are installed with the package, selected by `--preset=NAME`."""

import os
import pathlib
from collections.abc import Sequence

from socialjepa_jax.errors import InputError

_FOLDER = pathlib.Path(__file__).parents[2] / "configs"  # installed beside the package
PRESETS = {
    name: _FOLDER / f"{name}.py"
    for name in (
        "motion_lejepa",
        "motion_conv",
        "motion_vits",
        "motion_migration",
        "motion_mutual",
        "reacher_lejepa",
        "toys_ijepa",
        "toys_ijepa_vits",
        "toys_lejepa",
        "toys_mae",
        "smallnorb_ijepa",
        "nuscenes_ijepa",
        "eth80_ijepa",
        "eth80_lejepa",
        "folder_ijepa",
        "imagenet_ijepa",
        "imagenet_lejepa",
        "imagenet_lejepa_resnet50",
        "smoke",
    )
}


def expand(argv: Sequence[str]) -> list[str]:
    """Replaces `--preset=NAME` by `--config=FILE`, and `~` in FILE by a home folder.

    `--preset=NAME:CHOICE` becomes `--config=FILE:CHOICE`, which calls `get_config(CHOICE)`. Only
    the names in `PRESETS` are accepted, since a config file is executed.

    Raises:
        InputError: the preset does not exist, or a config is given too.
    """
    given = [argument for argument in argv if _is_flag(argument, "preset")]
    if not given:
        return [_expand_home(argument) for argument in argv]
    if len(given) > 1 or any(_is_flag(argument, "config") for argument in argv):
        raise InputError("give one --preset=NAME or one --config=FILE")
    name, colon, choice = given[0].partition("=")[2].partition(":")
    if name not in PRESETS:
        raise InputError(f"--preset={name!r} must be one of {', '.join(PRESETS)}")
    file = f"--config={PRESETS[name]}{colon}{choice}"
    return [file if argument in given else argument for argument in argv]


def _expand_home(argument: str) -> str:
    flag, _, path = argument.partition("=")
    return (
        f"{flag}={os.path.expanduser(path)}" if _is_flag(argument, "config") and path else argument
    )


def _is_flag(argument: str, name: str) -> bool:
    return argument.lstrip("-").partition("=")[0] == name and argument.startswith("-")
