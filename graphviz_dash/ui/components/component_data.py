"""What the pages hand to the scripts of the components, whose types are written from here."""

from __future__ import annotations

from typing import Any

import msgspec

from graphviz_dash.charts.shades import Shade


class PaletteEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A category of slices."""

    label: str
    """As the legend says it."""
    shade: tuple[str, str]
    """In the light and in the dark theme."""
    call: str | None = None
    """What kind of thing on the CPU it is; None for GPU work."""


class Palette(msgspec.Struct, frozen=True, omit_defaults=True):
    """The colours of a drawing, each in the light and in the dark theme."""

    categories: list[PaletteEntry]
    """By the categories that slices name."""
    idle: tuple[str, str]
    """Of idle time."""
    critical: tuple[str, str] | None = None
    """Of the critical path."""
    run: tuple[str, str] | None = None
    """Ink of runs."""
    light: tuple[str, str] | None = None
    """Ink of runs without graphs."""
    saved: tuple[str, str] | None = None
    """Of time that is gained."""


class DagData(msgspec.Struct, frozen=True):
    """What Python says of a drawing of a graph."""

    experiment: str
    """Key of the experiment."""
    run: str
    """Name of the run."""
    graph: str
    """Id of the graph."""
    against: dict[str, str]
    """The parameters that name the earlier graph, or none."""
    colour: str
    """What colours tell."""
    selected: int | None
    """The node that is selected from outside."""
    find: str
    """What is searched for."""
    fold: str
    """What the fold begins with."""
    ready: bool
    """Whether the graph is prepared."""
    palette: Palette
    """The colours that the server does not send with a view."""


class TimelineData(msgspec.Struct, frozen=True):
    """What Python says of a timeline."""

    experiment: str
    """Key of the experiment."""
    runs: list[str]
    """Names of the runs."""
    steps: list[int | None]
    """Steps of the runs; None: the typical one."""
    selected: str | None
    """What is selected from outside."""
    ruler: str | None
    """Where the ruler lies."""
    height: int
    """In pixels."""
    palette: Palette
    """The colours."""


class PerfettoData(msgspec.Struct, frozen=True):
    """What Python says of the buttons that open Perfetto."""

    path: str
    """Of the trace's route."""
    trace: str
    """Query of the trace that is handed over."""
    native: str
    """Query of the trace to download."""
    chrome: str
    """Query of the trace to download as JSON."""
    stem: str
    """Of file names."""
    title: str
    """Of the trace in Perfetto."""
    label: str
    """Of the main button."""
    small: bool
    """Whether the buttons stand in one row, small."""
    public: str
    """Address of the public UI."""
    host: str
    """Of that address."""
    local: str | None
    """Address of the UI that this server has, if it has one."""
    timeout: int
    """In ms."""


class ProgramData(msgspec.Struct, frozen=True):
    """A compiled program as parallel lists, each box before those within it."""

    ids: list[str]
    """Of the boxes."""
    parents: list[int]
    """Place of the box around each, -1 for none."""
    kinds: list[str]
    """What each is."""
    titles: list[str]
    """What each is called."""
    lines: list[str]
    """The line that each begins at, or nothing."""
    times: list[int | None]
    """The time of each in a step, in ns."""
    causes: list[int]
    """How many things there are to mend in each."""
    whole: float
    """The time of a step, in ns."""
    colour: str
    """What colours tell: time or cause."""
    selected: str | None
    """The box that is selected from outside."""


def both_themes(colour: Shade) -> tuple[str, str]:
    """A colour in the light and in the dark theme."""
    return colour.light, colour.dark


def as_data(data: DagData | TimelineData | PerfettoData | ProgramData) -> Any:
    """As Streamlit sends it."""
    return msgspec.to_builtins(data)
