"""Draws the pictures of the documentation as SVG: shapes and text, for light and dark pages, legible on a phone."""

from __future__ import annotations

from typing import Literal
from xml.sax.saxutils import escape

WIDTH = 420
"""Of every picture, in its own units; a phone of 390 pixels shows 14 units of text as 12 pixels."""

Kind = Literal["plain", "blue", "amber", "pale", "none"]
Anchor = Literal["start", "middle", "end"]

_LIGHT = """\
.card{fill:#fff;stroke:#d0d7de}
.plain{fill:#f3f5f8;stroke:#6e7781}
.blue{fill:#cfe0ff;stroke:#2456b3}
.amber{fill:#ffe2ad;stroke:#9a6100}
.pale{fill:none;stroke:#a3abb4;stroke-dasharray:3 3}
.none{fill:none;stroke:none}
text,.dot{fill:#1f2328}
.small{fill:#57606a}
.line{stroke:#57606a}
.head{fill:#57606a;stroke:none}
"""
_DARK = """\
.card{fill:#15191f;stroke:#3d444d}
.plain{fill:#262c36;stroke:#9198a1}
.blue{fill:#1c3a70;stroke:#8ab4ff}
.amber{fill:#5c3d08;stroke:#f0b650}
.pale{stroke:#6b7480}
text,.dot{fill:#f0f3f6}
.small{fill:#b3bcc7}
.line{stroke:#b3bcc7}
.head{fill:#b3bcc7}
"""
_STYLE = f"""\
text{{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-size:14px}}
.bold{{font-weight:600;font-size:15px}}
.small{{font-size:13px}}
.code{{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:13px}}
.line{{fill:none;stroke-width:1.5}}
{_LIGHT}@media (prefers-color-scheme:dark){{
{_DARK}}}
"""


class Drawing:
    """A picture that shapes are added to, one above the other."""

    def __init__(self, height: int, title: str, description: str) -> None:
        self.height = height
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="desc">{escape(description)}</desc>',
            f"<style>\n{_STYLE}</style>",
            # A card, so that the text has its own background where the page's colours do not follow the system's.
            f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        ]

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        kind: Kind = "plain",
        corner: int = 4,
    ) -> None:
        """A rectangle."""
        self._parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{corner}"/>'
        )

    def dot(self, x: float, y: float, radius: float = 4) -> None:
        """A filled circle."""
        self._parts.append(
            f'<circle class="dot" cx="{x:g}" cy="{y:g}" r="{radius:g}"/>'
        )

    def text(
        self, x: float, y: float, words: str, style: str = "", anchor: Anchor = "start"
    ) -> None:
        """A line of text on its baseline; `style` is bold, small, code or several of them."""
        classes = f' class="{style}"' if style else ""
        where = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._parts.append(
            f'<text{classes} x="{x:g}" y="{y:g}"{where} xml:space="preserve">{escape(words)}</text>'
        )

    def labelled(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        words: str,
        kind: Kind = "plain",
    ) -> None:
        """A rectangle with a short text in its middle."""
        self.box(x, y, width, height, kind)
        self.text(x + width / 2, y + height / 2 + 5, words, "code", "middle")

    def cells(
        self, x: float, y: float, labels: str, kinds: str, size: float = 26
    ) -> None:
        """A row of squares: one character of `labels` in each, one of `kinds` (p, b, a, -) for its colour."""
        names: dict[str, Kind] = {"p": "plain", "b": "blue", "a": "amber", "-": "pale"}
        for place, (label, kind) in enumerate(zip(labels, kinds, strict=True)):
            self.labelled(x + place * size, y, size, size, label.strip(), names[kind])

    def line(self, *points: tuple[float, float], dashed: bool = False) -> None:
        """A line through some points."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        self._parts.append(f'<polyline class="line" points="{path}"{dashes}/>')

    def arrow(self, *points: tuple[float, float]) -> None:
        """A line through some points with a head at the last one; its last part is horizontal or vertical."""
        (x0, y0), (x, y) = points[-2:]
        dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
        self.line(*points[:-1], (x - 6 * dx, y - 6 * dy))
        corners = (
            (x, y),
            (x - 8 * dx + 4 * dy, y - 8 * dy + 4 * dx),
            (x - 8 * dx - 4 * dy, y - 8 * dy - 4 * dx),
        )
        path = " ".join(f"{a:g},{b:g}" for a, b in corners)
        self._parts.append(f'<polygon class="head" points="{path}"/>')

    def svg(self) -> str:
        """The file."""
        return "\n".join((*self._parts, "</svg>\n"))
