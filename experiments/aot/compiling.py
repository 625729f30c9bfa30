"""Compiled programs, kept by the text that they were compiled from: none is compiled twice."""

import dataclasses
import gzip
import hashlib
import importlib.metadata
import json
import pathlib
import time
from typing import Any

import jax

from experiments.aot.targets import Target
from socialjepa_jax import records

COMPILERS = ("jax", "jaxlib", "libtpu", "jax-cuda12-plugin")


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled program, as text.

    Attributes:
        text: optimised HLO.
        argument_bytes, output_bytes, temporary_bytes, aliased_bytes: of a chip; `aliased_bytes` are
            of outputs that share the buffer of an argument.
        seconds: of its compilation.
    """

    text: str
    argument_bytes: int
    output_bytes: int
    temporary_bytes: int
    aliased_bytes: int
    seconds: float


def versions() -> dict[str, str]:
    """Returns the versions of the compilers that are installed."""
    found = {}
    for name in COMPILERS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def compile_for(
    program: jax.stages.Lowered,
    target: Target,
    folder: pathlib.Path | None = None,
    options: dict[str, Any] | None = None,
) -> Compiled:
    """Compiles a program, or reads it from `folder`, where the same one was kept before.

    Args:
        program: as jax lowers it.
        target: chips that it was lowered for.
        folder: of the programs that are kept.
        options: of the compiler, beside those that the target needs.

    Raises:
        jax.errors.JaxRuntimeError: the compiler refuses it.
    """
    options = {**target.compiler_options, **(options or {})}
    source = [program.as_text(), target.name, repr(options), repr(versions())]
    key = hashlib.sha256("\n".join(source).encode()).hexdigest()[:20]
    path = folder / f"{key}.json.gz" if folder else None
    if path and path.exists():
        return Compiled(**json.loads(gzip.decompress(path.read_bytes())))
    start = time.perf_counter()
    done = program.compile(compiler_options=options)
    found = _read(done, time.perf_counter() - start)
    if path:
        document = json.dumps(dataclasses.asdict(found)).encode()
        records.write_atomically(path, gzip.compress(document, 5))
    return found


def _read(done: jax.stages.Compiled, seconds: float) -> Compiled:
    memory = done.memory_analysis()
    return Compiled(
        done.as_text(),
        memory.argument_size_in_bytes,
        memory.output_size_in_bytes,
        memory.temp_size_in_bytes,
        memory.alias_size_in_bytes,
        seconds,
    )
