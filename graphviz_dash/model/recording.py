"""What was seen of a program that ran as it is, once, while the recorder watched.

Field meanings are documented for users in docs/bundle-format.md.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from graphviz_dash.model.graph import Count


class BoundaryKind(StrEnum):
    """What a step of the program was taken to be, surest first."""

    EXPLICIT = "explicit"
    LABEL = "label"
    ENGINE = "engine"
    OPTIMIZER = "optimizer"
    REPLAYS = "replays"
    FORWARDS = "forwards"


class StartMethod(StrEnum):
    """How a process of the program came to be."""

    PROGRAM = "program"
    """It is the program that was run."""
    FORK = "fork"
    SPAWN = "spawn"
    FORKSERVER = "forkserver"
    SUBPROCESS = "subprocess"
    """Another program started it: ``subprocess``, a launcher, a shell."""


class WindowEnd(StrEnum):
    """The limit that closed the traced window."""

    STEPS = "steps"
    SECONDS = "seconds"
    EVENTS = "events"
    PROGRAM = "program"
    """The program ended first."""


class ProcessOrigin(Struct, frozen=True, forbid_unknown_fields=True):
    """Which process of a program a run is of."""

    role: str
    """The name that it has in the program: multiprocessing's, or its script."""
    started_by: StartMethod | None
    """How it came to be; None where that is not known."""
    pid: Count
    """The system's number of it."""
    parent_pid: Count
    """The number of the process that it came from."""
    parent: str | None
    """The run of that process in the same experiment; None where it has none."""


class RecordedGraph(Struct, frozen=True, forbid_unknown_fields=True):
    """A capture that the program made."""

    graph: str
    """Its id in the bundle."""
    captured_at: tuple[str, ...]
    """``file:line`` of the calls that led to it, innermost first, without those inside torch."""
    capture_ns: Count
    """By the wall clock, from the call that begins the capture to the return of the one that ends
    it, instantiation included, less the time taken to read it."""
    step: Count
    """Steps that had ended before."""
    nodes: Count | None
    """None where the graph could not be read; ``problem`` then says why."""
    replays: Count
    """Launches seen."""
    window_replays: Count
    """Launches in the traced window."""
    profiled: bool
    """Captured while the recorder's profiler ran."""
    alive: bool
    """The program still held the graph when it ended."""
    problem: str | None = None
    """How the capture failed, or why it could not be read; None where all is well."""


class Recording(Struct, frozen=True, forbid_unknown_fields=True, rename={"boundary_kind": "rung"}):
    """recording.json: the program's captures, replays and steps."""

    boundary_kind: BoundaryKind | None
    """What kind of event ends a step (``rung`` in the file); None where nothing did."""
    boundary: str | None
    """The same in words; None where nothing did."""
    skip: Count
    """Steps without a capture before the traced window, as asked for."""
    window: Count
    """Steps in the traced window, as asked for."""
    steps: Count
    """Steps that ended while the recorder counted them."""
    step_ns: tuple[Count, ...]
    """Wall time on the CPU from the end of a step to the end of the next, of the steps since the
    last capture and before the window. The GPU was waited for before the first of them and not
    between them."""
    drain_ns: Count | None
    """How long the GPU was waited for after the last of ``step_ns``: their sum and this are the
    time of so many steps in the program's own loop. None where it was not."""
    marked: Count
    """Whole steps in the traced window."""
    window_refused: str | None
    """Why there was no traced window; None where there was, or may yet be."""
    profiler_seen: bool
    """A profiler, the program's own or the recorder's, ran before or among the steps."""
    earlier_replays: Count
    """Launches of graphs captured before the recorder began."""
    graphs: tuple[RecordedGraph, ...]
    """The captures, in the order they began."""
    exit_code: int | None = None
    """The program's, negative for the signal that killed it; None for a part of a program recorded
    as a library."""
    process: ProcessOrigin | None = None
    """Which process of the program this is; None where one process was recorded as a library."""
    window_open_ns: Count | None = None
    """Pause of the program when the traced window opened; None if it did not open."""
    window_close_ns: Count | None = None
    """Pause of the program when the traced window closed; None if it did not close."""
    window_ended_by: WindowEnd | None = None
    """The limit that closed the traced window; None if it did not close."""
    cupti_attached: str | None = None
    """Why CUPTI stayed attached after the recorder's profiler; None if it was detached or never
    attached."""
    ended: bool | None = None
    """The recorder saw the end of the process; None if unknown (before version 6). False: the
    process was killed or left without its exit handlers."""
