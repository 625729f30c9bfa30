"""The page of claims is what the stored files say, and documents cite what is stored."""

# ruff: noqa: RUF001 (a true minus and a dash are meant)

import json
import pathlib

import pytest

from experiments.ledger import entries, page
from socialjepa_jax.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
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
    assert page.page(SOURCES) == TEXT, "run python -m experiments.ledger"


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
