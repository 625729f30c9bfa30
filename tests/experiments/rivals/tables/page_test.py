"""The page of all methods: its order, its links, and what a reader sees without a script."""

# ruff: noqa: RUF001 (a dash is meant)

import re
from html.parser import HTMLParser

import pytest

from experiments.rivals.tables import leaderboard, paradigms, photographs
from experiments.rivals.tables import page as methods_page
from experiments.rivals.tables.entrants import ENTRANTS, REFERENCES, RIVALS
from socialjepa_jax.errors import InputError
from socialjepa_jax.report.tables import Interval
from tests.experiments.rivals.tables.made import with_trials

VOID = {"img", "br", "meta", "input"}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "leaderboard.html"
    methods_page.write(with_trials(), path)
    return path.read_text("utf-8")


def test_a_run_leaves_the_methods_as_one_page(tmp_path, monkeypatch):
    """On toys, and on photographs beside the toys of the same folder."""
    asked = []
    monkeypatch.setattr(paradigms, "measured", lambda *given: asked.append(given) or with_trials())
    toys = paradigms.run("cpu", tmp_path)
    eth80 = photographs.run("cpu", tmp_path, "file.npz")
    given = ("cpu", tmp_path)
    assert asked == [given, given, (*given, "file.npz")]
    for found, name, images in ((toys, "paradigms", "Toys"), (eth80, "eth80", "ETH-80")):
        assert found.title.endswith(images)
        page = (tmp_path / f"table1_{name}.html").read_text("utf-8")
        assert f"{images}, two cameras" in page and all(name in page for name in ENTRANTS)
    with pytest.raises(InputError, match="table1_eth80 needs --eth80=FILE"):
        photographs.run("cpu", tmp_path)


class Reader(HTMLParser):
    """Open elements, all ids, links, and the text of each table's cells."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.tables, self.sources = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []
        self.sources += [found[key] for key in ("src", "srcset") if key in found]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def read(page):
    reader = Reader()
    reader.feed(page)
    assert not reader.open
    return reader


def test_a_page_is_one_file_whose_links_lead_somewhere(page, read):
    assert not read.sources and "http" not in page and "@import" not in page
    assert len(set(read.ids)) == len(read.ids)
    assert {link.removeprefix("#") for link in read.links} <= set(read.ids)
    assert set(ENTRANTS) <= set(read.ids)


def test_both_tables_hold_every_method_by_area(read):
    images, work = read.tables
    assert len(images) == 1 + len(ENTRANTS) + 1 and len(work) == 1 + len(RIVALS)
    area = [float(line[1].partition("[")[0]) for line in images[1:-1]]
    assert area == sorted(area, reverse=True)
    assert images[-1][0].startswith("pixel PCA")
    references = [line[0] for line in images[1:] if line[0].endswith("reference")]
    assert len(references) == len(REFERENCES)
    for table in read.tables:
        assert {len(line) for line in table} == {len(table[0])}


def test_numbers_sort_as_they_are_shown(page):
    cells = re.findall(r'<td data-value="([^"]*)">(?:<strong>)?([^<]*)', page)
    images, work = len(leaderboard.IMAGES), len(leaderboard.WORK)
    assert len(cells) == images * (len(ENTRANTS) + 1) + work * len(RIVALS)
    for value, shown in cells:
        if value:
            assert float(value) == pytest.approx(float(shown), abs=0.51, rel=0.01)
        else:
            assert shown == "–"


def test_bars_begin_and_end_where_the_interval_does():
    found = methods_page._bar(Interval(0.5, 0.25, 1.5))
    assert "left:25.0%;width:75.0%" in found and "left:50.0%" in found
    assert methods_page._bar(Interval(0.5, float("nan"), float("nan"))) == ""
    assert methods_page._bar(None) == ""


def test_training_adds_where_the_interval_excludes_zero(read):
    assert [leaderboard.adds(Interval(0, *ends)) for ends in
            ((0.1, 0.2), (-0.2, -0.1), (-0.1, 0.2))] == ["yes", "no", "not shown"]  # fmt: skip
    lines = read.tables[0][1:]
    assert all("yes" in line[2] for line in lines[:-1]) and lines[-1][2] == "–"


def test_the_short_table_has_the_rivals_in_the_order_of_the_page(read):
    lines = leaderboard.markdown(with_trials()).strip().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names = [line[0] for line in cells[2:]]
    shown = [line[0] for line in read.tables[0][1:] if line[0] in RIVALS]
    assert names == [*shown, "pixel PCA"] and len(shown) == len(RIVALS)
    assert [line[3] for line in cells] == [
        "training adds", "---:", *["yes"] * len(RIVALS), "–"
    ]  # fmt: skip
    assert {line[2] for line in cells[2:-1]} == {"0.200"}  # of the untrained
    assert cells[-1] == ["pixel PCA", "20.000", "–", "–", "20.000", "20.0", "20.0"]
    best = [[line[k].strip("*") for line in cells[2:] if line[k].startswith("**")] for k in (1, 4)]
    assert [len(column) for column in best] == [1, 1] and best[1] == ["0.950"]
