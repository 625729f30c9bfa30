"""The bench of sweeps: its command line, and its runs at a small size."""

import functools
import types

import jax
import pytest

from experiments.bench import sweep
from socialjepa_jax.errors import InputError


def test_numbers_of_agents():
    assert sweep.numbers(["1", "9"]) == [1, 9]
    for texts in ([], ["x"], ["0"], ["-1"], ["1.5"], ["1", ""]):
        with pytest.raises(InputError, match=r"--agents=.* must be positive integers"):
            sweep.numbers(texts)


@pytest.mark.parametrize(
    "call", [jax.eval_shape, pytest.param(lambda f, *args: f(*args), marks=pytest.mark.nightly)]
)
def test_runs_advance_in_full_precision(call, monkeypatch):
    """Traced, as compiling takes long; by night they run."""
    make, precisions = sweep.sweep.make_trainer, []

    def make_watched(*args, **how):
        trainer = make(*args, **how)

        def step(*args):
            precisions.append(jax.config.jax_default_matmul_precision)
            return call(trainer.step, *args)

        return types.SimpleNamespace(init=functools.partial(call, trainer.init), step=step)

    monkeypatch.setattr(sweep.sweep, "make_trainer", make_watched)
    advance = sweep.jax_runs(2, 2, "vmap", batch=4, hidden=8, slices=4)
    assert [advance(), advance()] == [4, 4]
    assert precisions == ["highest", "highest"]
