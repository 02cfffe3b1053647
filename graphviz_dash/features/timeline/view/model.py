"""Wire model of a timeline view, as sent to the page."""

from __future__ import annotations

from typing import Literal

import msgspec


class Lane(msgspec.Struct, frozen=True, omit_defaults=True):
    """Lane of the timeline. At level ``slices`` it has the columns from ``gap`` to ``node``, one
    entry per slice; at level ``busy`` it has ``busy``. Range lanes always have columns."""

    kind: Literal["gpu", "cpu", "range"]
    """Content: GPU work, API calls of a CPU thread, or ranges of that thread."""
    owner: int
    """Device of a GPU lane, process of a CPU lane."""
    track: int
    """Stream of a GPU lane, thread of a CPU lane."""
    sub: int
    """Index among the lanes of one track with overlapping slices."""
    label: str
    """Label; empty on sub-lanes."""
    gap: list[int] | None = None
    """Distance in ns from the end of the previous slice (first: from the start of the loaded
    window)."""
    dur: list[int] | None = None
    """Duration in ns."""
    name: list[int] | None = None
    """Index into the view's names."""
    row: list[int] | None = None
    """Row of the trace, as difference from the previous slice (first: absolute)."""
    launch: list[int] | None = None
    """Row of the launching call, -1 if unknown; difference like ``row``."""
    node: list[int] | None = None
    """Index of the graph's node, -1 if unknown; difference like ``row``."""
    busy: str | None = None
    """Base64 of one byte per bin: the busy share, 0 only if idle and 255 only if full."""
    category: str | None = None
    """Base64 of one byte per bin: the category with the longest slices; only GPU lanes."""


class StepMark(msgspec.Struct, frozen=True):
    """Step of a run."""

    index: int
    """Number."""
    begin: int
    """Start in ns since the run's origin."""
    end: int
    """End in ns since the run's origin."""


class RunView(msgspec.Struct, frozen=True, omit_defaults=True):
    """Run of the view."""

    run: str
    """Name."""
    light: bool = False
    """Whether it uses the lighter colour of runs without graphs."""
    problem: str | None = None
    """Reason why there is nothing to draw."""
    step: StepMark | None = None
    """Chosen step; None if the trace marks no steps."""
    boundaries: list[StepMark] = []
    """Steps that touch the loaded window."""
    lanes: list[Lane] = []
    """Lanes, CPU before GPU."""
    hidden_lanes: int = 0
    """Number of omitted lanes, which are less busy than the visible ones."""
    idle: dict[int, list[int]] = {}
    """Long idle periods by device as begin, end, begin, end, ... in ns since the origin."""
    device_busy: dict[int, str] = {}
    """Busy share of each bin by device at level ``busy``, encoded like a lane's ``busy``."""
    summary: str = ""
    """Summary of the visible window."""
    length: str = ""
    """Duration of the chosen step."""
    delta: str = ""
    """Difference to the step of the first run, in words."""


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """Time that the view's first run loses against another run over its chosen step. Losses are ns
    of additional idle and busy time of the first run, negative for gains."""

    run: str
    """Name of the other run."""
    problem: str | None = None
    """Reason why there is nothing to show."""
    before: tuple[int, int] = (0, 0)
    """Idle and busy loss before the loaded window."""
    idle: list[int] = []
    """Idle loss in each of the even bins of the loaded window."""
    busy: list[int] = []
    """Busy loss in each bin."""
    total: tuple[int, int] = (0, 0)
    """Idle and busy loss in the full step."""
    waiting: list[int] = []
    """Loss in each bin from waiting for other ranks; empty if neither run waits."""
    waiting_before: int = 0
    """Waiting loss before the loaded window."""
    waiting_total: int = 0
    """Waiting loss in the full step."""
    most: int = 0
    """Largest difference at any time."""
    text: str = ""
    """Method that matched the work, in words."""
    cause: str = ""
    """Main cause of the unprofiled difference, as Compare names it; empty if unknown."""
    work: int = 0
    """Part of the busy loss from longer work; the rest is less overlap."""


class TimelineView(msgspec.Struct, frozen=True):
    """View of one window of several runs. Windows are begin and end in ns since the origins."""

    level: Literal["slices", "busy"]
    """Drawing mode of lanes."""
    window: tuple[int, int]
    """Visible window."""
    loaded: tuple[int, int]
    """Sent window."""
    fit: tuple[int, int]
    """Window that shows the longest chosen step."""
    limits: tuple[int, int]
    """Earliest and latest time of all runs."""
    bins: int
    """Number of bins of a lane at level ``busy``; 0 at level ``slices``."""
    names: list[tuple[str, int]]
    """Short name and category of slices; categories index the palette's, then the call classes."""
    runs: list[RunView]
    """Runs from top to bottom."""
    differences: list[Difference] = []
    """Differences of the first run against the others, as far as computed."""
    complete: bool = True
    """Whether all data of these runs is computed (nodes of slices, differences)."""
