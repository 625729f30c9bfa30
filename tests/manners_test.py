"""Files beside the code: versions agree, what they name exists, the workflow runs what CI runs."""

import configparser
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PAGES = ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]


def setup():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


def test_one_version():
    version = setup()["metadata"]["version"]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    cited = re.search(r"^version: (\S+)", (ROOT / "CITATION.cff").read_text(), re.M)[1]
    assert newest == cited == version


def test_papers_are_cited_as_the_readme_links_them():
    cited = re.findall(r"url: (https://arxiv\.org/\S+)", (ROOT / "CITATION.cff").read_text())
    assert cited and all(f"]({url})" in (ROOT / "README.md").read_text() for url in cited)


def test_the_workflow_runs_what_lands_a_change():
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    versions = re.findall(r"python: \[(.*)\]", text)
    assert versions == ['"3.11", "3.12"'] * 2  # of both jobs
    assert ".ci/run" in text and "pip wheel" in text
    assert setup()["options"]["python_requires"] == ">=3.11"


def test_long_tests_run_every_night():
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    assert re.search(r'^    - cron: "\d+ \d+ \* \* \*"$', text, re.M)
    assert re.search(r"^ +- run: pytest -m nightly$", text, re.M)


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page):
    text = (ROOT / page).read_text()
    links = re.findall(r"\]\((?!http)([^)#]+)", text)
    spans = re.findall(r"`([^`\s]+)`", text)
    files = {s for s in spans if re.fullmatch(r"[\w.]+(/[\w.]+)*(\.(py|md)|/)|\.ci/run", s)}
    written = {"report/apply_map.py"}  # by a command
    rooms = [ROOT, ROOT / "socialjepa_jax"]
    missing = [n for n in files - written if not any((room / n).exists() for room in rooms)]
    assert not missing and not [link for link in links if not (ROOT / link).exists()]


def test_the_commands_of_a_contributor_are_those_of_ci():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    ci = (ROOT / ".ci" / "run").read_text()
    for command in ("ruff check .", "ruff format --check .", "mypy"):
        assert f"`{command}`" in text and re.search(f"^{re.escape(command)}( &)?$", ci, re.M)
    assert re.search(r"^mypy &\ntypes=\$!$", ci, re.M) and re.search(r'^wait "\$types"$', ci, re.M)
    assert "pip install -e '.[test]' && pytest" in text


def test_the_second_step_builds_documentation_and_notebooks():
    ci = (ROOT / ".ci" / "run").read_text()
    first, second = ci.split("echo", 2)[1:]
    assert "eval" in first and "mkdocs" not in first and "ruff" not in first
    assert re.search(r"^NO_MKDOCS_2_WARNING=1 mkdocs build .*--strict", second, re.M)
    assert re.search(r"^pytest -m nightly .*tests/notebooks_test\.py -k \w+$", second, re.M)
