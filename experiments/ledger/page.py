"""The page of all claims, and the marks by which documents cite them."""

# ruff: noqa: RUF001 (a true minus and a dash are meant)

import re
from collections.abc import Sequence
from dataclasses import asdict

from experiments.findings import VERDICTS
from experiments.ledger.entries import MODULES, Entry, Source
from experiments.ledger.figures import figure
from experiments.ledger.retired import Retired
from socialjepa_jax.report.tables import Column, Row, Table, format_number, to_markdown

_MARK = re.compile(r"<!--claim:(.+?)-->(.*?)<!--/claim-->", re.DOTALL)
_NUMBER = re.compile(r"[-−]?\d*\.?\d+")
_COLUMNS = (
    Column("paper", "printed or predicted"),
    Column("ours", "measured"),
    Column("std", "±"),
    Column("verdict", "verdict"),
    Column("note", "what was measured"),
)
_NUMBERS = "| --- | ---: | ---: | ---: | ---: | ---: |"
_WORDS_AND_NUMBERS = "| --- | --- | ---: | ---: | --- | --- |"
_HEAD = """# Claims

Every claim that an experiment has stored, with the number that decided it. This page is written by
`python -m experiments.ledger` from the files that it names, and a test fails where it is not what
they say. "printed or predicted" is a paper's number, or what was written down before the run; ± is
the spread that the experiment states, over seeds or pairs of agents; "–" means that the file holds
none. A claim that differs stays here, and one whose number was replaced is [retired](#retired).

"""


def page(sources: Sequence[Source], retired: Sequence[Retired] = ()) -> str:
    """Writes the page as Markdown."""
    parts = [_HEAD, _summary(sources), *map(_section, sources), _missing(sources), _gone(retired)]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _summary(sources: Sequence[Source]) -> str:
    columns = [Column(key, key, 0) for key in ("claims", *VERDICTS.values())]
    rows = [
        Row(f"[{source.experiment}](#{source.experiment})", _counts(source.entries))
        for source in sources
    ]
    every = [entry for source in sources for entry in source.entries]
    return to_markdown(Table(columns, [*rows, Row("all", _counts(every))], "experiment"))


def _counts(entries: Sequence[Entry]) -> dict[str, int]:
    verdicts = [VERDICTS[entry.agrees] for entry in entries]
    return {"claims": len(entries), **{name: verdicts.count(name) for name in VERDICTS.values()}}


def _section(source: Source) -> str:
    facts = "; ".join(f"{name} {value}" for name, value in source.facts.items())
    rows = [
        Row(
            entry.claim,
            {
                "paper": entry.paper or None,
                "ours": entry.ours,
                "std": entry.std,
                "verdict": VERDICTS[entry.agrees],
                "note": entry.note or None,
            },
        )
        for entry in source.entries
    ]
    lines = [f"## {source.experiment}", "", f"`{source.command}`", ""]
    lines += [f"From `{source.file}`{f': {facts}' if facts else ''}.", ""]
    table = to_markdown(Table(_COLUMNS, rows, "claim"))
    parts = ["\n".join(lines), table.replace(_NUMBERS, _WORDS_AND_NUMBERS, 1)]
    return "\n".join([*parts, figure(source.experiment)])


def _missing(sources: Sequence[Source]) -> str:
    held = {source.experiment for source in sources}
    names = ", ".join(f"`{name}`" for name in MODULES if name not in held)
    return (
        "## Not stored\n\nA run of these experiments writes its claims, and their numbers, where "
        "they were run, are in [Results](results.md), but no file with claims is kept here: "
        f"{names}.\n"
    )


def _gone(retired: Sequence[Retired]) -> str:
    columns = [
        Column("paper", "printed or predicted"),
        Column("ours", "was"),
        Column("verdict", "verdict then"),
        Column("date", "retired"),
        Column("why", "why"),
    ]
    rows = [Row(claim.claim, asdict(claim)) for claim in retired]
    table = to_markdown(Table(columns, rows, "claim")).replace("---:", "---") if rows else "None.\n"
    return (
        "## Retired\n\nNumbers that stood on this page and were replaced, as they stood; the claim "
        f"above, where there still is one, has the present number.\n\n{table}"
    )


def wrong_marks(text: str, entries: Sequence[Entry]) -> list[str]:
    """Finds what is wrong with the numbers of a document that cite claims.

    A number is cited as `<!--claim:EXPERIMENT/CLAIM-->0.98<!--/claim-->`: the measured one, rounded
    to the digits that are shown.

    Args:
        text: of the document.
        entries: all claims.

    Returns:
        A sentence for every citation that names no claim, or shows another number than its claim.
    """
    known = {entry.mark: entry.ours for entry in entries}
    found = []
    for mark, shown in _MARK.findall(text):
        numbers = _NUMBER.findall(shown)
        if mark not in known:
            found.append(f"{mark!r} is no stored claim")
        elif len(numbers) != 1 or not _rounds_to(known[mark], numbers[0]):
            value = format_number(known[mark], 4)
            found.append(f"{mark!r} has {value}, the document shows {shown.strip()!r}")
    return found


def _rounds_to(value: float, shown: str) -> bool:
    digits = len(shown.partition(".")[2])
    return float(f"{value:.{digits}f}") == float(shown.replace("−", "-"))
