"""One change of the code that at least one test must notice."""

import hashlib
import pathlib
from dataclasses import astuple, dataclass


class DoesNotApplyError(Exception):
    """The text that a mutant replaces is not in its file exactly once."""


@dataclass(frozen=True)
class Mutant:
    """A change of one place.

    Attributes:
        name: what is wrong after it, in a few words; unique.
        path: file, from the root of the repository.
        old: the text that is replaced; it occurs exactly once.
        new: what takes its place.
        tests: files or node ids of pytest, at least one of which must fail.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def deletes(self) -> bool:
        """True if the change only takes a piece of the text away."""
        less = len(self.old) - len(self.new)
        cut = (self.old[:i] + self.old[i + less :] for i in range(len(self.new) + 1))
        return less > 0 and self.new in cut

    def applied(self, root: pathlib.Path) -> str:
        """Returns the changed text of the file.

        Args:
            root: of the repository or of a copy.

        Raises:
            DoesNotApplyError: the old text does not occur exactly once.
        """
        text = (root / self.path).read_text("utf-8")
        if (count := text.count(self.old)) != 1:
            raise DoesNotApplyError(
                f"{self.name}: {self.path} has its text {count} times, not once"
            )
        return text.replace(self.old, self.new)

    def digest(self, root: pathlib.Path) -> str:
        """Returns a digest of the change, the file it changes and the files of its tests."""
        paths = [self.path, *sorted({test.partition("::")[0] for test in self.tests})]
        parts = [repr(astuple(self)).encode(), *((root / path).read_bytes() for path in paths)]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
