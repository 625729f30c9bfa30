"""Similarity of layers: what a layer is, its CKA between agents, and the claims on made rows."""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import figures
from experiments.rivals import methods
from experiments.rivals.geometry import layers
from experiments.rivals.tables.paradigms import PIXELS
from socialjepa_jax.alignment import cka_debiased
from socialjepa_jax.evaluation.encoders import Encoders
from socialjepa_jax.evaluation.splits import Split
from socialjepa_jax.models.vit import ViTConfig, patchify
from socialjepa_jax.objectives.mae import Mae
from socialjepa_jax.records import RowName

SMALL = ViTConfig(image_size=48, patch_size=24, channels=1, width=8, depth=1, heads=2)


@pytest.fixture(scope="module")
def encoders():
    """Two agents of one initialisation and other pixel statistics."""
    objective = Mae(vit=SMALL, decoder_width=4, decoder_depth=1, decoder_heads=1)
    chosen = dataclasses.replace(methods.experiment("mae", 25), objective=objective)
    params = {"encoder": objective.encoder.init(jax.random.key(0))}
    double = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), (params, {}))
    mean, std = np.array([[0.5], [0.4]], np.float32), np.array([[0.2], [0.3]], np.float32)
    return Encoders(chosen, *double, mean, std)


def test_layers_end_in_the_latent_and_begin_with_the_patches(encoders):
    images = np.random.default_rng(0).integers(0, 256, (5, 48, 48, 1), np.uint8)
    found = layers.layers(encoders, 1, images)
    names = ["embedding mean", "block 0 cls", "block 0 mean", "output cls", "output mean"]
    assert list(found) == names == layers.layer_names(SMALL)
    np.testing.assert_allclose(found[layers.LATENT], encoders.encode(1, images), atol=1e-5)
    pixels = (images / 255 - 0.4) / 0.3
    kernel = np.asarray(encoders.params["encoder"]["patch"]["kernel"][1])
    expected = np.asarray(patchify(jnp.asarray(pixels), 24)).mean(1) @ kernel
    np.testing.assert_allclose(found["embedding mean"], expected, atol=1e-5)
    cls = found["block 0 cls"]
    scaled = (cls - cls.mean(1, keepdims=True)) / cls.std(1, keepdims=True)  # the norm is fresh
    np.testing.assert_allclose(found["output cls"], scaled, atol=1e-2)


def test_parameters_are_those_of_the_network_whose_output_is_the_latent():
    params, aux = {"encoder": 1}, {"target": 2, "teacher": {"encoder": 3}}
    for name, expected in (("", 1), ("context", 1), ("student", 1), ("target", 2), ("teacher", 3)):
        objective = types.SimpleNamespace(latent_encoder=name)
        assert layers.weights(objective, params, aux) == expected
    assert layers.weights(object(), params, aux) == 1


def test_cka_is_that_of_held_out_states_of_each_pair():
    rng = np.random.default_rng(1)
    agents = [{"a": rng.normal(size=(30, 3)), "b": rng.normal(size=(30, 4))} for _ in range(6)]
    world = types.SimpleNamespace(split=Split("instance", np.arange(10), np.arange(10, 30)))
    found = np.array(layers.compared(world, agents))
    assert found.shape == (9, 2, 2)
    expected = cka_debiased(agents[1]["a"][10:], agents[5]["b"][10:])
    assert found[5, 0, 1] == pytest.approx(expected)
    again = np.array(layers.compared(world, [agents[0]] * 6))
    np.testing.assert_allclose(again[:, [0, 1], [0, 1]], 1)


ORDER = ["embedding mean", "output cls", "output mean"]


def made(pixels=0.9, rise=-0.2, off=0.85, latent=0.4, untrained=0.5, left=0.1):
    """Rows on which every prediction holds; `off` is CKA of unlike layers."""
    rows = [{"method": PIXELS, "row": RowName.PIXEL_PCA, "cka": [[[pixels]]]}]
    for name in layers.NAMES:
        for row, value in zip(layers.KINDS, (latent, untrained, left)):
            cka = np.full((3, 3), off)
            np.fill_diagonal(cka, (0.8, value, 0.8 + rise))
            rows.append({"method": name, "row": row, "layers": ORDER, "cka": [cka.tolist()] * 9})
    return rows


def judged(rows):
    return {claim.id: claim.agrees for claim in layers.claims(rows)}


def test_claims_of_rows_on_which_the_predictions_hold():
    found = judged(made())
    paper = {"paper/depth": False, "paper/diagonal": False}
    assert found == dict.fromkeys(found, True) | paper and len(found) == 5


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ({"rise": 0.01}, {"paper/depth"}),
        ({"off": 0.05}, {"paper/diagonal"}),
        ({"untrained": 0.3}, {"training"}),
        ({"pixels": 0.3}, {"pixels"}),
        ({"left": 0.25}, {"beyond"}),
    ],
)
def test_each_claim_turns_where_the_rows_say_so(arguments, changed):
    before, after = judged(made()), judged(made(**arguments))
    turned = {id for id in after if after[id] != before[id]}
    assert turned == changed


def test_every_method_is_a_row_of_the_table_and_two_maps():
    rows = made()
    found = layers.table(rows)
    assert [row.label for row in found.rows] == [*layers.NAMES, PIXELS]
    assert found.rows[0].cells[layers.LATENT] == pytest.approx(0.4)
    assert found.rows[0].cells["partialled"] == pytest.approx(0.1)
    titles = [
        axes.get_title(loc="left") or axes.get_title() for axes in layers.plot(rows).figure.axes
    ]
    assert len(titles) == 2 * len(layers.NAMES)


def test_a_heat_map_writes_its_values():
    figure = figures.heat_maps({"a": np.array([[0.25, 1.0], [0.5, 0.75]])}, ["x", "y"],
                               row_name="r", column_name="c", columns=1)  # fmt: skip
    assert [text.get_text() for text in figure.axes[0].texts] == [".25", "1.00", ".50", ".75"]
