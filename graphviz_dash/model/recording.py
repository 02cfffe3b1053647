"""Recording of an unmodified program that ran once under the recorder."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.model.graph import Count

WINDOW_REPLAYS: Final = 200
"""Default maximum number of steps in the traced window."""


class BoundaryKind(StrEnum):
    """Source of the step boundaries, most reliable first."""

    EXPLICIT = "explicit"
    LABEL = "label"
    ENGINE = "engine"
    OPTIMIZER = "optimizer"
    REPLAYS = "replays"
    FORWARDS = "forwards"


class StartMethod(StrEnum):
    """Start method of a process of the program."""

    PROGRAM = "program"
    """The program itself."""
    FORK = "fork"
    SPAWN = "spawn"
    FORKSERVER = "forkserver"
    SUBPROCESS = "subprocess"
    """Started by another program: ``subprocess``, a launcher, a shell."""


class WindowEnd(StrEnum):
    """The limit that closed the traced window."""

    STEPS = "steps"
    SECONDS = "seconds"
    EVENTS = "events"
    PROGRAM = "program"
    """The program ended first."""
    PROFILER = "profiler"
    """The program started a profiler."""
    THREAD = "thread"
    """The traced thread ended, or the steps continued in another one."""


class ProcessOrigin(Struct, frozen=True, forbid_unknown_fields=True):
    """The process of a program that a run belongs to."""

    role: str
    """Name of the process in the program: from multiprocessing, or its script."""
    started_by: StartMethod | None
    """Start method. None if unknown."""
    pid: Count
    """Process id."""
    parent_pid: Count
    """Process id of the parent."""
    parent: str | None
    """Run of the parent process in the same experiment. None if there is none."""


class RecordedGraph(Struct, frozen=True, forbid_unknown_fields=True):
    """A capture of the program."""

    graph: str
    """Id of the graph in the bundle."""
    captured_at: tuple[str, ...]
    """`file:line` of the calls that led to it, innermost first, without torch."""
    capture_ns: Count
    """Wall time from the start of the capture to the end of the call that ends it, with
    instantiation, in ns.
    """
    step: Count
    """Number of steps completed before."""
    nodes: Count | None
    """Number of nodes. None if unreadable; `problem` has the reason."""
    replays: Count
    """Number of recorded launches."""
    window_replays: Count
    """Number of launches in the traced window."""
    profiled: bool
    """True if captured under the recorder's profiler."""
    alive: bool
    """True if the program held the graph until its end."""
    problem: str | None = None
    """Reason for a failed capture or an unreadable graph. None if there is none."""
    eviction: bool = False
    """True if the program released the graph before a later capture."""


class Recording(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"boundary_kind": "rung", "end_seen": "ended"},
):
    """Content of recording.json: the program's captures, replays and steps."""

    boundary_kind: BoundaryKind | None
    """Kind of event that ends a step. None if no step ended."""
    boundary: str | None
    """Event that ends a step. None if no step ended."""
    skip: Count
    """Requested number of capture-free steps before the traced window."""
    window: Count
    """Requested number of steps in the traced window."""
    steps: Count
    """Number of steps that ended while the recorder counted."""
    step_ns: tuple[Count, ...]
    """Wall times between ends of consecutive steps after the last capture and before the window, in
    ns. The recorder synchronised only before the first.
    """
    drain_ns: Count | None
    """Wait for the GPU after the last of `step_ns`, in ns. Completes their time in the program's
    loop. None if not measured.
    """
    marked: Count
    """Number of complete steps in the traced window."""
    window_refused: str | None
    """Reason for a missing traced window. None if there is none."""
    profiler_seen: bool
    """True if any profiler ran before or during the steps."""
    earlier_replays: Count
    """Number of launches of graphs captured before the recording."""
    graphs: tuple[RecordedGraph, ...]
    """Captures, in the order of their start."""
    exit_code: int | None = None
    """Exit code of the program, negative for a signal. None if recorded as a library."""
    process: ProcessOrigin | None = None
    """The recorded process of the program. None if recorded as a library."""
    window_open_ns: Count | None = None
    """Pause of the program when the window opened, in ns. None if it did not open."""
    window_close_ns: Count | None = None
    """Pause of the program when the window closed, in ns. None if it did not close."""
    window_ended_by: WindowEnd | None = None
    """Reason for the end of the traced window. None if it did not close."""
    cupti_attached: str | None = None
    """Reason why CUPTI stayed attached after profiling. None if it did not."""
    end_seen: bool | None = None
    """True if the recorder saw the process end. False if it was killed or skipped its exit
    handlers. None if unknown.
    """


def find_released_graphs(recording: Recording) -> frozenset[str]:
    """Find the graphs that the program released before its end while it used others."""
    keeps_others = any(graph.alive for graph in recording.graphs)
    return frozenset(
        graph.graph
        for graph in recording.graphs
        if graph.nodes and (graph.eviction or (keeps_others and not graph.alive))
    )
