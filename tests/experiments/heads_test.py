"""Heads of experiments and benches state their command, and cost and result in numbers."""

import ast
import pathlib
import re

import pytest

import experiments
from experiments import reproduce

FOLDER = pathlib.Path(experiments.__file__).parent
COMMANDS = [*FOLDER.glob("bench_*.py"), FOLDER / "honest_table.py", FOLDER / "what_moves_it.py"]
COMMANDS += [FOLDER / "motion_table.py"]
ITSELF = ["experiments.release"]
HEAD = re.compile(r"^Command: .*python -m experiments\..*?^Cost(.*?)^Expected(.*)", re.M | re.S)


def launched(path):
    """The module whose `main` a command's file runs."""
    return re.search(r"^from (experiments\.\S+) import .*\bmain\b", path.read_text(), re.M)[1]


@pytest.mark.parametrize(
    "module",
    sorted({m for m, _ in reproduce.MODULES.values()} | {*map(launched, COMMANDS)} | {*ITSELF}),
)
def test_a_head_states_command_cost_and_expected_result(module):
    path = FOLDER.parent / (module.replace(".", "/") + ".py")
    parts = HEAD.search(ast.get_docstring(ast.parse(path.read_text())))
    assert parts, "a line each begins with Command:, Cost and Expected, in this order"
    assert all(re.search(r"\d", part) for part in parts.groups()), "cost and result in digits"
