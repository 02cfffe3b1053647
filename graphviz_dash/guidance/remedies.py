"""What to run to get what a run lacks: its own command, with values that fit the program as it was
seen."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.guidance.rerun import recorded_with
from graphviz_dash.model.recording import BoundaryKind
from graphviz_dash.model.run import FileRole, Run

if TYPE_CHECKING:
    from graphviz_dash.model.recording import Recording

_SETTLING: Final = 3
"""Steps under the profiler before the window's own, as the recorder leaves them."""
_ENOUGH: Final = 20
"""Steps that are timed in the program's loop, where there are so many."""
_LONGER: Final = 4
"""By how much a window is made longer in which a size is missing."""


class Lack(Enum):
    """What a run lacks that its own command, changed, gets."""

    WINDOW = auto()
    """The trace of its steps."""
    TIMED_STEPS = auto()
    """Steps of its own loop, timed without a profiler."""
    SIZES = auto()
    """Graphs of a family that were replayed before the window and not in it."""
    ATTRIBUTION = auto()
    """Where the nodes of its graphs come from."""
    STEPS = auto()
    """A boundary between steps: the program must say where one ends."""
    REPLAY_TRACE = auto()
    """Of an imported run: a trace of its steps."""
    EAGER_RUN = auto()
    """A run of its workload without graphs, to compare its own with."""
    EAGER_RECORDING = auto()
    """The same, of a recorded program."""
    EAGER_TRACE = auto()
    """The same, of an imported trace."""


class Remedy(Struct, frozen=True):
    """How to get what a run lacks."""

    lack: Lack
    """What it lacks."""
    command: tuple[str, ...] | None
    """What to run; None where no command alone helps."""
    longer_by: int = 0
    """How many more steps the program must run for it."""


def remedies(run: Run, beside: Iterable[Run] = ()) -> tuple[Remedy, ...]:
    """What gets ``run`` that which it lacks, of a recorded or an imported one; empty where it lacks
    nothing of the kind, or a run ``beside`` it has it. Decided by manifests and recordings, so that
    traces need not be read.
    """
    recording = run.recording
    if run.manifest.sources:
        return () if has_trace(run) else (Remedy(Lack.REPLAY_TRACE, None),)
    if recording is None:
        return ()
    if recording.boundary_kind is None:
        return (Remedy(Lack.STEPS, None),)
    lacking: list[Remedy] = []
    if not has_trace(run):
        lacking.append(_window(run, recording))
    elif not recording.step_ns:
        lacking.append(_timed(run, recording))
    elif _untraced_sizes(recording):
        # How many steps came after the window is not known: they are counted no longer then.
        longer = str(_LONGER * max(1, recording.marked))
        lacking.append(Remedy(Lack.SIZES, recorded_with(run, {"--window-replays": longer})))
    if recording.graphs and not any(map(is_attributed, (run, *beside))):
        # Its steps are timed no more where its captures are profiled: a run of its own.
        named = {"--name": f"{run.name}-attributed", "--attribute": None}
        lacking.append(Remedy(Lack.ATTRIBUTION, recorded_with(run, named)))
    return tuple(lacking)


def has_trace(run: Run) -> bool:
    """Whether the bundle of ``run`` has a trace of its steps, be it read or not."""
    return any(file.role is FileRole.REPLAY_TRACE for file in run.manifest.files)


def is_attributed(run: Run) -> bool:
    """Whether captures of a recorded ``run`` were profiled, so that nodes lead to their lines."""
    return run.recording is not None and any(graph.profiled for graph in run.recording.graphs)


def _has_sizes(recording: Recording) -> bool:
    """Whether one place captured several graphs, as a server's does."""
    captured_at = [graph.captured_at for graph in recording.graphs if graph.replays]
    return len(set(captured_at)) < len(captured_at)


def _untraced_sizes(recording: Recording) -> bool:
    """Whether a graph is not in the window that shares its place of capture with one that is."""
    traced = {graph.captured_at for graph in recording.graphs if graph.window_replays}
    return any(
        graph.replays and not graph.window_replays and graph.captured_at in traced
        for graph in recording.graphs
    )


def _steps_after_captures(recording: Recording) -> int:
    """Steps that ended since the last capture; of a server, which may capture for as long as it
    runs, all steps in which none was."""
    if recording.boundary_kind in (BoundaryKind.LABEL, BoundaryKind.ENGINE):
        return max(0, recording.steps - len(recording.graphs))
    return recording.steps - max((graph.step for graph in recording.graphs), default=0)


def _window(run: Run, recording: Recording) -> Remedy:
    """A window that ends before the program does."""
    left = _steps_after_captures(recording) - _SETTLING - 1
    steps = max(1, min(recording.window or 1, left // 2))
    skip = max(0, min(recording.skip, left - steps))
    longer_by = max(0, steps + skip - left)
    options: dict[str, str | None] = {"--skip": str(skip), "--steps": str(steps)}
    if _has_sizes(recording):
        options["--window-replays"] = str(max(steps, left - skip))
    return Remedy(Lack.WINDOW, recorded_with(run, options), longer_by)


def _timed(run: Run, recording: Recording) -> Remedy:
    """As many steps before the window as the program has left."""
    left = _steps_after_captures(recording) - _SETTLING - 1
    steps = max(1, recording.window)
    skip = max(1, min(_ENOUGH, left - steps))
    command = recorded_with(run, {"--skip": str(skip), "--steps": str(steps)})
    return Remedy(Lack.TIMED_STEPS, command, max(0, steps + skip - left))
