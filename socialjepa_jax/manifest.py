"""Makes or checks the digests of a data set's files (`data.manifest`).

    python -m socialjepa_jax.manifest --folder=photographs --make
    python -m socialjepa_jax.manifest --folder=photographs

The second form checks. Exit codes: 0 done, or all as recorded; 2 bad input, or a file that is not
as recorded.
"""

import pathlib

from absl import flags

from socialjepa_jax.data import manifest
from socialjepa_jax.errors import InputError
from socialjepa_jax.running import launch


def define_flags() -> None:
    """Only a program defines flags; modules that import this one have their own."""
    flags.DEFINE_string("folder", None, "Folder of the data set.", required=True)
    flags.DEFINE_bool("make", False, "Write the manifest instead of checking it.")


def main() -> None:
    """Makes or checks the manifest of the folder that the flags name."""
    folder = pathlib.Path(flags.FLAGS.folder).expanduser()
    if flags.FLAGS.make:
        print(f"{folder / manifest.NAME}: {len(manifest.make(folder))} files")
        return
    wrong = manifest.check(folder)
    for line in wrong[1:]:
        print(line)
    if wrong:
        raise InputError(f"{folder}: {len(wrong)} files are not as recorded; {wrong[0]}")
    print(f"{folder}: all files are as recorded")


if __name__ == "__main__":
    define_flags()
    launch.run(main)
