"""Data that pages send to the scripts of components. The types of the scripts come from here."""

from __future__ import annotations

from typing import Any

import msgspec

from graphviz_dash.charts.shades import Shade


class PaletteEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A category of slices."""

    label: str
    """Label in the legend."""
    shade: tuple[str, str]
    """Colour in the light and in the dark theme."""
    call: str | None = None
    """Class of CPU call; None for GPU work."""


class Palette(msgspec.Struct, frozen=True, omit_defaults=True):
    """Colours of a drawing, each in the light and in the dark theme."""

    categories: list[PaletteEntry]
    """Categories in the order of their index in slices."""
    idle: tuple[str, str]
    """Idle time."""
    critical: tuple[str, str] | None = None
    """Critical path."""
    run: tuple[str, str] | None = None
    """Runs with graphs."""
    light: tuple[str, str] | None = None
    """Runs without graphs."""
    saved: tuple[str, str] | None = None
    """Saved time."""


class DagData(msgspec.Struct, frozen=True):
    """Data of the DAG component."""

    experiment: str
    """Key of the experiment."""
    run: str
    """Name of the run."""
    graph: str
    """Id of the graph."""
    against: dict[str, str]
    """Parameters of the earlier graph; empty if there is none."""
    colour: str
    """Colouring, a ColourBy value."""
    selected: int | None
    """Node selected by the page."""
    find: str
    """Search text."""
    fold: str
    """Initial way to fold."""
    ready: bool
    """Whether the graph is prepared."""
    palette: Palette
    """Colours that are not part of a view."""


class TimelineData(msgspec.Struct, frozen=True):
    """Data of the timeline component."""

    experiment: str
    """Key of the experiment."""
    runs: list[str]
    """Names of the runs."""
    steps: list[int | None]
    """Steps of the runs; None for the typical step."""
    selected: str | None
    """Selection of the page."""
    ruler: str | None
    """Ruler as "begin,end" in ns; None if there is none."""
    height: int
    """Height in pixels."""
    palette: Palette
    """Colours."""


class PerfettoData(msgspec.Struct, frozen=True):
    """Data of the Perfetto buttons."""

    path: str
    """Path of the trace route."""
    trace: str
    """Query of the trace to send to Perfetto."""
    native: str
    """Query of the trace to download."""
    chrome: str
    """Query of the trace to download as JSON."""
    stem: str
    """Stem of file names."""
    title: str
    """Title of the trace in Perfetto."""
    label: str
    """Label of the main button."""
    small: bool
    """Whether to show small buttons in one row."""
    public: str
    """Address of the public UI."""
    host: str
    """Host of that address."""
    local: str | None
    """Address of the local UI; None if not installed."""
    timeout: int
    """Timeout in ms."""


class ProgramData(msgspec.Struct, frozen=True):
    """A compiled program as parallel lists, each box before those inside it."""

    ids: list[str]
    """Ids of the boxes."""
    parents: list[int]
    """Index of the parent box, or -1."""
    kinds: list[str]
    """Kinds of the boxes."""
    titles: list[str]
    """Titles of the boxes."""
    lines: list[str]
    """First source line, or empty."""
    times: list[int | None]
    """Time per step in ns."""
    causes: list[int]
    """Number of problems to fix."""
    step_ns: float
    """Step time in ns; 0 if unknown."""
    colour: str
    """Colouring: time or cause."""
    selected: str | None
    """Box selected by the page."""


def get_theme_colours(colour: Shade) -> tuple[str, str]:
    """Return the light and the dark value of a colour."""
    return colour.light, colour.dark


def to_plain_data(data: DagData | TimelineData | PerfettoData | ProgramData) -> Any:
    """Convert to the plain values that Streamlit sends."""
    return msgspec.to_builtins(data)
