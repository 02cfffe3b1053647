"""SVG elements as text. Colours are CSS variables, so one drawing works for light pages, dark pages
and paper."""

from __future__ import annotations

import math
import re
from html import escape
from typing import Final

from graphviz_dash.charts.shades import Shade
from graphviz_dash.errors import escape_control_characters

_VARIABLE: Final = re.compile(r"var\(--s([0-9a-f]{6})([0-9a-f]{6})\)")

INK: Final = Shade("#1b2130", "#e6e9f0")
MUTED: Final = Shade("#5a6477", "#9aa4b8")
RULE: Final = Shade("#d9dee8", "#2d3546")
PAPER: Final = Shade("#ffffff", "#151a23")
_SANS_WIDTH: Final = 0.61
"""Mean character width of a sans serif font relative to its size; on the wide side."""


def css_colour(shade: Shade) -> str:
    """Return a shade as a CSS value."""
    return f"var(--s{shade.light[1:]}{shade.dark[1:]})"


def declare_variables(markup: str) -> tuple[str, str]:
    """Declare the shades in ``markup``, for light and for dark pages."""
    used_shades = sorted(set(_VARIABLE.findall(markup)))
    light = "".join(f"--s{first}{other}:#{first};" for first, other in used_shades)
    dark = "".join(f"--s{first}{other}:#{other};" for first, other in used_shades)
    return light, dark


def build_drawing(width: float, height: float, title: str, content: str) -> str:
    """Build a drawing with the width of its page; ``title`` describes it in words."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape_text(title)}" '
        f'style="max-width:{width:g}px">{content}</svg>'
    )


def escape_text(value: object) -> str:
    """Escape markup and control characters of a value."""
    return escape(escape_control_characters(str(value)))


def build_rectangle(
    x: float, y: float, width: float, height: float, fill: str, *, extra: str = "", tip: str = ""
) -> str:
    """Build a rectangle; ``tip`` is the tooltip, ``extra`` adds attributes."""
    inside = f"><title>{escape_text(tip)}</title></rect>" if tip else "/>"
    more = f" {extra}" if extra else ""
    position = f'x="{x:.2f}" y="{y:.2f}" width="{max(width, 0):.2f}" height="{max(height, 0):.2f}"'
    return f'<rect {position} style="fill:{fill}"{more}{inside}'


def build_text(x: float, y: float, value: object, kind: str = "", anchor: str = "start") -> str:
    """Build a text element with its baseline at ``y``; ``kind`` is its CSS class."""
    class_attribute = f' class="{kind}"' if kind else ""
    side = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{class_attribute}{side}>{escape_text(value)}</text>'


def truncate_text(value: str, room: float, size: float) -> str:
    """Truncate ``value`` to about ``room`` pixels at a font size."""
    limit = max(1, int(room / (size * _SANS_WIDTH)))
    safe_text = escape_control_characters(value)
    return safe_text if len(safe_text) <= limit else f"{safe_text[: limit - 1]}…"


def build_legend(
    entries: list[tuple[str, Shade]], x: float, y: float, width: float
) -> tuple[str, float]:
    """Build a legend in rows downward from ``y``; also return the y position below it."""
    parts, left = [], x
    for label, shade in entries:
        room = 16 + 7 * len(label) + 16
        if left > x and left + room > width:
            left, y = x, y + 18
        parts.append(build_rectangle(left, y - 9, 10, 10, css_colour(shade), extra='rx="2"'))
        parts.append(build_text(left + 15, y, label, "small"))
        left += room
    return "".join(parts), y + 18


WIDTH: Final = 960.0


def compute_round_numbers(limit: float) -> list[float]:
    """Return four to ten round numbers from 0 to ``limit``, at least 1."""
    power = 10.0 ** math.floor(math.log10(max(limit, 1)))
    step = next(step for step in (2, 1, 0.5, 0.2) if limit / (step * power) >= 3)
    return [index * step * power for index in range(int(limit / (step * power)) + 1)]
