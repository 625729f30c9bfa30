"""Figures 6, 8 and 9 as measured: claims, tables and sentences are those of the stored rows."""

# ruff: noqa: RUF001 (a true minus sign is meant)

import numpy as np
import pytest

from experiments.rivals.geometry import layers, projection, spectrum
from experiments.rivals.tables.entrants import RIVALS
from experiments.rivals.tables.paradigms import mean, row_of
from socialjepa_jax.records import RowName
from socialjepa_jax.report import tables
from tests.experiments.rivals import stored

MODULES = {"fig6_projection": projection, "fig8_layer_cka": layers, "fig9_spectrum": spectrum}
STORED = {name: stored.run(name) for name in MODULES}
PAGE, TEXT = stored.page("figures")
PLANE, LAYERS, W = (STORED[name]["rows"] for name in MODULES)
UNTRAINED, WRONG = RowName.UNTRAINED, RowName.MISMATCHED


def claims(name):
    return {claim.id: claim for claim in MODULES[name].claims(STORED[name]["rows"])}


def head(name):
    return stored.in_one_line(MODULES[name].__doc__)


@pytest.mark.parametrize("name", MODULES)
def test_stored_claims_are_judged_again(name):
    found = claims(name)
    stored.check_claims(found.values(), STORED[name]["claims"], abs=1e-3)
    agree = sum(claim.agrees is True for claim in found.values())
    assert f"{agree} of {len(found)} claims agree." in head(name)
    assert f"{agree} of {len(found)} predictions agree." in TEXT


@pytest.mark.parametrize("name", MODULES)
def test_the_page_has_the_table_of_the_rows(name):
    assert tables.to_markdown(MODULES[name].table(STORED[name]["rows"])) in PAGE


def plane(name, row=RowName.TRAINED, when="after"):
    return f"{mean(PLANE, name, f'plane_{when}', row):.2f}"


def test_sentences_on_matched_states():
    change = claims("fig6_projection")["untrained"]
    sentences = [
        f"falls from {plane('ijepa', when='before')} to {plane('ijepa')}",
        f"spread most, from {plane('lejepa', when='before')} to {plane('lejepa')}",
        f"{plane('ijepa', UNTRAINED)} in the place of I-JEPA's {plane('ijepa')}",
        f"(difference {change.ours:.3f}, −0.013 to 0.102)",
        f"{plane('lejepa', UNTRAINED)} where LeJEPA has {plane('lejepa')}",
    ]
    for sentence in sentences:
        assert sentence in TEXT
    assert "-0.013 to 0.102" in change.note
    assert min(float(plane(name, WRONG)) for name in projection.NAMES) == 0.99
    assert max(projection.NAMES, key=lambda name: float(plane(name))) == "lejepa"
    stated = plane("ijepa", when="before"), plane("ijepa"), plane("ijepa", UNTRAINED)
    expected = "from {} to {} for I-JEPA and to {} for untrained agents"
    assert expected.format(*stated).replace("0.", ".") in head("fig6_projection")


def test_sentences_on_layers():
    latent = {name: layers.same(LAYERS, name, layers.LATENT) for name in layers.NAMES}
    left = [layers.same(LAYERS, n, layers.LATENT, RowName.PARTIALLED) for n in layers.NAMES]
    found = claims("fig8_layer_cka")
    first = {f"{layers.same(LAYERS, name, layers.DEPTH[0]):.2f}" for name in layers.NAMES}
    assert first == {"0.95"} and found["paper/depth"].ours == 0
    maps = [layers._matrix(LAYERS, name) for name in layers.NAMES]
    near = np.mean([np.diag(cka) >= cka.max(1) - 0.01 for cka in maps])
    deeper = sum(latent[n] > layers.same(LAYERS, n, "block 0 cls") for n in layers.NAMES)
    untrained = [
        round(layers.same(LAYERS, name, layer, UNTRAINED), 2)
        for name in layers.NAMES
        for layer in row_of(LAYERS, name)["layers"]
    ]
    assert min(untrained) == 0.95
    sentences = [
        f"the output in {deeper} of 5 methods",
        f"to {latent['simclr']:.2f} for SimCLR and {latent['lejepa']:.2f} for LeJEPA",
        f"more than the latents of {found['pixels'].ours:.0f} of 5 methods",
        f"elevation {min(left):.2f} to {max(left):.2f} is left",
        f"its own layer in {found['paper/diagonal'].ours:.0%} of the rows".replace("%", " %"),
        f"most similar in {near:.0%} of them".replace("%", " %"),
    ]
    for sentence in sentences:
        assert sentence in TEXT
    assert "components of the pixels have 0.93" in found["pixels"].note
    stated = f"the latents {min(latent.values()):.2f} to {max(latent.values()):.2f}"
    assert stated.replace("0.", ".") in head("fig8_layer_cka")


def test_sentences_on_the_spectrum():
    kappa = {name: mean(W, name, "kappa") for name in RIVALS}
    away = [mean(W, name, "orthogonality") for name in RIVALS]
    r2 = {name: mean(W, name, "r2") for name in RIVALS}
    found = claims("fig9_spectrum")
    best = min(kappa, key=kappa.__getitem__)
    assert best == min(r2, key=r2.__getitem__) == "dinov2"
    raised = sum(mean(W, name, "kappa", WRONG) > 3 * kappa[name] for name in RIVALS)
    sentences = [
        f"κ is {kappa[best]:.0f} at the least",
        f"(equation 17) {min(away):.2f}, which",
        f"only {found['paper/rigid'].ours:.3f} less R² than W for I-JEPA ({r2['ijepa']:.3f} and "
        f"{mean(W, 'ijepa', 'r2_orthogonal'):.3f})",
        f"a factor of 3 in {raised} of 12 methods",
        f"(Spearman's {found['rank'].ours:.2f})".replace("-0", "−"),
        f"R² ({found['paper/conditioning'].ours:.2f},".replace("-0", "−"),
        f"has the lowest R² ({r2[best]:.3f})",
    ]
    for sentence in sentences:
        assert sentence in TEXT
    assert 1e3 < min(kappa.values()) and max(kappa.values()) < 2e5
    assert len({round(mean(W, name, "kappa", UNTRAINED)) for name in RIVALS}) == 2
    stated = f"orthogonal {min(away):.2f} to {max(away):.0f}; yet an orthogonal map has only "
    stated += f"{found['paper/rigid'].ours:.3f} less"
    assert stated.replace("0.", ".") in head("fig9_spectrum")
