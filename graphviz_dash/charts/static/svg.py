"""Pieces of drawings as SVG text. Colours are CSS variables, one for each shade, so that one
drawing does for a light page, a dark one and paper."""

from __future__ import annotations

import math
import re
from html import escape
from typing import Final

from graphviz_dash.charts.shades import Shade
from graphviz_dash.errors import printable

_VARIABLE: Final = re.compile(r"var\(--s([0-9a-f]{6})([0-9a-f]{6})\)")

INK: Final = Shade("#1b2130", "#e6e9f0")
MUTED: Final = Shade("#5a6477", "#9aa4b8")
RULE: Final = Shade("#d9dee8", "#2d3546")
PAPER: Final = Shade("#ffffff", "#151a23")
_SANS_WIDTH: Final = 0.61
"""Mean width of a character of a sans serif face over its size; on the wide side."""


def colour(shade: Shade) -> str:
    """A shade as a value of CSS."""
    return f"var(--s{shade.light[1:]}{shade.dark[1:]})"


def variables(markup: str) -> tuple[str, str]:
    """The declarations of every shade that ``markup`` uses: for light pages, and for dark ones."""
    used = sorted(set(_VARIABLE.findall(markup)))
    light = "".join(f"--s{first}{other}:#{first};" for first, other in used)
    dark = "".join(f"--s{first}{other}:#{other};" for first, other in used)
    return light, dark


def drawing(width: float, height: float, title: str, content: str) -> str:
    """A drawing that takes the width of its page; ``title`` says what it shows, in words."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{text(title)}" '
        f'style="max-width:{width:g}px">{content}</svg>'
    )


def text(value: object) -> str:
    """Any value as text: control characters shown, markup escaped."""
    return escape(printable(str(value)))


def rectangle(
    x: float, y: float, width: float, height: float, fill: str, *, extra: str = "", tip: str = ""
) -> str:
    """A rectangle; ``tip`` is shown where the mouse rests, ``extra`` are more attributes."""
    inside = f"><title>{text(tip)}</title></rect>" if tip else "/>"
    more = f" {extra}" if extra else ""
    position = f'x="{x:.2f}" y="{y:.2f}" width="{max(width, 0):.2f}" height="{max(height, 0):.2f}"'
    return f'<rect {position} style="fill:{fill}"{more}{inside}'


def words(x: float, y: float, value: object, kind: str = "", anchor: str = "start") -> str:
    """Text with its baseline at ``y``; ``kind`` is its CSS class."""
    of = f' class="{kind}"' if kind else ""
    side = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{of}{side}>{text(value)}</text>'


def fitted(value: str, room: float, size: float) -> str:
    """``value`` cut to about ``room`` pixels at a font size."""
    most = max(1, int(room / (size * _SANS_WIDTH)))
    shown = printable(value)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def legend(entries: list[tuple[str, Shade]], x: float, y: float, width: float) -> tuple[str, float]:
    """Colours and what they mean, in rows from ``y`` down; and where the next thing may begin."""
    parts, left = [], x
    for label, shade in entries:
        room = 16 + 7 * len(label) + 16
        if left > x and left + room > width:
            left, y = x, y + 18
        parts.append(rectangle(left, y - 9, 10, 10, colour(shade), extra='rx="2"'))
        parts.append(words(left + 15, y, label, "small"))
        left += room
    return "".join(parts), y + 18


WIDTH: Final = 960.0


def round_numbers(most: float) -> list[float]:
    """Round numbers from 0 to ``most``, at least 1, four to ten of them."""
    power = 10.0 ** math.floor(math.log10(max(most, 1)))
    step = next(step for step in (2, 1, 0.5, 0.2) if most / (step * power) >= 3)
    return [index * step * power for index in range(int(most / (step * power)) + 1)]
