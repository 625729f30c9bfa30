"""One change of the code that at least one test must notice."""

from dataclasses import dataclass


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
