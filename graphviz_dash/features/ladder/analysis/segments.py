"""Traced step of a program as replays, eager work and idle time."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, get_column
from graphviz_dash.analysis.replays.replays import ReplayMatch
from graphviz_dash.analysis.trace.steps import Step, StepMethod, compute_exclusive_ns
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.trace import Trace

_MIN_GAP_DIVISOR: Final = 1000
"""Inverse of the smallest share of a step for an idle piece; less is below a pixel."""


class PieceKind(StrEnum):
    """GPU activity in a piece of a step."""

    REPLAY = "replay"
    EAGER = "eager work"
    IDLE = "idle"


class StepPiece(Struct, frozen=True):
    """A time span of a step."""

    kind: PieceKind
    graph: str | None
    """None for other kinds, and if unknown."""
    start_ns: int
    """In ns since the start of the step."""
    end_ns: int
    """In ns since the start of the step."""
    kernels: int
    """Trace rows: kernels, copies and sets."""
    busy_ns: int = 0
    """Excludes time covered by earlier pieces."""
    replay: int | None = None
    """Index of the replay, which spans several pieces if concurrent with eager work. None for other
    kinds."""

    @property
    def duration_ns(self) -> int:
        """Duration in ns."""
        return self.end_ns - self.start_ns


class SegmentedStep(Struct, frozen=True):
    """The traced step of median length."""

    step: int
    duration_ns: int
    """Length under the profiler."""
    pieces: tuple[StepPiece, ...]
    """In order, with idle time between.

    If replays overlap eager work, a piece starts at the end of the previous one.
    """

    def compute_share(self, kind: PieceKind) -> float:
        """Compute the share of the step with work of a kind, 0 to 1; gaps count as idle."""
        if not self.duration_ns:
            return 0.0
        idle = kind is PieceKind.IDLE
        busy_ns = sum(piece.busy_ns for piece in self.pieces if idle or piece.kind is kind)
        return (self.duration_ns - busy_ns if idle else busy_ns) / self.duration_ns

    @property
    def replays(self) -> int:
        """Number of replays."""
        return len({piece.replay for piece in self.pieces if piece.replay is not None})


def divide_step(trace: Trace, steps: Sequence[Step], match: ReplayMatch) -> SegmentedStep | Missing:
    """Divide the median step among those with the most graph launches; near-linear."""
    marked = [step for step in steps if step.method is not StepMethod.WHOLE and len(step.gpu_rows)]
    if not marked:
        return Missing(Fact.TRACED_STEPS, "the trace marks no steps")
    max_launches = max(step.graph_launches for step in marked)
    candidates = sorted(
        (step for step in marked if step.graph_launches == max_launches),
        key=lambda step: step.duration_ns,
    )
    step = candidates[len(candidates) // 2]
    owner = np.full(trace.gpu.height, -1, dtype=np.int64)
    owner[match.gpu_row] = np.arange(len(match.gpu_row))
    return SegmentedStep(step.index, step.duration_ns, _build_pieces(trace, step, match, owner))


def _build_pieces(
    trace: Trace, step: Step, match: ReplayMatch, owner: Ints
) -> tuple[StepPiece, ...]:
    rows = step.gpu_rows
    begin = get_column(trace.gpu, "ts")[rows] - step.span_start
    end = begin + np.maximum(get_column(trace.gpu, "dur")[rows], 0)
    matched = owner[rows]
    replay = np.where(matched >= 0, match.replay[matched], -1)
    busy = compute_exclusive_ns(
        np.clip(begin, 0, step.duration_ns), np.clip(end, 0, step.duration_ns)
    )
    covered = np.maximum.accumulate(np.concatenate(([0], end[:-1])))
    is_gap = (replay < 0) & ((begin - covered) * _MIN_GAP_DIVISOR >= step.duration_ns)
    bounds = np.flatnonzero((np.diff(replay, prepend=replay[0] - 1) != 0) | is_gap)
    pieces: list[StepPiece] = []
    clock = 0
    for first, last in zip(bounds.tolist(), [*bounds[1:].tolist(), len(rows)], strict=True):
        start = max(int(begin[first]), clock)
        stop = max(int(end[first:last].max()), start)
        if start > clock:
            pieces.append(StepPiece(PieceKind.IDLE, None, clock, start, 0))
        work, count = int(busy[first:last].sum()), last - first
        if replay[first] < 0:
            pieces.append(StepPiece(PieceKind.EAGER, None, start, stop, count, work))
        else:
            graph = int(match.graph[matched[first]])
            root = match.roots[graph] if graph >= 0 else None
            number = int(replay[first])
            pieces.append(StepPiece(PieceKind.REPLAY, root, start, stop, count, work, number))
        clock = stop
    if step.duration_ns > clock:
        pieces.append(StepPiece(PieceKind.IDLE, None, clock, step.duration_ns, 0))
    return tuple(pieces)
