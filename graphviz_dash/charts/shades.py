"""Colours of the palette; :mod:`graphviz_dash.charts.palette` assigns their meanings.

Separate, because imports of the page frame delay the first page.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

Theme: TypeAlias = Literal["light", "dark"]


class Shade(Struct, frozen=True):
    """Colour in the light and the dark theme, as #rrggbb."""

    light: str
    dark: str


def get_colour(colour: Shade, theme: Theme) -> str:
    """Return the colour in the theme, as #rrggbb."""
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

IDLE: Final = Shade("#d64550", "#ff7b84")

WARNING: Final = Shade("#b7791f", "#e0b050")

ACCENT: Final = Shade("#2f5fd0", "#6f98ff")
"""Selected or clickable elements; primaryColor in .streamlit/config.toml."""

PAGE: Final = Shade("#fbfbfd", "#0f131a")
"""Page background; backgroundColor in .streamlit/config.toml."""

BORDER: Final = Shade("#dfe3ec", "#2a3140")
"""Border of buttons and folds; borderColor in .streamlit/config.toml."""
