import jax
import jax.numpy as jnp
import pytest

from experiments.alignability import honest_rows, honest_table
from socialjepa_jax.errors import InputError


@pytest.fixture
def photographs(tmp_path):
    path = tmp_path / "photographs.npz"
    path.touch()
    return str(path)


def test_every_objective_meets_every_world_with_the_latents_that_are_compared(photographs):
    arms = honest_table.arms(["ijepa", "lejepa"], photographs, "smoke")
    assert list(arms) == ["toys_ijepa", "toys_lejepa", "eth80_ijepa", "eth80_lejepa"]
    for name, experiment in arms.items():
        objective = experiment.objective
        assert name.endswith(objective.kind)
        network = objective.vit if objective.kind == "ijepa" else objective.encoder
        shape = (2, network.image_size, network.image_size, network.channels)
        made = jax.eval_shape(
            lambda images, objective=objective: objective.encode(
                *objective.init(jax.random.key(0)), images
            ),
            jax.ShapeDtypeStruct(shape, jnp.float32),
        )
        assert honest_rows.LATENTS[objective.kind].keys() <= made.keys()
    assert arms["eth80_ijepa"].data.path == photographs


def test_what_is_not_there_is_refused_by_name():
    with pytest.raises(InputError, match="objectives='magic'"):
        honest_table.arms(["magic"], None, "smoke")
    with pytest.raises(InputError, match=r"--eth80=nowhere\.npz does not exist"):
        honest_table.arms(["ijepa"], "nowhere.npz", "smoke")
