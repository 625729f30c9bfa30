"""Claims that are no longer held: a measurement took another's place, or its experiment went."""

import json
import pathlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from experiments.ledger.entries import GOLDEN
from socialjepa_jax.errors import InputError
from socialjepa_jax.records import write_json

FILE = GOLDEN / "retired.json"


@dataclass(frozen=True)
class Retired:
    """One claim, as the page last showed it.

    Attributes:
        claim: its mark, `EXPERIMENT/CLAIM`.
        paper: the printed number or the prediction.
        ours: the measured number.
        verdict: of that number.
        date: on which it was retired, YYYY-MM-DD.
        why: the reason, one sentence.
    """

    claim: str
    paper: str
    ours: str
    verdict: str
    date: str
    why: str


def read(path: pathlib.Path | None = None) -> list[Retired]:
    """Reads the retired claims, the oldest first, from `FILE` if no path is given.

    Raises:
        InputError: one of them has no reason.
    """
    path = path or FILE
    found = [Retired(**row) for row in json.loads(path.read_text("utf-8"))["retired"]]
    for claim in found:
        if not claim.why.strip():
            raise InputError(f"{path}: {claim.claim!r} was retired without a reason")
    return found


def write(claims: Sequence[Retired], path: pathlib.Path | None = None) -> None:
    """Writes the retired claims, to `FILE` if no path is given."""
    write_json(path or FILE, {"retired": [asdict(claim) for claim in claims]})


def replaced(before: str, after: str, why: str) -> list[Retired]:
    """Finds the claims of an earlier page whose number or verdict is no longer shown.

    Args:
        before: text of the earlier page.
        after: text of the new page.
        why: the reason of all changes; "" if none is expected.

    Returns:
        The claims as they were, dated today.

    Raises:
        InputError: there are some, and no reason.
    """
    old, new = _rows(before), _rows(after)
    gone = [mark for mark, row in old.items() if row[1:] != new.get(mark, row[:1])[1:]]
    if gone and not why:
        raise InputError(
            f"--why must state why {len(gone)} claims changed or went, {gone[0]!r} first: they "
            "stay listed as retired"
        )
    today = time.strftime("%Y-%m-%d")
    return [Retired(mark, *old[mark], today, why) for mark in gone]


def _rows(text: str) -> dict[str, tuple[str, ...]]:
    """Returns what a page shows of every claim, (paper, number, verdict), by the claim's mark."""
    found = {}
    for section in text.split("\n## ")[1:]:
        experiment, *lines = section.splitlines()
        for line in [line for line in lines if line.startswith("| ")][2:]:
            cells = [cell.replace("\\|", "|") for cell in line[2:-2].split(" | ")]
            if len(cells) == len(("claim", "paper", "ours", "std", "verdict", "note")):
                found[f"{experiment}/{cells[0]}"] = (cells[1], cells[2], cells[4])
    return found
