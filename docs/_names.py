"""Documents `x, y: latents` in a docstring as two parameters, for the API pages."""

import re
from typing import Any

import griffe

_SHARED = re.compile(r"^( +)(\w+(?:, \w+)+): (.*(?:\n\1 {4}.*)*)", re.MULTILINE)


class OneByOne(griffe.Extension):
    """Gives every name of a line of its own what the line says of all of them."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrites the docstring of an object that was loaded."""
        if obj.docstring is not None:
            obj.docstring.value = _SHARED.sub(_each, obj.docstring.value)


def _each(match: re.Match[str]) -> str:
    indent, names, text = match.groups()
    return "\n".join(f"{indent}{name}: {text}" for name in names.split(", "))
