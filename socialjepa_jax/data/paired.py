"""Two cameras of the same states in one batch, for models that learn beside each other."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np

from socialjepa_jax.data.protocols import Batch, ImageFeed, Source


@functools.partial(jax.tree_util.register_dataclass, data_fields=["a", "b"], meta_fields=[])
@dataclass(frozen=True)
class PairedSource:
    """A `Source` of two sources that draw the same states.

    Attributes:
        a, b: sources of the agent's own camera and of its partner's.
    """

    a: Source
    b: Source

    def specs(self) -> "PairedSource":
        """Returns the shardings of both."""
        return PairedSource(self.a.specs(), self.b.specs())

    def batch(self, step: jax.Array, seed: jax.Array, batch_size: int) -> Batch:
        """Returns {'a': batch, 'b': batch} of the same states; see `data.protocols.Source`."""
        both = {"a": self.a, "b": self.b}
        return {name: source.batch(step, seed, batch_size) for name, source in both.items()}


class PairedFeed:
    """Feeds both cameras; the states that are measured on are those of the agents' own."""

    def __init__(self, a: ImageFeed, b: ImageFeed) -> None:
        """Takes the feeds of both cameras, of equal states, rows and seeds."""
        self.a, self.b = a, b
        self.cameras, self.mean, self.std = a.cameras, a.mean, a.std

    @property
    def good(self) -> np.ndarray:
        """bool[N], the states whose images are whole in both cameras, as far as is known."""
        return self.a.good & self.b.good

    def begin(self, passed_over: np.ndarray) -> None:
        """Begins both."""
        self.a.begin(passed_over)
        self.b.begin(passed_over)

    def at(self, step: int) -> PairedSource:
        """Returns the source of the call that begins with this step."""
        return PairedSource(self.a.at(step), self.b.at(step))

    def states(self) -> Iterator[np.ndarray]:
        """Yields all states as the agents' own cameras see them."""
        return self.a.states()

    def scalars(self, seconds: float) -> dict[str, float]:
        """Returns what the first feed has to log; both wait for the same workers."""
        return self.a.scalars(seconds)

    def close(self) -> None:
        """Closes both."""
        self.a.close()
        self.b.close()
