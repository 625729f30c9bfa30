"""The tables of mutants fit the code; `python -m tests.mutants.run` measures them."""

import ast
import collections
import pathlib

import pytest

from tests.mutants import run
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.mutant import DoesNotApplyError, Mutant
from tests.mutants.tables import counted

ROOT = pathlib.Path(__file__).parents[2]
LEAST = 100


def everything():
    return [*counted(), *(mutant for mutant, _ in EQUIVALENT)]


def functions_of(path):
    """Names of the test functions of a file; none if it is missing."""
    tree = ast.parse(path.read_text("utf-8")) if path.is_file() else ast.parse("")
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_mutant_applies():
    for mutant in everything():
        assert mutant.applied(ROOT) != (ROOT / mutant.path).read_text("utf-8"), mutant.name


def test_names_and_changes_are_unique():
    names = collections.Counter(mutant.name for mutant in everything())
    assert max(names.values()) == 1, names.most_common(1)
    changes = {(mutant.path, mutant.old, mutant.new) for mutant in everything()}
    assert len(changes) == len(everything())
    assert not any("," in name for name in names)  # the runner splits them there


def test_named_tests_exist():
    found = collections.defaultdict(set)
    for mutant in everything():
        assert mutant.tests or mutant not in counted(), mutant.name
        for test in mutant.tests:
            path, _, name = test.partition("::")
            if path not in found:
                found[path] = functions_of(ROOT / path)
            assert found[path] >= {name} - {""} and found[path], f"{mutant.name}: {test}"


def test_there_are_enough_and_few_deletions():
    mutants = counted()
    assert len(mutants) >= LEAST
    assert 3 * sum(mutant.deletes for mutant in mutants) <= len(mutants)
    assert all(reason for _, reason in EQUIVALENT)


@pytest.mark.parametrize("old, count", [("b", 0), ("a", 2)])
def test_a_mutant_that_does_not_apply_is_an_error(tmp_path, old, count):
    (tmp_path / "file.py").write_text("a = a\n")
    with pytest.raises(DoesNotApplyError, match=f"name: file.py has its text {count} times"):
        Mutant("name", "file.py", old, "c", ()).applied(tmp_path)


@pytest.mark.parametrize(
    "old, new, deletes",
    [("x + y", "x", True), ("f(x)(y)", "(y)", True), ("x + y", "y + x", False), ("abc", "ab", True),
     ("x < y", "x <= y", False), ("x - y", "", True), ("mean(0)", "sum(0)", False)],
)  # fmt: skip
def test_what_is_a_deletion(old, new, deletes):
    assert Mutant("name", "file.py", old, new, ()).deletes == deletes


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--jobs=0", "--jobs=0 must be at least 1"),
        (f"--out={__file__}", "is no folder"),
        ("--only=nobody", "no mutant is called ['nobody']"),
    ],
)
def test_refuses_arguments_in_one_line(argument, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        run.main([f"--out={tmp_path}", argument])
    assert end.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
