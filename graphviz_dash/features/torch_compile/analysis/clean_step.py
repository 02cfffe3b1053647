"""A traced step run again as it would be without a profiler.

The profiler slows the CPU, and leaves the GPU's work as it is. A graph's launch is slowed most:
under CUPTI it takes most of a microsecond for each node, and the GPU waits for its end. So a step
is run again from what was traced of it: the CPU goes through its pieces, each a constant factor
shorter, graphs are launched in the time that a clean launch takes (the shipped calibration has it),
the GPU does its work in order, and where the CPU waits it goes on when the work is done. The factor
is the one with which the step takes what it took without a profiler. The same step with some pieces
left out, or with the work of two launches in one, is what it would be once a cause is mended: what
was hidden behind the GPU's work saves nothing, and what the GPU waited for is saved once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.prediction.replay_model import ReplayTerm
from graphviz_dash.analysis.prediction.shipped_calibration import shipped_calibration
from graphviz_dash.analysis.step_comparison.step_parts import StepPart

_ROUNDS: Final = 40
_MOST: Final = 16.0
"""The CPU is never taken to be slower without a profiler than by so much."""


class GpuWork(Struct, frozen=True):
    """What one call launches."""

    part: StepPart
    """What the work is for; graph replay for a graph."""
    ns: float
    """How long the GPU is at it; of a graph from its first kernel to its last, in ns."""
    kernels: int
    """How many kernels and copies there are."""
    is_host_copy: bool = False
    """Whether it is a copy from or to memory of the CPU."""
    blocks: bool = False
    """Whether the call returns when the work is done."""


class CpuPiece(Struct, frozen=True):
    """What the CPU does without interruption."""

    part: StepPart
    """What it is for."""
    frame: str | None
    """The compilation whose call it is in; None outside compiled functions."""
    ns: float
    """How long it takes under the profiler, in ns; of a wait what is left when the GPU is done."""
    work: GpuWork | None = None
    """What it launches at its end."""

    @property
    def launches_graph(self) -> bool:
        """Whether it launches a graph."""
        return self.work is not None and self.work.part is StepPart.REPLAY


class LaunchedWork(Struct, frozen=True):
    """A call and what it launches, in ns of the trace."""

    call_start: int
    """When the call begins."""
    call_end: int
    """When it returns."""
    work_end: int
    """When the GPU is done."""
    work: GpuWork
    """What it launches."""


def cpu_pieces(
    spans: Sequence[tuple[int, int, StepPart, str | None]], launched: Sequence[LaunchedWork]
) -> tuple[CpuPiece, ...]:
    """The pieces of a step.

    Args:
        spans: begin, end, part and compilation of what the CPU is in, in order and without a gap.
        launched: the calls that launch work, in order.
    """
    pieces: list[CpuPiece] = []
    ends = sorted(each.work_end for each in launched)
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
                pieces.append(_launch(call, part, frame))
                appended = call
            continue
        if part is not StepPart.WAIT:
            wait = None
            pieces.append(CpuPiece(part, frame, float(end - start)))
            continue
        is_same = wait is not None and wait[1] == start and pieces[-1].frame == frame
        wait = (wait[0] if wait is not None and is_same else start, end)
        done = bisect_right(ends, end)
        left = end - max(wait[0], ends[done - 1] if done else wait[0])
        if is_same:
            pieces.pop()
        pieces.append(CpuPiece(part, frame, float(left)))
    return tuple(pieces)


def _launch(call: LaunchedWork, part: StepPart, frame: str | None) -> CpuPiece:
    blocks = call.work.is_host_copy and call.work_end <= call.call_end
    took = call.call_end - (call.work_end if blocks else call.call_start)
    return CpuPiece(part, frame, float(took), replace(call.work, blocks=blocks))


def first_node_ns() -> float:
    """From the call that launches a graph to its first node, without a profiler, in ns."""
    return shipped_calibration().terms[ReplayTerm.FIXED]


def run_again(pieces: Iterable[CpuPiece], factor: float) -> float:
    """How long the step takes, in ns, where the CPU takes ``factor`` of its traced time."""
    call_ns, node_ns = shipped_calibration().replay_cpu_ns
    to_first_ns = first_node_ns()
    cpu = gpu = busy = 0.0
    for piece in pieces:
        work = piece.work
        busy += 0.0 if work is None else work.ns
        if piece.part is StepPart.WAIT and work is None:
            cpu = max(cpu, gpu) + piece.ns * factor
        elif work is not None and piece.launches_graph:
            gpu = max(gpu, cpu + to_first_ns) + work.ns
            cpu += call_ns + node_ns * work.kernels
        else:
            cpu += piece.ns * factor
            if work is not None:
                gpu = max(gpu, cpu) + work.ns
                cpu = gpu if work.blocks else cpu
    # Where nothing waits for its end, the GPU is at it while the next step begins.
    return max(cpu, busy)


def without_last_wait(pieces: Sequence[CpuPiece]) -> Sequence[CpuPiece]:
    """A step at whose end the next one begins while the GPU is at work: a traced step is waited for
    at its end, for the sake of the trace."""
    last = len(pieces)
    while last and pieces[last - 1].part is StepPart.PYTHON:
        last -= 1
    if last and pieces[last - 1].part is StepPart.WAIT and pieces[last - 1].frame is None:
        return [*pieces[: last - 1], *pieces[last:]]
    return pieces


def clean_factor(pieces: Sequence[CpuPiece], step_ns: float) -> float:
    """The factor with which the step takes ``step_ns``; 0 where the GPU alone takes longer."""
    low, high = 0.0, _MOST
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if run_again(pieces, middle) > step_ns:
            high = middle
        else:
            low = middle
    return low
