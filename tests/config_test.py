"""The border between config files and the program: nothing misspelt or mistyped gets through."""

import dataclasses
import json

import ml_collections
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs import motion_lejepa, toys_ijepa
from socialjepa_jax import config as config_lib
from socialjepa_jax.errors import InputError


def test_there_and_back():
    config = toys_ijepa.get_config()
    experiment = config_lib.from_config_dict(config)
    assert config_lib.to_config_dict(experiment) == config
    through_json = json.loads(json.dumps(config_lib.to_plain(experiment)))
    assert config_lib.from_config_dict(through_json) == experiment


def nested(depth):
    values = []
    for _ in range(depth):
        values = [values]
    return values


def _with(path, value):
    plain = toys_ijepa.get_config().to_dict()
    *groups, name = path.split(".") if isinstance(path, str) else (path,)
    group = plain
    for key in groups:
        group = group[key]
    group[name] = value
    return plain


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("optim.lerning_rate", 1.0, r"such setting; did you mean 'learning_rate'\? Known: .*clip"),
        ("optim.colour", 1.0, r"config.optim.colour: no such setting. Known: .*learning_rate"),
        (1, 2, r"config.1: no such setting. Known: "),
        ("optim.learning_rate", "fast", r"config.optim.learning_rate='fast' must be float"),
        ("optim.learning_rate", float("nan"), r"config.optim.learning_rate=nan must be > 0"),
        ("optim.weight_decay", -0.1, r"config.optim.weight_decay=-0.1 must be >= 0"),
        ("run.steps", 2.5, r"config.run.steps=2.5 must be int"),
        ("run.steps", True, r"config.run.steps=True must be int"),
        ("run.eval_every", 30, r"config.run.eval_every=30 must be a multiple of 25"),
        ("run", 3, r"config.run=3 must be a group"),
        ("data.kind", "toyz", r"config.data.kind='toyz' must be one of 'toys'"),
        ("data.protocol.azimuths", (0, "x"), r"config.data.protocol.azimuths='x' must be int"),
        ("objective.vit.patch_size", 7, r"vit.image_size=48 must be a multiple of 7"),
        ("objective.vit.channels", 3, r"objective.vit.image_size=48, channels=3 must be those"),
        ("agents.seeds", (1, 1, 2), r"config.agents.seeds=\(1, 1, 2\) must be distinct"),
        ("agents.seeds", (0, 2**32, 1), r"config.agents.seeds=4294967296 must be in"),
        ("seed", 10**20, r"config.seed=100000000000000000000 must be within 64 bits"),
        ("seed", 2**62, r"config.seed=4611686018427387904 must be in \[0, 4293\]"),
        pytest.param("seed", 10**5000, r"config.seed=<int> must be within 64 bits", id="digits"),
        ("run.steps", 2**31, r"config.run.steps=2147483648 must be in \[1, 2147483647\]"),
        ("optim.learning_rate", 10**400, r"config.optim.learning_rate=10{99}\.\.\. must be within"),
        ("data.kind", ["toys"], r"config.data.kind=\['toys'\] must be one of 'toys'"),
        ("data.kind", {}, r"config.data.kind=\{\} must be one of 'toys'"),
        ("data", "toys", r"config.data='toys' must be a group"),
        ("data.protocol.sector", (), r"sector=\(\) must be 2 values: int, int"),
        ("data.protocol.sector", [1, "b"], r"sector='b' must be int"),
        ("data.protocol.azimuths", 5, r"azimuths=5 must be a tuple of int"),
        ("agents.seeds", nested(10_000), r"config.agents.seeds=<list> must be int"),
        ("agents.cameras", (0, 1, 5), r"cameras=\(0, 1, 5\): there are 2 cameras"),
        ("agents.cameras", (), r"config.agents.cameras=\(\) and seeds"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(path, value, message):
    with pytest.raises(InputError, match=message):
        config_lib.from_config_dict(_with(path, value))


PLAIN = toys_ijepa.get_config().to_dict()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from([10**400, "kind", "x" * 10_000]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=3) | st.just("kind") | st.integers(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def paths(group, above=""):
    for name, value in group.items():
        yield above + name
        if isinstance(value, dict):
            yield from paths(value, f"{above}{name}.")


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(sorted(paths(PLAIN))), VALUES)
def test_any_value_is_refused_by_its_name_or_comes_back(path, value):
    try:
        experiment = config_lib.from_config_dict(_with(path, value))
    except InputError as error:
        message = str(error)
        assert message.startswith("config.") and len(message) < 1000
    else:
        plain = json.loads(json.dumps(config_lib.to_plain(experiment)))
        assert config_lib.from_config_dict(plain) == experiment


@pytest.mark.parametrize(
    ("shuffle", "message"),
    [
        ({"unit": "rows"}, r"^config\.shuffle\.unit='rows' must be one of"),
        ({"unit": "patch", "patch_size": 7}, r"^config\.shuffle\.image_size=48 must be a multiple"),
        ({"unit": "pixel", "per": "epoch"}, r"^config\.shuffle\.per='epoch' must be one of"),
    ],
)
def test_an_order_that_cannot_work_is_refused(shuffle, message):
    plain = toys_ijepa.get_config().to_dict() | {"shuffle": shuffle}
    with pytest.raises(InputError, match=message):
        config_lib.from_config_dict(plain)


def test_data_that_make_their_own_batches_have_no_order():
    plain = motion_lejepa.get_config().to_dict() | {"shuffle": {"unit": "pixel"}}
    with pytest.raises(InputError, match=r"^config\.shuffle\.unit='pixel' .* data.kind='motion'$"):
        config_lib.from_config_dict(plain)


def test_a_missing_field_is_named():
    plain = toys_ijepa.get_config().to_dict()
    del plain["objective"]
    with pytest.raises(InputError, match=r"^config\.objective must be given$"):
        config_lib.from_config_dict(plain)


def test_integers_become_floats_and_lists_tuples():
    plain = _with("optim.clip", 2)
    plain["agents"] = {"cameras": [0, 1], "seeds": [5, 6]}
    experiment = config_lib.from_config_dict(ml_collections.ConfigDict(plain))
    assert experiment.optim.clip == 2.0 and isinstance(experiment.optim.clip, float)
    assert experiment.agents == config_lib.Agents((0, 1), (5, 6))


def test_differences_name_what_changes_results_only():
    old = config_lib.from_config_dict(toys_ijepa.get_config())
    run = dataclasses.replace(old.run, log_every=25, steps_per_call=5, agent_map="vmap")
    same = dataclasses.replace(old, run=run)
    plain = config_lib.to_plain
    assert config_lib.differences(plain(old), plain(same)) == []
    other = dataclasses.replace(old, seed=3, run=dataclasses.replace(run, batch_size=32))
    assert config_lib.differences(plain(old), plain(other)) == [
        "config.run.batch_size: 64 -> 32",
        "config.seed: 0 -> 3",
    ]
