"""Verdicts of the figures, and the table that `bench_reliability` makes of them."""

import pytest

from experiments.bench import reliability
from experiments.reliability.fixture import Figures
from socialjepa_jax.errors import InputError

GOOD = Figures.of(exit_codes=([75, 0], True), difference=(1.25e-7, True))
BAD = Figures.of(exit_codes=([75, 1], False), difference=(1.25e-7, True))


def test_every_figure_must_hold():
    assert GOOD.passed and not BAD.passed
    assert GOOD["exit codes"] == [75, 0] and GOOD["difference"] == 1.25e-7
    assert str(GOOD) == "exit codes [75, 0], difference 1.25e-07"


def test_cases_pass_if_there_are_any_and_none_is_wrong():
    assert Figures.of_cases(3, []).passed
    assert not Figures.of_cases(3, ["the second"]).passed and not Figures.of_cases(0, []).passed
    assert str(Figures.of_cases(3, ["the second"])) == "cases 3, wrong ['the second']"


def test_one_part_that_fails_is_named_and_fails_all():
    assert Figures.of_parts(kill=GOOD, late=GOOD).passed
    found = Figures.of_parts(kill=GOOD, second_signal=BAD)
    assert not found.passed and found["second signal: exit codes"] == [75, 1]


def good(fixture):
    return GOOD


def bad(fixture):
    return BAD


def raises(fixture):
    raise OSError("no room")


@pytest.fixture
def checks(monkeypatch):
    monkeypatch.setattr(reliability, "CHECKS", {good: "equal", bad: "equal", raises: "none"})
    monkeypatch.setenv("SOCIALJEPA_RELIABILITY", "")  # set by `run`


def test_the_table_has_a_line_for_each_check(checks, tmp_path, capsys):
    assert reliability.run([], 1, tmp_path) == 2
    *lines, total = capsys.readouterr().out.splitlines()
    assert lines[0] == f"passed  {'good':16s}  {GOOD}  (target: equal; 0 s)"
    assert lines[1].startswith("FAILED  bad ") and "[75, 1]" in lines[1]
    assert lines[2].startswith("FAILED  raises ") and "OSError no room" in lines[2]
    assert total == "1 passed, 2 failed"


def test_named_checks_alone_are_run(checks, tmp_path, capsys):
    assert reliability.run(["good"], 1, tmp_path) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"
    with pytest.raises(InputError, match="only='none' must be one of 'good'"):
        reliability.run(["good", "none"], 1, tmp_path)
    assert capsys.readouterr().out == ""
