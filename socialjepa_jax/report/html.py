"""Self-contained HTML pages from plain text: every string is escaped unless it is `Html`.

No external resources, and no scripts but what a caller adds to `page`; images are inlined as data
URIs, so a page is one file.
"""

import base64
import html as _html
from collections.abc import Mapping

_CSS = """
:root { color-scheme: light dark; --ink: #1d2430; --dim: #5b6472; --line: #d9dde3; --page: #fdfdfc;
  --card: #f3f5f7; --accent: #0060a0; --good: #00704f; --bad: #b03a00; --strong: #eaf2f8; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --dim: #a0a8b3;
  --line: #39414c; --page: #15181d; --card: #1e2329; --accent: #7cc0f0; --good: #4fc79d;
  --bad: #ff9c66; --strong: #1d2c3a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1.25rem 4rem; background: var(--page);
  color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans",
  "DejaVu Sans", sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem; padding-top: .8rem; line-height: 1.25;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p { margin: .5rem 0; max-width: 46rem; }
.meta, .dim, figcaption, small { color: var(--dim); }
.lede { font-size: 1.15rem; line-height: 1.5; margin: 1rem 0; max-width: 50rem; }
nav { font-size: .9rem; margin: 1rem 0; }
nav a { margin-right: .9rem; display: inline-block; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem;
  margin: 1rem 0; }
.tile { background: var(--card); border-radius: .5rem; padding: .7rem .9rem; }
.tile b { display: block; font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.tile span { font-size: .85rem; color: var(--dim); display: block; line-height: 1.35; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(17.5rem, 100%), 1fr));
  gap: 1rem; margin: 1rem 0; }
figure { margin: 0; min-width: 0; max-width: 31rem; }
figure.full { grid-column: 1 / -1; max-width: none; overflow-x: auto; }
figure img { display: block; width: 100%; height: auto; background: #fff; border-radius: .35rem;
  border: 1px solid var(--line); }
figcaption { font-size: .88rem; line-height: 1.45; margin-top: .4rem; max-width: 46rem; }
.table { max-width: none; margin: 1rem 0; } .scroll { overflow-x: auto; border-radius: .35rem;
  border: 1px solid var(--line); }
table { border-collapse: collapse; width: 100%; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .7rem; text-align: right; white-space: nowrap; vertical-align: top;
  border-top: 1px solid var(--line); }
thead th { border-top: 0; font-weight: 600; vertical-align: bottom; white-space: normal; }
th[scope=row], th:first-child { text-align: left; font-weight: 400; white-space: normal;
  min-width: 10.5rem; position: sticky; left: 0; background: var(--page); }
th small, td small { display: block; line-height: 1.3; font-weight: 400; }
tr.headline > * { background: var(--strong); } tr.headline > th { font-weight: 600; }
tr.paper > * { color: var(--dim); font-style: italic; }
tr.text > td { text-align: left; white-space: normal; }
td strong { color: var(--good); }
.ok { color: var(--good); font-weight: 600; } .warning { color: var(--bad); font-weight: 600; }
.missing { background: var(--card); border-left: 3px solid var(--dim); padding: .5rem .8rem; }
dl { margin: .6rem 0; max-width: 46rem; } dt { font-weight: 600; } dd { margin: 0 0 .5rem 1rem; }
details { margin: 1rem 0; } summary { cursor: pointer; color: var(--accent); }
pre { background: var(--card); padding: .8rem; overflow-x: auto; font-size: .8rem;
  line-height: 1.4; border-radius: .35rem; } code { font-size: .9em; }
@media (max-width: 30rem) { body { padding: 1rem .8rem 3rem; font-size: .95rem; }
  .lede { font-size: 1.05rem; } figure.full img { width: 34rem; max-width: none; }
  th, td { padding: .35rem .5rem; }
  th[scope=row], th:first-child { min-width: 7rem; max-width: 9rem; } }
@media print { body { max-width: none; padding: 0; font-size: 10pt; color: #000; background: #fff; }
  nav { display: none; } h2 { break-after: avoid; } figure, tr, .tile { break-inside: avoid; }
  .scroll { overflow: visible; } figure.full img { width: 100%; }
  table { font-size: 8pt; } th, td { padding: .2rem .3rem; }
  th[scope=row], th:first-child { position: static; } }
"""


