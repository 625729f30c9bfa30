"""The GPU suite's sections of parts: attention kernels."""

import dataclasses

from experiments.bench import steps
from experiments.bench.gpu import parts
from experiments.bench.gpu.sizes import REHEARSAL


def test_the_kernel_that_auto_chooses_is_compared_with_the_fastest(monkeypatch):
    """A kernel fails without a message, and "auto" does not choose the fastest."""
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
