"""Writes a page of ours with its images in 256 colours: `python docs/_shrink.py PAGE OUT`."""

import base64
import io
import pathlib
import re
import sys

from PIL import Image

_IMAGE = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")


def shrunk(page: str) -> str:
    """Returns a page whose PNG images have 256 colours, where that makes them smaller."""

    def smaller(found: re.Match[str]) -> str:
        given = base64.b64decode(found[1])
        image, out = Image.open(io.BytesIO(given)).convert("RGB"), io.BytesIO()
        image.quantize(256).save(out, "PNG", optimize=True)
        kept = min(given, out.getvalue(), key=len)
        return f"data:image/png;base64,{base64.b64encode(kept).decode()}"

    return _IMAGE.sub(smaller, page)


if __name__ == "__main__":
    page, out = map(pathlib.Path, sys.argv[1:])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(shrunk(page.read_text("utf-8")), "utf-8")
