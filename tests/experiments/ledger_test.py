"""The page of claims is what the stored files say, and documents cite what is stored."""

# ruff: noqa: RUF001 (a true minus and a dash are meant)

import json
import pathlib
import re

import pytest

from experiments.ledger import __main__ as command
from experiments.ledger import entries, figures, page, retired
from socialjepa_jax.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
TEXT = (ROOT / "docs" / "claims.md").read_text("utf-8")
SOURCES = entries.sources()
ENTRIES = [entry for source in SOURCES for entry in source.entries]
FILES = [ROOT / source.file for source in SOURCES]


def rows(experiment):
    """Cells of the table of an experiment's section of the page."""
    section = TEXT.split(f"\n## {experiment}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines[2:]]


def test_the_page_is_made_of_the_stored_files():
    assert page.page(SOURCES, retired.read()) == TEXT, "run python -m experiments.ledger"


def test_every_stored_claim_has_a_row_with_its_verdict():
    """Read again from the files, without the code that wrote the page."""
    total = 0
    for path in FILES:
        stored = json.loads(path.read_text("utf-8"))
        claims = [*stored["claims"]]
        for world in stored.get("failing", {}).get("worlds", {}).values():
            claims += world["claims"]
        shown = rows(stored.get("name", path.stem))
        verdicts = {True: "agrees", False: "differs", None: "not comparable"}
        words = [verdicts[claim["agrees"]] for claim in claims]
        assert [row[4] for row in shown] == words
        for claim, row in zip(claims, shown, strict=True):
            value = float(row[2].replace("−", "-"))
            tolerance = 0.051 if abs(value) < 1e4 else 0.05 * abs(value)  # 1.3e5 has two digits
            assert row[0] == claim["id"]
            assert value == pytest.approx(claim["ours"], abs=tolerance, rel=0)
        total += len(claims)
    assert f"| all | {total} |" in TEXT and total > 100


def test_no_file_with_claims_is_left_out():
    golden = (ROOT / "tests" / "golden").rglob("*.json")
    texts = {path: json.loads(path.read_text("utf-8")) for path in golden}
    held = {path for path, text in texts.items() if isinstance(text, dict) and text.get("claims")}
    assert held <= set(FILES) and entries.MOTION_TABLE in FILES


def test_commands_are_those_of_the_heads():
    commands = {source.experiment: source.command for source in SOURCES}
    assert commands["motion_five"] == (
        "python -m experiments.reproduce --only=motion_five --out=runs/motion_five"
    )
    assert all(text.startswith("python -m experiments.") for text in commands.values())
    assert all(f"`{text}`" in TEXT for text in commands.values())


def test_figures_of_results_stand_with_their_claims():
    """Each with the words of the page that shows it, and none is left out but those named here."""
    others = {"motion_worlds.png", "reacher_cells.png"}  # a gallery; a second one of reacher_ou
    shown = {}
    for path in [DOCS / "results.md", *(DOCS / "tables").glob("*.md")]:
        for alt, name in re.findall(r"!\[(.+?)\]\((\S+?)\)", path.read_text("utf-8")):
            shown[str((path.parent / name).relative_to(DOCS))] = alt
    claimed = {}
    for section in TEXT.split("\n## ")[1:]:
        for alt, name in re.findall(r"!\[(.+?)\]\((\S+?)\)", section):
            claimed[name] = alt
            assert (DOCS / name).exists() and section.splitlines()[0] in figures.FIGURES
    assert claimed == {name: alt for name, alt in shown.items() if name not in others}
    assert figures.figure("table8_nos_k") == ""


def write(folder, name, **stored):
    path = folder / f"{name}.json"
    path.write_text(json.dumps(stored))
    return path


def claim(**changed):
    return {"id": "state", "paper": 0.9, "ours": -0.1254, "agrees": None, "std": None} | changed


def test_what_a_file_holds_is_read(tmp_path):
    environment = {"jax": "0.10.2", "python": "3.11.7", "revision": "0123456789"}
    path = write(
        tmp_path, "motion_five", scale="cpu", environment=environment,
        claims=[claim(note="not comparable: other data."), claim(id="W", agrees=True, std=0.02)],
    )  # fmt: skip
    (source,) = entries.sources([path])
    assert source.facts == {
        "scale": "cpu", "Python": "3.11.7", "jax": "0.10.2", "revision": "0123456"
    }  # fmt: skip
    first, second = source.entries
    assert (first.paper, first.ours, first.note) == ("0.9", -0.1254, "other data.")
    assert second.mark == "motion_five/W" and second.std == 0.02
    text = page.page([source])
    assert "| state | 0.9 | −0.125 | – | not comparable | other data. |" in text
    assert "| W | 0.9 | −0.125 | 0.020 | agrees | – |" in text
    assert "| all | 2 | 1 | 0 | 1 |" in text


def kept(paper, ours, verdict):
    row = f"| a \\| b | {paper} | {ours} | – | {verdict} | x |"
    return f"# Claims\n\n## motion_five\n\n| claim | a |\n| --- | --- |\n{row}\n"


def test_a_number_that_changes_is_retired_with_its_reason():
    old = kept("0.9", "−0.125", "differs") + "\n## other\n\n| name | 1 |\n"
    assert retired.replaced(old, kept("in words", "−0.125", "differs"), "") == []
    for new in (kept("0.9", "0.910", "differs"), kept("0.9", "−0.125", "agrees"), ""):
        with pytest.raises(InputError, match=r"--why .* 1 claims .*'motion_five/a \| b'"):
            retired.replaced(old, new, "")
        (gone,) = retired.replaced(old, new, "rounding")
        assert (gone.claim, gone.paper, gone.ours) == ("motion_five/a | b", "0.9", "−0.125")
        assert (gone.verdict, gone.why) == ("differs", "rounding")
        shown = page.page([], [gone]).split("\n## Retired\n")[1]
        assert (
            "| motion_five/a \\| b | 0.9 | −0.125 | differs | 20" in shown
            and "| rounding |" in shown
        )


def test_retired_claims_stay_on_the_page(tmp_path):
    """Every stored one has a row that is not the present number; a second run retires nothing."""
    for claim in retired.read():
        assert f"| {claim.claim} | " in TEXT.split("\n## Retired\n")[1]
        now = next((entry for entry in ENTRIES if entry.mark == claim.claim), None)
        assert now is None or f"{now.ours:.3f}".replace("-", "−") != claim.ours
    assert len(retired.read()) >= 3
    assert retired.replaced(TEXT, page.page(SOURCES, retired.read()), "") == []
    with pytest.raises(InputError, match="without a reason"):
        path = tmp_path / "retired.json"
        retired.write([retired.Retired("a/b", "1", "2", "differs", "2026-01-01", " ")], path)
        retired.read(path)


def test_the_command_asks_for_a_reason_before_it_writes(tmp_path, monkeypatch, call_main):
    before, page_file = kept("0.9", "1.000", "agrees"), tmp_path / "claims.md"
    page_file.write_text(before)
    retired_file = tmp_path / "retired.json"
    retired.write([], retired_file)
    monkeypatch.setattr(command, "PAGE", page_file)
    monkeypatch.setattr(entries, "ROOT", tmp_path)
    monkeypatch.setattr(entries, "sources", lambda: [])
    monkeypatch.setattr(retired, "FILE", retired_file)
    with pytest.raises(InputError, match="--why"):
        call_main(command)
    assert page_file.read_text() == before and retired.read() == []
    call_main(command, "--why=the experiment went")
    assert "| motion_five/a \\| b | 0.9 | 1.000 | agrees | 20" in page_file.read_text()
    assert [claim.why for claim in retired.read()] == ["the experiment went"]
    call_main(command)  # what is retired stays, without a reason given again
    assert len(retired.read()) == 1 and "the experiment went" in page_file.read_text()


def test_unknown_experiments_and_equal_names_are_refused(tmp_path):
    with pytest.raises(InputError, match="'nothing' is no experiment"):
        entries.sources([write(tmp_path, "nothing", claims=[claim()])])
    twice = write(tmp_path, "motion_five", claims=[claim(), claim()])
    with pytest.raises(InputError, match="'motion_five/state' is stored twice"):
        entries.sources([twice])
    assert entries.sources([write(tmp_path, "motion_arm", rows=[])]) == []


@pytest.mark.parametrize(
    ("shown", "wrong"),
    [
        ("−0.125", 0), ("-.13", 0), ("0", 0), ("−0.1", 0), ("0.125", 1), ("−0.126", 1),
        ("about", 1), ("−0.125 to 0.3", 1),
    ],
)  # fmt: skip
def test_a_cited_number_is_that_of_its_claim(shown, wrong):
    entry = entries.Entry("motion_five", "a b/state", "", -0.1254, None, True, "")
    text = f"R2 is <!--claim:motion_five/a b/state-->{shown}<!--/claim--> here."
    assert len(page.wrong_marks(text, [entry])) == wrong
    assert page.wrong_marks(text, []) == ["'motion_five/a b/state' is no stored claim"]


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.name
)
def test_documents_cite_stored_claims(path):
    assert page.wrong_marks(path.read_text("utf-8"), ENTRIES) == []
