import base64
from html.parser import HTMLParser

from socialjepa_jax.report import html

HOSTILE = "<script>alert('x')</script> & \"quoted\""


class Balance(HTMLParser):
    """Checks that every element that opens also closes, in order."""

    VOID = ("meta", "img", "br")

    def __init__(self):
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_everything_but_html_is_escaped():
    assert html.text(HOSTILE) == (
        "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &quot;quoted&quot;"
    )
    assert html.tag("p", html.tag("b", "a<b"), " & ") == "<p><b>a&lt;b</b> &amp; </p>"
    assert html.tag("a", "x", href='"><script>') == (
        '<a href="&quot;&gt;&lt;script&gt;">x</a>'
    )  # fmt: skip


def test_attributes():
    assert html.tag("img", src="s", alt=None) == '<img src="s">'
    assert html.tag("p", class_="dim") == '<p class="dim"></p>'


def test_a_figure_holds_the_exact_bytes():
    figure = html.figure(b"\x89PNG\x00", "what", "caption", full=True)
    encoded = figure.split("base64,")[1].split('"')[0]
    assert base64.b64decode(encoded) == b"\x89PNG\x00"
    assert 'alt="what"' in figure and '<figure class="full">' in figure


def test_page_is_well_formed_and_links_its_sections():
    parts = [
        html.paragraph("text"),
        html.missing("gone"),
        html.tiles(("0.5", "half")),
        html.folded("more", "hidden"),
        html.definitions({"a": "b"}),
        html.figure_grid(html.figure(b"x", "alt")),
    ]
    page = html.page(HOSTILE, "sub", html.paragraph("lede"), {"one": ("First", html.join(*parts))})
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert '<a href="#one">First</a>' in page and '<section id="one">' in page
    assert page.startswith("<!DOCTYPE html>") and "<script" not in page


def test_a_page_takes_styles_and_scripts_at_the_end_of_its_head():
    script = html.tag("script", html.Html("1 < 2"))
    page = html.page("t", "s", html.NOTHING, {}, script)
    assert "</style><script>1 < 2</script></head>" in page
    assert page.replace(script, "") == html.page("t", "s", html.NOTHING, {})
