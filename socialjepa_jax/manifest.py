"""Command that writes or checks a dataset's manifest; `data.manifest` holds the functions.

    python -m socialjepa_jax.manifest --folder=photographs --make   # writes manifest.json
    python -m socialjepa_jax.manifest --folder=photographs          # checks it

Exit codes: 0 written, or all files are as recorded; 2 bad input, or a file is not as recorded.
"""

import pathlib

from absl import flags

from socialjepa_jax.data import manifest
from socialjepa_jax.data.files import printable
from socialjepa_jax.errors import InputError, expand_user
from socialjepa_jax.running import launch


def define_flags() -> None:
    """Defines the command's flags. Importing the module defines none."""
    flags.DEFINE_string("folder", None, "Folder of the dataset.", required=True)
    flags.DEFINE_bool("make", False, "Write the manifest instead of checking it.")


def main() -> None:
    """Writes or checks the manifest of `--folder`."""
    folder = pathlib.Path(expand_user(flags.FLAGS.folder, "--folder"))
    if flags.FLAGS.make:
        print(f"{folder / manifest.NAME}: {len(manifest.make(folder))} files")
        return
    wrong = manifest.check(folder)
    for line in wrong[1:]:
        print(printable(line))
    if wrong:
        raise InputError(f"{folder}: {len(wrong)} files are not as recorded; {wrong[0]}")
    print(f"{folder}: all files are as recorded")


if __name__ == "__main__":
    define_flags()
    launch.run(main)
