"""README and docs: its example runs, its table is that of the results, its links lead somewhere."""

import json
import math
import pathlib
import re
import subprocess
import sys

import jax
import numpy as np
import pytest

import socialjepa_jax
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.report import tables
from socialjepa_jax.report.run import motion_table
from socialjepa_jax.sharding import ONE_DEVICE

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RESULTS = (ROOT / "docs" / "results.md").read_text()
ROWS = {  # README's names -> those of the results
    "trained (I-JEPA)": "trained, encoder",
    "untrained": "untrained",
    "pixel PCA": "pixel PCA",
    "trained, pairs shuffled within cell": "encoder, shuffled within cell",
    "trained, pairs shuffled": "encoder, shuffled",
}


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def result_table(title):
    """Row name -> {column: cell} of the table under a title in the results."""
    lines = RESULTS.split(f"**{title}**")[1].split("\n\n")[1].splitlines()
    head = cells(lines[0])
    return {cells(line)[0]: dict(zip(head, cells(line))) for line in lines[2:]}


def test_the_table_shows_what_was_measured():
    tables = [
        result_table("Toys (100 objects, 20 held out), held-out objects"),
        result_table("ETH-80 photographs (80 objects, 16 held out), held-out objects"),
    ]
    shown = {cells(line)[0]: cells(line)[1:] for line in README.splitlines() if "[" in line}
    for name, row in ROWS.items():
        measured = [
            table[row][column]
            for table in tables
            for column in ("R²", "shared dims", "by regression")
        ]
        assert shown[name] == measured


def test_the_tables_in_motion_are_those_stored():
    stored = json.loads(motion_table.STORED.read_text())
    for world in stored["summary"]:
        assert tables.to_markdown(motion_table.table(stored, world)) in RESULTS
    assert tables.to_markdown(motion_table.failing_table(stored)) in RESULTS
    sentences = map(motion_table.failing_sentence, stored["failing"]["worlds"].values())
    for sentence in (motion_table.confirmation(stored), *sentences):
        assert sentence in " ".join(RESULTS.split())


def loss_of_the_readme():
    return README.split("## Add your own loss")[1].split("```python\n")[1].split("```")[0]


def test_the_loss_of_the_readme_has_a_gradient(monkeypatch):
    """The example as it stands; what it registers is kept from other tests."""
    registered, names = [], {}
    monkeypatch.setattr(socialjepa_jax, "register", lambda *given: registered.append(given))
    exec(loss_of_the_readme(), names)
    ((kind, name, objective),) = registered
    assert (kind, name, objective) == ("objective", "pca", names["Pca"])
    params, aux = objective().init(jax.random.key(0))
    images = np.random.default_rng(0).normal(size=(4, 48, 48, 1)).astype(np.float32)
    batch = {"image": images, "index": np.arange(4)}

    def loss(params):
        return objective().loss(params, aux, batch, jax.random.key(1), {}, ONE_DEVICE)[0]

    value, slope = jax.value_and_grad(loss)(params)
    assert 0.9 < value < 1.1  # a small projection leaves the images as they are: variance 1
    assert np.linalg.norm(slope["kernel"]) > 0
    kept = objective().after_update(params, aux, 0, {})
    assert objective().encode(params, kept, images)["latent"].shape == (4, 8)


@pytest.mark.nightly
def test_the_loss_of_the_readme_trains(tmp_path):
    """The example as it stands, with a run appended."""
    code = loss_of_the_readme()
    assert 15 <= len([line for line in code.splitlines() if line.strip()]) <= 25
    script = tmp_path / "mine.py"
    script.write_text(
        code
        + f"""
from configs import smoke, toys_ijepa
from socialjepa_jax import config
settings = smoke.shrink(toys_ijepa.get_config(), steps=2)
settings.data.image_size = 48
settings.objective = {{"kind": "pca"}}
result = sj.train(config.from_config_dict(settings), {str(tmp_path / "run")!r})
assert result.latents.shape[-1] == 8 and result.report.exists()
"""
    )
    subprocess.run([sys.executable, str(script)], check=True, cwd=ROOT)


def test_links_lead_to_files():
    for page in [ROOT / "README.md", ROOT / "BUILD_NOTES.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), (page.name, target)


def test_the_guide_to_objectives_lists_all_of_them():
    guide = (ROOT / "docs" / "objectives.md").read_text()
    rows = {cells(line)[0].strip("`") for line in guide.splitlines() if line.startswith("| `")}
    assert set(OBJECTIVES) - {"frame_pairs"} <= rows and "`frame_pairs`" in guide
    named = dict(re.findall(r"([\d.]+) (?:for K = |for )([\d,]+)", guide)[:2])
    assert {f"{math.log(int(k.replace(',', ''))):.3f}" for k in named.values()} == set(named)
