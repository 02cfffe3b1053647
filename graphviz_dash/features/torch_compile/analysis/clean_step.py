"""Simulation of a traced step without the profiler.

The profiler slows the CPU, above all graph launches, and leaves GPU work unchanged. The simulation
uses calibrated graph launches and scales the other CPU pieces by one factor, fitted to the clean
step time. To predict a fix, pieces are omitted or merged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm
from graphviz_dash.analysis.step_comparison.step_parts import StepPart

_BISECTION_STEPS: Final = 40
_MAX_FACTOR: Final = 16.0


class GpuWork(Struct, frozen=True):
    """GPU work of one call."""

    part: StepPart
    """Purpose of the work; REPLAY for a graph."""
    duration_ns: float
    """For a graph, from its first to its last kernel."""
    kernels: int
    """Kernels and copies."""
    is_host_copy: bool = False
    """Copies from or to host memory."""
    is_blocking: bool = False
    """The call returns when the work is done."""


class CpuPiece(Struct, frozen=True):
    """Uninterrupted piece of CPU work."""

    part: StepPart
    frame: str | None
    """Compilation of the enclosing call; None outside compiled functions."""
    duration_ns: float
    """Duration under the profiler; for a wait, the part after the GPU finishes."""
    work: GpuWork | None = None
    """Launched at the end of the piece."""

    @property
    def launches_graph(self) -> bool:
        """True if the piece launches a graph."""
        return self.work is not None and self.work.part is StepPart.REPLAY


class LaunchedWork(Struct, frozen=True):
    """A call and the work that it launches, in ns of the trace."""

    call_start: int
    call_end: int
    work_end: int
    work: GpuWork


def split_cpu_pieces(
    spans: Sequence[tuple[int, int, StepPart, str | None]], launched: Sequence[LaunchedWork]
) -> tuple[CpuPiece, ...]:
    """Split the CPU side of a step into pieces.

    Args:
        spans: start, end, part and compilation of CPU activity, ordered and without gaps.
        launched: calls that launch work, ordered.
    """
    pieces: list[CpuPiece] = []
    ends = sorted(work.work_end for work in launched)
    calls = iter(launched)
    call = next(calls, None)
    appended = None
    wait: tuple[int, int] | None = None
    for start, end, part, frame in spans:
        while call is not None and start >= call.call_end:
            call = next(calls, None)
        if call is not None and start >= call.call_start:
            wait = None
            if call is not appended:
                pieces.append(_build_launch_piece(call, part, frame))
                appended = call
            continue
        if part is not StepPart.WAIT:
            wait = None
            pieces.append(CpuPiece(part, frame, float(end - start)))
            continue
        is_same = wait is not None and wait[1] == start and pieces[-1].frame == frame
        wait = (wait[0] if wait is not None and is_same else start, end)
        finished = bisect_right(ends, end)
        remaining_ns = end - max(wait[0], ends[finished - 1] if finished else wait[0])
        if is_same:
            pieces.pop()
        pieces.append(CpuPiece(part, frame, float(remaining_ns)))
    return tuple(pieces)


def _build_launch_piece(call: LaunchedWork, part: StepPart, frame: str | None) -> CpuPiece:
    blocks = call.work.is_host_copy and call.work_end <= call.call_end
    cpu_ns = call.call_end - (call.work_end if blocks else call.call_start)
    return CpuPiece(part, frame, float(cpu_ns), replace(call.work, is_blocking=blocks))


def get_first_node_latency_ns() -> float:
    """Return the latency from a graph launch to its first node without a profiler."""
    return load_shipped_calibration().terms[ReplayTerm.FIXED]


def simulate_step(pieces: Iterable[CpuPiece], factor: float) -> float:
    """Return the duration in ns with ``factor`` of the traced CPU time."""
    call_ns, node_ns = load_shipped_calibration().replay_cpu_ns
    to_first_ns = get_first_node_latency_ns()
    cpu = gpu = busy = 0.0
    for piece in pieces:
        work = piece.work
        busy += 0.0 if work is None else work.duration_ns
        if piece.part is StepPart.WAIT and work is None:
            cpu = max(cpu, gpu) + piece.duration_ns * factor
        elif work is not None and piece.launches_graph:
            gpu = max(gpu, cpu + to_first_ns) + work.duration_ns
            cpu += call_ns + node_ns * work.kernels
        else:
            cpu += piece.duration_ns * factor
            if work is not None:
                gpu = max(gpu, cpu) + work.duration_ns
                cpu = gpu if work.is_blocking else cpu
    # Without a final wait, the GPU may still work while the next step starts.
    return max(cpu, busy)


def drop_final_wait(pieces: Sequence[CpuPiece]) -> Sequence[CpuPiece]:
    """Drop the final wait; traced steps wait there for the sake of the trace."""
    last = len(pieces)
    while last and pieces[last - 1].part is StepPart.PYTHON:
        last -= 1
    if last and pieces[last - 1].part is StepPart.WAIT and pieces[last - 1].frame is None:
        return [*pieces[: last - 1], *pieces[last:]]
    return pieces


def fit_cpu_factor(pieces: Sequence[CpuPiece], step_ns: float) -> float:
    """Fit the CPU factor to a duration; 0 if GPU work alone lasts longer."""
    low, high = 0.0, _MAX_FACTOR
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2
        if simulate_step(pieces, middle) > step_ns:
            high = middle
        else:
            low = middle
    return low
