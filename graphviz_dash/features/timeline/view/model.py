"""What a view of the timeline is made of, as it goes to the page."""

from __future__ import annotations

from typing import Literal

import msgspec


class Lane(msgspec.Struct, frozen=True, omit_defaults=True):
    """One lane. At level ``slices`` it has the columns from ``gap`` to ``node``, an entry a slice;
    at level ``busy`` it has ``busy``; one of ranges always has columns."""

    kind: Literal["gpu", "cpu", "range"]
    """What runs on it: GPU work, API calls of a CPU thread, or what that thread is in."""
    owner: int
    """The device of a GPU lane, the process of a CPU lane."""
    track: int
    """The stream of a GPU lane, the thread of a CPU lane."""
    sub: int
    """Number among the lanes of one track, whose slices overlap."""
    label: str
    """Empty on sub-lanes."""
    gap: list[int] | None = None
    """ns from the end of the slice before (first: from the loaded window's begin)."""
    dur: list[int] | None = None
    """Length in ns."""
    name: list[int] | None = None
    """Index into the view's names."""
    row: list[int] | None = None
    """Row of the trace, less that of the slice before (first: itself)."""
    launch: list[int] | None = None
    """Row of the launching call, -1 where unknown; less the one before, as ``row``."""
    node: list[int] | None = None
    """Index of the graph's node, -1 where unknown; less the one before, as ``row``."""
    busy: str | None = None
    """Base64 of a byte a bin: the busy share, 0 only if idle and 255 only if full."""


class StepMark(msgspec.Struct, frozen=True):
    """A step of a run."""

    index: int
    """Its number."""
    begin: int
    """In ns since the run's origin."""
    end: int
    """In ns since the run's origin."""


class RunView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of the view."""

    run: str
    """Its name."""
    light: bool = False
    """Whether it is drawn in the lighter ink: it ran without graphs."""
    problem: str | None = None
    """Why there is nothing to draw."""
    step: StepMark | None = None
    """The chosen step; None where the trace marks none."""
    boundaries: list[StepMark] = []
    """The steps that touch the loaded window."""
    lanes: list[Lane] = []
    """CPU lanes before GPU lanes."""
    hidden_lanes: int = 0
    """Lanes left out, which are less busy than those shown."""
    idle: dict[int, list[int]] = {}
    """By device its long idle periods as begin, end, begin, end, ... in ns since the origin."""
    device_busy: dict[int, str] = {}
    """By device, at level ``busy``, the busy share of each bin as a lane's ``busy`` has it."""
    summary: str = ""
    """The visible window, in words."""
    length: str = ""
    """Of the chosen step."""
    delta: str = ""
    """The step's length against the first run's, in words."""


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the view's first run loses time against another, over its chosen step. Losses are in
    ns of idle and of busy time that the first run has more of, negative where it gains."""

    run: str
    """Name of the other run."""
    problem: str | None = None
    """Why there is nothing to show."""
    before: tuple[int, int] = (0, 0)
    """Idle and busy loss before the loaded window."""
    idle: list[int] = []
    """Idle loss in each of as many even bins of the loaded window."""
    busy: list[int] = []
    """Busy loss in each bin."""
    total: tuple[int, int] = (0, 0)
    """Idle and busy loss in the whole step."""
    waiting: list[int] = []
    """What is lost in each bin by waiting for other ranks; empty where neither run waits."""
    waiting_before: int = 0
    """The same before the loaded window."""
    waiting_total: int = 0
    """The same in the whole step."""
    most: int = 0
    """The largest difference at any instant."""
    text: str = ""
    """How the work was paired, in words."""


class TimelineView(msgspec.Struct, frozen=True):
    """A view of one window of several runs. Windows are begin and end in ns since the origins."""

    level: Literal["slices", "busy"]
    """How lanes are drawn."""
    window: tuple[int, int]
    """The visible part."""
    loaded: tuple[int, int]
    """What was sent."""
    fit: tuple[int, int]
    """The window that shows the longest chosen step."""
    limits: tuple[int, int]
    """The earliest and the latest time of all runs."""
    bins: int
    """Bins of a lane at level ``busy``; 0 at level ``slices``."""
    names: list[tuple[str, int]]
    """Short name and category of slices; categories index the palette's, then the call classes."""
    runs: list[RunView]
    """From top to bottom."""
    differences: list[Difference] = []
    """Of the first run against each other one, as far as they were computed."""
    complete: bool = True
    """Whether nothing is left to be computed about these runs (nodes of slices, differences)."""
