"""The colours of the palette by themselves; :mod:`graphviz_dash.charts.palette` says what for.

Apart from it, because a page's frame needs some, and the first page waits for all that is imported.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

Theme: TypeAlias = Literal["light", "dark"]


class Shade(Struct, frozen=True):
    """A colour in the light and in the dark theme, as #rrggbb."""

    light: str
    dark: str


def shade(colour: Shade, theme: Theme) -> str:
    """The colour in the theme, as #rrggbb."""
    return colour.light if theme == "light" else colour.dark


BLUE: Final = Shade("#4177a8", "#688dbd")
MAGENTA: Final = Shade("#ab3277", "#cc5e90")
CYAN: Final = Shade("#119ec5", "#64ccf1")
GREEN: Final = Shade("#15690e", "#41b572")
ORANGE: Final = Shade("#be614f", "#f47f44")
YELLOW: Final = Shade("#a99001", "#dcc853")
VIOLET: Final = Shade("#7253c9", "#9d91f1")
GREY: Final = Shade("#848a8f", "#b8b1b8")

HUES: Final = (BLUE, MAGENTA, CYAN, GREEN, ORANGE, YELLOW, VIOLET, GREY)
"""The colours that things of different kinds are told apart by."""

IDLE: Final = Shade("#d64550", "#ff7b84")

WARNING: Final = Shade("#b7791f", "#e0b050")

ACCENT: Final = Shade("#2f5fd0", "#6f98ff")
"""What is chosen or can be clicked; primaryColor in .streamlit/config.toml."""

PAGE: Final = Shade("#fbfbfd", "#0f131a")
"""Behind everything; backgroundColor in .streamlit/config.toml."""