class Html(str):
    """Markup, which is not escaped again."""


NOTHING = Html("")


def text(value: object) -> Html:
    """Escapes a value, unless it is `Html`."""
    return value if isinstance(value, Html) else Html(_html.escape(str(value), quote=True))


def join(*children: object, separator: str = "") -> Html:
    """Escapes and concatenates values."""
    return Html(separator.join(text(child) for child in children))


def tag(element: str, /, *children: object, **attributes: object) -> Html:
    """Returns `<element attributes>children</element>`, all escaped.

    Attribute names lose trailing underscores (`class_`); attributes that are None are left out.
    """
    written = "".join(
        f' {key.rstrip("_")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if element in ("img", "br", "meta", "input"):
        return Html(f"<{element}{written}>")
    return Html(f"<{element}{written}>{join(*children)}</{element}>")


def paragraph(*children: object, class_: str | None = None) -> Html:
    """Returns a `<p>` element."""
    return tag("p", *children, class_=class_)


def missing(reason: str) -> Html:
    """Returns a paragraph that says why a part of the page is missing."""
    return paragraph(reason, class_="missing")


def figure(
    png: bytes, alt: str, caption: str = "", *, full: bool = False, kind: str = "png"
) -> Html:
    """Returns an inlined image with its caption.

    Args:
        png: The file's bytes.
        alt: Description for readers who cannot see the image.
        caption: Text below the image.
        full: Span all columns of the `figure_grid`.
        kind: "png" | "gif".
    """
    source = f"data:image/{kind};base64," + base64.b64encode(png).decode("ascii")
    image = tag("img", src=source, alt=alt)
    under = tag("figcaption", caption) if caption else ""
    return tag("figure", image, under, class_="full" if full else None)


def figure_grid(*figures: Html) -> Html:
    """Lays figures out in columns, as many as fit the width of the page."""
    return tag("div", *figures, class_="figures")


def tiles(*pairs: tuple[str, str]) -> Html:
    """Returns boxes with a large number and its meaning, from (number, meaning) pairs."""
    boxes = [
        tag("div", tag("b", number), tag("span", name), class_="tile") for number, name in pairs
    ]
    return tag("div", *boxes, class_="tiles")


def folded(summary: str, *children: object) -> Html:
    """Returns a block that the reader opens by clicking on its summary."""
    return tag("details", tag("summary", summary), *children)


def definitions(terms: Mapping[str, str]) -> Html:
    """Returns a definition list from a mapping of terms to meanings."""
    pairs = [join(tag("dt", term), tag("dd", meaning)) for term, meaning in terms.items()]
    return tag("dl", *pairs)


def page(
    title: str,
    subtitle: str,
    lede: Html,
    sections: Mapping[str, tuple[str, Html]],
    head: Html = NOTHING,
) -> str:
    """Returns a whole document.

    Args:
        title: Title and heading.
        subtitle: One dim line under the heading.
        lede: The page's result, shown before the sections.
        sections: Anchor -> (heading, content), in order.
        head: Styles or scripts, at the end of the page's head.
    """
    links = [tag("a", heading, href=f"#{anchor}") for anchor, (heading, _) in sections.items()]
    body = [
        tag("section", tag("h2", heading), content, id=anchor)
        for anchor, (heading, content) in sections.items()
    ]
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(_CSS)),
        head,
    )
    top = tag("header", tag("h1", title), paragraph(subtitle, class_="meta"), lede)
    main = tag("body", top, tag("nav", join(*links, separator=" ")), tag("main", *body))
    document = tag("html", tag("head", head), main, lang="en")
    return f"<!DOCTYPE html>\n{document}\n"
