"""The bench of starts, with tiny networks."""

import pathlib

import pytest

from configs import toys_ijepa_vits
from experiments.bench import start
from socialjepa_jax import config as config_lib


def test_the_networks_are_those_of_the_preset():
    ours = config_lib.from_config_dict(start.get_config().to_dict()).objective
    whole = config_lib.from_config_dict(toys_ijepa_vits.get_config().to_dict()).objective
    assert (ours.vit.width, ours.vit.depth, ours.mlp_width) == (384, 12, 2048)
    assert (ours.predictor, ours.vit.dtype) == (whole.predictor, whole.vit.dtype)


@pytest.mark.nightly
def test_a_run_that_cannot_start_is_an_error_with_its_last_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match=r"no step was done: error: .*file"):
        start.first_step("tiny", pathlib.Path(tmp_path / "file" / "run"))


@pytest.mark.nightly
def test_the_second_start_uses_what_the_first_compiled(tmp_path):
    found = {result.name: result.value for result in start.measure("tiny", tmp_path)}
    assert found["warm / cold start, the same workdir"] < 0.7
    assert found["warm / cold start, CPU time, the same workdir"] < 0.7
    assert found["warm / cold start, another workdir"] < 0.8
    assert found["warm / cold compilation of the step"] < 0.5
