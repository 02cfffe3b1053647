"""Recording of an unmodified program that ran once under the recorder."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.model.graph import Count

WINDOW_REPLAYS: Final = 200
"""Default maximum number of steps in the traced window."""

WINDOW_PAUSE_S: Final = 0.3
"""Default maximum pause of a program for opening and closing the traced window."""


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
    start_method: StartMethod | None
    """Start method. None if unknown."""
    pid: Count
    parent_pid: Count
    parent: str | None
    """Run of the parent process. None if there is none."""


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
    """Steps completed before."""
    nodes: Count | None
    """Nodes. None if unreadable; `problem` has the reason."""
    replays: Count
    """Recorded launches."""
    window_replays: Count
    """Launches in the traced window."""
    profiled: bool
    """True if captured under the recorder's profiler."""
    alive: bool
    """True if the program held the graph until its end."""
    problem: str | None = None
    """Reason for a failed capture or unreadable graph. None if there is none."""
    eviction: bool = False
    """True if the program released the graph before a later capture."""


class Recording(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of recording.json: captures, replays and steps."""

    boundary_kind: BoundaryKind | None
    """Kind of event that ends a step. None if no step ended."""
    boundary: str | None
    """Event that ends a step. None if no step ended."""
    skip_steps: Count
    """Requested capture-free steps before the traced window."""
    requested_window_steps: Count
    """Requested steps in the traced window."""
    steps: Count
    """Steps that ended while the recorder counted."""
    step_ns: tuple[Count, ...]
    """Wall times between ends of consecutive steps after the last capture and before the window, in
    ns. The recorder synchronised only before the first.
    """
    final_wait_ns: Count | None
    """Wait for the GPU after the last of `step_ns`, in ns. Completes their time in the program's
    loop. None if not measured.
    """
    window_steps: Count
    """Complete steps in the traced window."""
    window_missing_reason: str | None
    """Reason for a missing traced window. None if there is none."""
    profiler_active: bool
    """True if any profiler ran before or during the steps."""
    earlier_replays: Count
    """Launches of graphs captured before the recording."""
    graphs: tuple[RecordedGraph, ...]
    """Captures, in the order of their start."""
    exit_code: int | None = None
    """Exit code of the program, negative for a signal. None if recorded as a library."""
    process: ProcessOrigin | None = None
    """Recorded process. None if recorded as a library."""
    window_open_ns: Count | None = None
    """Pause of the program when the window opened, in ns. None if it did not open."""
    window_close_ns: Count | None = None
    """Pause of the program when the window closed, in ns. None if it did not close."""
    window_ended_by: WindowEnd | None = None
    """Reason for the end of the traced window. None if it did not close."""
    cupti_attached: str | None = None
    """Reason why CUPTI stayed attached after profiling. None if it did not."""
    reached_end: bool | None = None
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
