"""SVG as text: elements with attributes, and texts that are escaped. There are no scripts, styles or addresses.

Pages with a strict content security policy allow the result, because everything is an attribute.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_LONGEST = 400
"""The maximum number of characters of a text."""

FONT = "system-ui, sans-serif"
INK, FAINT, PAPER = "#1f2328", "#57606a", "#ffffff"
"""The colours of text, of small text and lines, and of the background, which pictures bring along for dark pages."""


def tag(name: str, content: str = "", /, **attributes: str | float | None) -> str:
    """Return an element. An underscore in the name of an attribute is a hyphen, except at its end.

    >>> tag("text", text("a<b"), x=1.5, text_anchor="middle", class_="key")
    '<text x="1.5" text-anchor="middle" class="key">a&lt;b</text>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def _value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{round(value, 1):g}"


def text(words: str) -> str:
    """Return a text that is safe inside elements and attributes: escaped, on one line, without control characters.

    Characters that change the direction of text, and others that are not printable, appear as escapes such as \\u202e.

    >>> text('<b>"x"\\n\\x00'), text("\\u202eabc")
    ('&lt;b&gt;&quot;x&quot;\\\\n\\\\x00', '\\\\u202eabc')
    """
    return escape(plain(words))


def plain(words: str) -> str:
    """Return a text on one line, with characters that are not printable as escapes, cut if it is long."""
    cut = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def title(lines: Iterable[str]) -> str:
    """Return a tooltip with one line per text."""
    return f"<title>{chr(10).join(text(line) for line in lines)}</title>"


def picture(width: float, height: float, name: str, content: str, *, class_: str, widest: float | None = None) -> str:
    """Return an SVG picture with a background.

    Args:
        width: The width of the content.
        height: The height of the content.
        name: The accessible name of the picture.
        content: The elements.
        class_: The CSS class of the picture.
        widest: The maximum width in pixels. A larger picture is scaled.
    """
    scale = 1.0 if widest is None else min(1.0, widest / width)
    ground = tag("rect", width=width, height=height, fill=PAPER, stroke="#d0d7de", class_="ground")
    body = f"{ground}{content}"
    return tag(
        "svg",
        body,
        xmlns="http://www.w3.org/2000/svg",
        class_=class_,
        role="img",
        aria_label=plain(name),
        viewBox=f"0 0 {width:g} {height:g}",
        width=width * scale,
        height=height * scale,
        font_family=FONT,
        font_size="12",
    )


def label(x: float, y: float, words: str, /, **attributes: str | float | None) -> str:
    """Return a text at a position."""
    return tag("text", text(words), x=x, y=y, **{"fill": INK, **attributes})
