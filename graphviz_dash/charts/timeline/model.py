"""What a view of the timeline is made of, as it goes to the page."""

from __future__ import annotations

from typing import Literal

import msgspec


class Lane(msgspec.Struct, frozen=True, omit_defaults=True):
    """One lane. ``label`` is empty on sub-lanes. At level ``slices`` the columns are deltas:
    ``gap`` from the end of the previous slice (first: from the loaded window's begin), ``row``,
    ``launch`` and ``node`` from the previous value (first: from 0); ``name`` indexes the view's
    names. ``launch`` (row of the launching call) and ``node`` are -1 where unknown. At level
    ``busy`` there is ``busy``: base64 of a byte a bin, 0 only if idle and 255 only if full.
    """

    kind: Literal["gpu", "cpu"]
    owner: int
    track: int
    sub: int
    label: str
    gap: list[int] | None = None
    dur: list[int] | None = None
    name: list[int] | None = None
    row: list[int] | None = None
    launch: list[int] | None = None
    node: list[int] | None = None
    busy: str | None = None


class StepMark(msgspec.Struct, frozen=True):
    """A step of a run: its number, and begin and end since the run's origin."""

    index: int
    begin: int
    end: int


class RunView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of the view. ``problem`` says why there is nothing to draw. ``step`` is the chosen
    one; ``boundaries`` are the steps that touch the loaded window. ``idle`` has, for each device,
    the long idle periods as begin, end, begin, end, ... ``summary`` tells the visible window, in
    words; ``delta`` the step's length against the first run's."""

    run: str
    mode: str
    problem: str | None = None
    step: StepMark | None = None
    boundaries: list[StepMark] = []
    lanes: list[Lane] = []
    hidden_lanes: int = 0
    idle: dict[int, list[int]] = {}
    summary: str = ""
    length: str = ""
    delta: str = ""


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the view's first run loses time against ``run``, over its chosen step, in ns.

    ``idle`` and ``busy`` are lost in each of as many even bins of the loaded window: idle and busy
    time that the first run has more of, negative where it gains; ``before`` is what was lost
    before the window, ``total`` in the whole step, ``most`` the largest difference at any instant.
    ``text`` says how the work was paired; ``problem`` why there is nothing to show.
    """

    run: str
    mode: str
    problem: str | None = None
    before: tuple[int, int] = (0, 0)
    idle: list[int] = []
    busy: list[int] = []
    total: tuple[int, int] = (0, 0)
    most: int = 0
    text: str = ""


class TimelineView(msgspec.Struct, frozen=True):
    """A view. ``window`` is the visible part, ``loaded`` what was sent, ``fit`` the window that
    shows the longest chosen step, ``limits`` the earliest and latest time of all runs. ``names``
    are pairs of short name and category index (into categories, then call classes).
    ``differences`` are of the first run against each other one, as far as they are known;
    ``complete``: nothing is to be found out about these runs (nodes of slices, differences)."""

    level: Literal["slices", "busy"]
    window: tuple[int, int]
    loaded: tuple[int, int]
    fit: tuple[int, int]
    limits: tuple[int, int]
    bins: int
    names: list[tuple[str, int]]
    runs: list[RunView]
    differences: list[Difference] = []
    complete: bool = True
