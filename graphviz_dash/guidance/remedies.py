"""Commands that collect the missing inputs of a run."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from graphviz_dash.guidance.rerun import build_recording_command, get_option
from graphviz_dash.model.recording import WINDOW_REPLAYS, BoundaryKind, Recording
from graphviz_dash.model.run import FileRole, Run

_SETTLING_STEPS: Final = 3
"""Steps that the recorder skips before the window."""
_TIMED_STEP_COUNT: Final = 20
"""If the loop has this many."""
_WINDOW_FACTOR: Final = 4
"""Factor by which to extend a window that misses a size."""


class MissingInput(Enum):
    """Input that a changed command can add."""

    WINDOW = auto()
    """The trace of its steps."""
    TIMED_STEPS = auto()
    """Steps of the program's loop timed without a profiler."""
    SIZES = auto()
    """Graphs of a family that were replayed only before the window."""
    ATTRIBUTION = auto()
    """The origins of the graph nodes."""
    STEPS = auto()
    """A step boundary, which the program must mark."""
    REPLAY_TRACE = auto()
    """A trace of the steps of an imported run."""
    EAGER_RUN = auto()
    """A run of the workload without graphs, for comparison."""
    EAGER_RECORDING = auto()
    """A recording without graphs, for comparison."""
    EAGER_TRACE = auto()
    """An imported trace without graphs, for comparison."""


class Remedy(Struct, frozen=True):
    """A way to get a missing input."""

    missing_input: MissingInput
    command: tuple[str, ...] | None
    """None if no command alone helps."""
    extra_steps: int = 0


def find_remedies(run: Run, other_runs: Iterable[Run] = ()) -> tuple[Remedy, ...]:
    """Find commands for the missing inputs of a recorded or imported ``run``.

    Empty if nothing is missing or a run in ``other_runs`` provides it. Uses only manifests and
    recordings, so traces need not be loaded.
    """
    recording = run.recording
    if run.manifest.sources:
        return () if has_trace(run) else (Remedy(MissingInput.REPLAY_TRACE, None),)
    if recording is None:
        return ()
    if recording.boundary_kind is None:
        return (Remedy(MissingInput.STEPS, None),)
    remedies: list[Remedy] = []
    if not has_trace(run):
        remedies.append(_build_window_remedy(run, recording))
    elif not recording.step_ns:
        remedies.append(_build_timing_remedy(run, recording))
    elif _has_untraced_sizes(recording) and _is_window_full(run, recording):
        # The number of steps after the window is unknown because recording stops there.
        replay_count = str(_WINDOW_FACTOR * recording.window_steps)
        remedies.append(
            Remedy(
                MissingInput.SIZES, build_recording_command(run, {"--window-replays": replay_count})
            )
        )
    if any(graph.nodes for graph in recording.graphs) and not any(
        map(is_attributed, (run, *other_runs))
    ):
        # A separate run, because profiled captures prevent timing of the steps.
        named = {"--name": f"{run.name}-attributed", "--attribute": None}
        remedies.append(Remedy(MissingInput.ATTRIBUTION, build_recording_command(run, named)))
    return tuple(remedies)


def has_trace(run: Run) -> bool:
    """Return whether the bundle has a trace of its steps, loaded or not."""
    return any(file.role is FileRole.REPLAY_TRACE for file in run.manifest.files)


def is_attributed(run: Run) -> bool:
    """Return whether the captures were profiled to find source lines."""
    return run.recording is not None and any(graph.profiled for graph in run.recording.graphs)


def _has_several_sizes(recording: Recording) -> bool:
    """Return whether one source location captured several graphs, as in a server."""
    captured_at = [graph.captured_at for graph in recording.graphs if graph.replays]
    return len(set(captured_at)) < len(captured_at)


def _has_untraced_sizes(recording: Recording) -> bool:
    """Test if the window misses a graph captured at the location of a traced one."""
    traced = {graph.captured_at for graph in recording.graphs if graph.window_replays}
    return any(
        graph.replays and not graph.window_replays and graph.captured_at in traced
        for graph in recording.graphs
    )


def _is_window_full(run: Run, recording: Recording) -> bool:
    """Test if a larger maximum number of steps lengthens the window."""
    option = get_option(run.manifest.command, "--window-replays") or ""
    limit = int(option) if option.isdecimal() else WINDOW_REPLAYS
    return recording.window_steps >= max(limit, recording.requested_window_steps)


def _count_steps_after_captures(recording: Recording) -> int:
    """Count the steps without a capture, as a server may capture at any time."""
    if recording.boundary_kind in (BoundaryKind.LABEL, BoundaryKind.ENGINE):
        return max(0, recording.steps - len(recording.graphs))
    return recording.steps - max((graph.step for graph in recording.graphs), default=0)


def _build_window_remedy(run: Run, recording: Recording) -> Remedy:
    """Build a window that ends before the program does."""
    remaining = _count_steps_after_captures(recording) - _SETTLING_STEPS - 1
    steps = max(1, min(recording.requested_window_steps or 1, remaining // 2))
    skip = max(0, min(recording.skip_steps, remaining - steps))
    longer_by = max(0, steps + skip - remaining)
    options: dict[str, str | None] = {"--skip": str(skip), "--steps": str(steps)}
    if _has_several_sizes(recording):
        options["--window-replays"] = str(max(steps, remaining - skip))
    return Remedy(MissingInput.WINDOW, build_recording_command(run, options), longer_by)


def _build_timing_remedy(run: Run, recording: Recording) -> Remedy:
    """Time as many steps before the window as the program has left."""
    remaining = _count_steps_after_captures(recording) - _SETTLING_STEPS - 1
    steps = max(1, recording.requested_window_steps)
    skip = max(1, min(_TIMED_STEP_COUNT, remaining - steps))
    command = build_recording_command(run, {"--skip": str(skip), "--steps": str(steps)})
    return Remedy(MissingInput.TIMED_STEPS, command, max(0, steps + skip - remaining))
