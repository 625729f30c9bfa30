"""The alignment tool with a UMAP that never ends, to be stopped while it draws."""

import sys
import time
import types

from socialjepa_jax.align import cli


class Umap:
    """Says that it is drawing, and does not return."""

    def __init__(self, **_):
        print("drawing", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    sys.modules["umap"] = types.SimpleNamespace(UMAP=Umap)
    cli()
