"""The bench of input: its files, its clock, and the figures of the documents."""

import contextlib
import io
import json
import math
import pathlib
import re
import subprocess
import sys
import time

import pytest
from PIL import Image

from configs import imagenet_ijepa, imagenet_lejepa
from experiments.bench import input as bench
from experiments.bench import input_files, results, run_cost
from socialjepa_jax.config import from_config_dict

ROOT = pathlib.Path(__file__).parents[3]
STORED = json.loads((ROOT / "tests" / "golden" / "input.json").read_text())["rows"]
RATES = {row["name"]: row["value"] for row in STORED}
CLOCK = {row["name"]: found[1] for row in STORED
         if (found := re.search(r"; (\d+) images/s", row["note"]))}  # fmt: skip
WORKERS = (0, 1, 2)


def words(name):
    return " ".join((ROOT / name).read_text().split())


def test_the_pictures_are_jpegs_of_imagenet_s_sizes(tmp_path):
    given = input_files.photographs(5)
    for (name, blob, label), (height, width) in zip(given, input_files.SIDES, strict=True):
        image = Image.open(io.BytesIO(blob))
        assert (image.format, image.size, image.mode) == ("JPEG", (width, height), "RGB")
        assert 50_000 < len(blob) < 200_000 and name.startswith(input_files.CATEGORIES[label])


def test_the_clock_counts_the_processes_below_too():
    busy = "import time; t = time.process_time()\nwhile time.process_time() < t + .3: pass\ninput()"
    start = bench.cpu_seconds()
    child = subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE)
    own = time.process_time()
    try:
        for _ in range(600):
            if bench.cpu_seconds() - start > 0.29 + time.process_time() - own:
                break
            time.sleep(0.1)
        else:
            pytest.fail("the child's time is not counted")
    finally:
        child.communicate(b"\n")


def test_an_image_costs_what_its_batches_do(monkeypatch):
    cpu, wall = iter([3.0, 5.0]), iter([10.0, 14.0])
    monkeypatch.setattr(bench, "cpu_seconds", lambda: next(cpu))
    monkeypatch.setattr(bench.time, "perf_counter", lambda: next(wall))
    taken = []
    opened = contextlib.nullcontext(lambda: taken.append(1))
    load = bench.Load(batch=5, batches=2)
    assert bench.measure(lambda: opened, load) == (0.2, 0.4)
    assert len(taken) == 2 + bench._WARM


def test_ratios_are_of_cpu_time():
    found = dict.fromkeys(bench.OURS, (0.5, 9.0)) | dict.fromkeys(bench.TORCH, (0.75, 1.0))
    rows = {row.name: row for row in bench._rows(found, 2)}
    assert rows["tar, 2 workers"].value == 2.0
    ratio = rows["tar / DataLoader, uint8, 2 workers"]
    assert ratio.value == 1.5 and ratio.verdict() == "met"
    assert len(bench._rows(dict.fromkeys(bench.OURS, (0.5, 9.0)), 2)) == len(bench.OURS)


def test_the_documents_have_the_stored_figures():
    text = words("docs/benchmarks.md")
    lines = [results.from_row(row) for row in STORED]
    targets = [line for line in lines if line.target is not None]
    met = [line for line in targets if line.verdict() == "met"]
    assert f"target 1.2, met in {len(met)} of {len(targets)})" in text
    names = (*bench.OURS, *bench.TORCH)
    for workers in WORKERS:
        rates = [RATES[f"{name}, {workers} workers"] for name in names]
        assert "| " + " / ".join(f"{rate:.0f}" for rate in rates) + " |" in text
    for workers in WORKERS[1:]:
        clock = [CLOCK[f"{name}, {workers} workers"] for name in names]
        assert "| " + " / ".join(clock) + " |" in text
    each = [[RATES[f"{name} / DataLoader, uint8, {w} workers"] for name in bench.OURS]
            for w in WORKERS]  # fmt: skip
    listed = "; ".join(", ".join(f"{ratio:.2f}" for ratio in ratios) for ratios in each)
    assert f"| {listed} (target" in text
    alone = [RATES[f"{name}, one record at a time"] for name in ("parquet", "array_record")]
    assert f"{alone[0]:.0f} / {alone[1]:.0f}" in text
    head, ours = " ".join(bench.__doc__.split()), [RATES[f"{n}, 0 workers"] for n in bench.OURS]
    assert f"{min(ours):.0f} to {max(ours):.0f} images per CPU second" in head
    assert f"{min(each[0]):.2f} to {max(each[0]):.2f} of DataLoader" in head
    assert f"target 1.2, met in {len(met)} of {len(targets)} cases" in head
    assert f"one row at a time {alone[0]:.0f}" in head


def test_the_documents_say_how_many_cores_feed_an_h100():
    rate = RATES["array_record, 0 workers"]
    found = []
    for preset in (imagenet_ijepa, imagenet_lejepa):
        objective = from_config_dict(preset.get_config()).objective
        wanted = run_cost.images_per_second(objective, run_cost.ONE_H100.products)
        found.append(math.ceil(wanted / rate))
    assert f"{found[0]} and {found[1]} cores" in words("docs/benchmarks.md")
    assert [row.value for row in bench.cores(rate, 0)] == found
