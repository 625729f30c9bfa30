"""Numerics: the environment of a process changes no draw and no number of a run."""

import json
import threading
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.reliability import runs
from socialjepa_jax import build, loop
from socialjepa_jax.keys import Stream, agent_key
from socialjepa_jax.records import versions
from socialjepa_jax.running import numerics


@pytest.fixture
def environment(monkeypatch):
    """Sets options of jax as its variables do, and restores them."""
    names = (
        "jax_enable_x64", "jax_default_prng_impl", "jax_threefry_partitionable",
        "jax_random_seed_offset",
    )  # fmt: skip
    before = {name: jax.config.values[name] for name in names}
    yield jax.config.update
    for name, value in before.items():
        jax.config.update(name, value)


OTHERS = [
    ("jax_enable_x64", True),
    ("jax_default_prng_impl", "rbg"),
    ("jax_threefry_partitionable", False),
    ("jax_random_seed_offset", 5),
]


@pytest.mark.parametrize(("option", "value"), OTHERS)
def test_options_hold_in_every_thread_and_come_back(environment, option, value):
    def draw():
        x = jax.device_put(np.arange(3.0))  # 64 bits on the host
        return str(x.dtype), jax.random.normal(jax.random.key(3), (2,)).tolist()

    with numerics.fixed():
        expected = draw()
    environment(option, value)
    found = []
    with numerics.fixed():
        found.append(draw())
        thread = threading.Thread(target=lambda: found.append(draw()))
        thread.start()
        thread.join()
    assert found == [expected, expected] and expected[0] == "float32"
    assert jax.config.values[option] == value


def test_the_keys_of_an_agent_do_not_depend_on_the_default(environment):
    expected = jax.random.key_data(agent_key(3, Stream.ORDER))
    environment("jax_default_prng_impl", "rbg")
    key = agent_key(3, Stream.ORDER)
    assert str(jax.random.key_impl(key)) == "threefry2x32"
    np.testing.assert_array_equal(jax.random.key_data(key), expected)


class Seen(Exception):
    """Ends a run where it would begin."""


def test_runs_and_training_in_memory_are_in_fixed_numerics(environment, tmp_path, monkeypatch):
    def look(*arguments, **named):
        impl = str(jax.random.key_impl(jax.random.key(0)))
        raise Seen(versions(), jnp.zeros(2, float).dtype, impl)

    for option, value in OTHERS:
        environment(option, value)
    monkeypatch.setattr(build, "build", look)
    trainer = types.SimpleNamespace(init=look)
    for start in (
        lambda: loop.fit(runs.experiment(tmp_path), tmp_path / "run"),
        lambda: loop.train(trainer, None, None),
    ):
        with pytest.raises(Seen) as seen, jax.enable_x64(True):  # of a caller's thread
            start()
        found, dtype, impl = seen.value.args
        assert (found["x64"], found["prng_impl"]) == ("False", "threefry2x32")
        assert found["threefry_partitionable"] == "True"
        assert dtype == np.float32 and impl == "threefry2x32"


def test_what_may_change_results_is_recorded(environment, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", " --a=1  --b ")
    with numerics.fixed(), jax.default_matmul_precision("float32"):
        found = versions()
    assert json.loads(json.dumps(found)) == found
    assert (found["x64"], found["prng_impl"], found["threefry_partitionable"]) == (
        "False", "threefry2x32", "True",
    )  # fmt: skip
    assert found["matmul_precision"] == "float32" and found["xla_flags"] == "--a=1 --b"
    assert found["jax"] == jax.__version__ and found["numpy"] == np.__version__
    assert found["devices"].startswith(f"{jax.device_count()} x ")
    environment("jax_enable_x64", True)
    assert versions()["x64"] == "True"  # outside a run
