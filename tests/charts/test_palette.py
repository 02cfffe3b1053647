from __future__ import annotations

import tomllib
from itertools import combinations, pairwise
from typing import Final

import pytest

from graphviz_dash.analysis.memory.report import MemoryPart
from graphviz_dash.app.hosting.server import PAGES
from graphviz_dash.charts import palette, shades
from graphviz_dash.charts.shades import Shade, Theme, get_colour
from tests.charts.colour_vision import VISIONS, contrast, distance

APART: Final = 7.0
"""Over three times the least difference that is visible side by side."""

SETS: Final[dict[str, list[Shade]]] = {
    "hues": list(shades.HUES),
    "categories": list(palette.CATEGORY_SHADES.values()),
    "runs": [palette.BASELINE, palette.RUN],
    # Runs, what was saved and what came have no colour of a category.
    "beside categories": [
        *palette.CATEGORY_SHADES.values(),
        palette.RUN,
        palette.SAVED,
        palette.GRAPH_LAUNCH,
    ],
    "kinds": list(palette.KIND_SHADES.values()),
    "changes": list(palette.CHANGE_SHADES.values()),
    "beside eager work": list(palette.EAGER_SHADES.values()),
    "phases": list(palette.PHASE_SHADES.values()),
    "modules": list(palette.MODULE_SHADES),
    "difference": [palette.SAVED, palette.ADDED, palette.REMAINDER],
    "uses of a pool": [
        palette.MEMORY_SHADES[part] for part in (MemoryPart.EXCLUSIVE, MemoryPart.SHARED)
    ]
    + [palette.MEMORY_SHADES[part] for part in (MemoryPart.WORKSPACES, MemoryPart.GRADIENTS)],
}
THEMES: Final[tuple[Theme, Theme]] = ("light", "dark")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("name", SETS)
def test_colours_of_a_set_are_apart(name: str, vision: str, theme: Theme) -> None:
    colours = sorted({get_colour(one, theme) for one in SETS[name]})
    near = [
        (round(far, 1), one, other)
        for one, other in combinations(colours, 2)
        if (far := distance(one, other, vision)) < APART
    ]
    assert not near


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize(
    "steps", [palette.TIME_SHADES, palette.SLACK_SHADES, tuple(palette.MEMORY_SHADES.values())[:8]]
)
def test_neighbours_are_apart(steps: tuple[Shade, ...], vision: str, theme: Theme) -> None:
    colours = [get_colour(one, theme) for one in steps]
    assert min(distance(*pair, vision) for pair in pairwise(colours)) >= APART


@pytest.mark.parametrize("theme", THEMES)
def test_drawn_colours_contrast_with_the_page(theme: Theme) -> None:
    # WCAG 2.2, 1.4.11: graphical objects need 3:1.
    page = get_colour(shades.PAGE, theme)
    drawn = [*shades.HUES, palette.BASELINE, palette.RUN, palette.SAVED, palette.ADDED, shades.IDLE]
    assert min(contrast(get_colour(one, theme), page) for one in drawn) >= 2.995


@pytest.mark.parametrize("theme", THEMES)
def test_the_themes_charts_have_the_palettes_colours(theme: Theme) -> None:
    settings = tomllib.loads((PAGES.parent / ".streamlit" / "config.toml").read_text())["theme"]
    given = settings[theme]
    # With fewer than ten, Streamlit takes colours of its own without a word.
    assert len(given["chartCategoricalColors"]) == 10
    hues = {get_colour(one, theme) for one in shades.HUES if one is not shades.VIOLET}
    assert hues <= set(given["chartCategoricalColors"])
    assert given["primaryColor"] == get_colour(shades.ACCENT, theme)
    assert given["backgroundColor"] == get_colour(shades.PAGE, theme)
    assert given["borderColor"] == get_colour(shades.BORDER, theme)


def test_the_simulation_knows_confusions_that_are_known() -> None:
    # Red and green of equal lightness: far apart, but hardly so without green or red cones.
    red, green = "#c0504d", "#6e8b3d"
    assert distance(red, green) > 20
    assert distance(red, green, "deuteranopia") < 8
    assert distance(red, green, "tritanopia") > 20
    # White and black are as far as can be for everybody; a colour is not apart from itself.
    assert [round(distance("#ffffff", "#000000", vision)) for vision in VISIONS] == [100] * 4
    assert distance(red, red, "protanopia") == 0
    assert round(contrast("#ffffff", "#767676"), 2) == 4.54


def test_parts_of_a_compiled_step_have_no_colour_of_a_kernel() -> None:
    for theme in THEMES:
        kernels = {get_colour(shade, theme) for shade in palette.CATEGORY_SHADES.values()}
        parts = {get_colour(shade, theme) for shade in palette.STEP_PART_SHADES.values()}
        assert not kernels & parts
