"""The GPU suite's sections of parts: attention kernels."""

import dataclasses

from experiments.bench import steps
from experiments.bench.gpu import parts
from experiments.bench.gpu.sizes import REHEARSAL


def test_attention_is_held_to_what_auto_takes(monkeypatch):
    """A kernel that fails without a word hides nothing; the fastest is not what auto takes here."""
    times = {"xla": 2.0, "pallas": 1.0}

    def layer(sizes, tokens, choice):
        if choice not in times:
            raise NotImplementedError
        return choice

    monkeypatch.setattr(parts, "_attention_layer", layer)
    monkeypatch.setattr(steps, "seconds", lambda choice, effort: times[choice])
    sizes = dataclasses.replace(REHEARSAL, tokens=(5,))
    found = {result.name: result for result in parts.attention_choices(sizes)}
    assert found["attention, 5 tokens, cudnn, ms"].note == "NotImplementedError"
    auto = found["attention, 5 tokens, auto / fastest"]
    assert (auto.value, auto.verdict()) == (2.0, "missed")
    assert auto.note == "pallas is 2.00 times as fast as xla"
    assert "((5, 'pallas'),)" in found["attention lengths measured"].note
