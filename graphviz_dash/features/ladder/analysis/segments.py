"""A traced step of a program as its replays, the eager work between them, and idle time."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, column
from graphviz_dash.analysis.replays.replays import ReplayMatch
from graphviz_dash.analysis.trace.steps import Step, StepMethod, exclusive_ns
from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace


_SEEN: Final = 1000
"""Idle time between eager kernels is a piece of its own from this part of the step on: what is
shorter is no wider than a pixel, and a step of many thousand kernels stays quick to draw."""


class PieceKind(StrEnum):
    """What the GPU does in a piece of a step."""

    REPLAY = "replay"
    EAGER = "eager work"
    IDLE = "idle"


class Piece(Struct, frozen=True):
    """A stretch of a step."""

    kind: PieceKind
    """What the GPU does in it."""
    graph: str | None
    """The graph that is replayed; None for other kinds, and where it is not known which."""
    start_ns: int
    """Since the begin of the step."""
    end_ns: int
    """Since the begin of the step."""
    kernels: int
    """Rows of the trace in it: kernels, copies and sets."""
    busy_ns: int = 0
    """How long any of them runs, what the pieces before it cover left out."""
    replay: int | None = None
    """Which replay of the trace it is of; one that eager work of another stream runs beside is in
    several pieces. None for other kinds."""

    @property
    def duration_ns(self) -> int:
        """How long it lasts."""
        return self.end_ns - self.start_ns


class SegmentedStep(Struct, frozen=True):
    """One traced step, the one of median length."""

    step: int
    """Its number."""
    duration_ns: int
    """Its length under the profiler."""
    pieces: tuple[Piece, ...]
    """In the order of their begins, idle time between; where replays overlap eager work a piece
    begins behind the end of the one before."""

    def share(self, kind: PieceKind) -> float:
        """The share of the step's length in which the GPU runs work of a kind, or none, 0 to 1. The
        gaps between the kernels of a piece are idle time, as in the GPU busy time of the step."""
        if not self.duration_ns:
            return 0.0
        idle = kind is PieceKind.IDLE
        own = sum(piece.busy_ns for piece in self.pieces if idle or piece.kind is kind)
        return (self.duration_ns - own if idle else own) / self.duration_ns

    @property
    def replays(self) -> int:
        """How many replays are in it."""
        return len({piece.replay for piece in self.pieces if piece.replay is not None})


def segmented_step(
    trace: Trace, steps: Sequence[Step], match: ReplayMatch
) -> SegmentedStep | Missing:
    """The step of median length among those that replay the most graphs. Near-linear in the rows of
    the trace."""
    marked = [step for step in steps if step.method is not StepMethod.WHOLE and len(step.gpu_rows)]
    if not marked:
        return Missing(Fact.TRACED_STEPS, "the trace marks no steps")
    most = max(step.graph_launches for step in marked)
    alike = sorted(
        (step for step in marked if step.graph_launches == most),
        key=lambda step: step.duration_ns,
    )
    step = alike[len(alike) // 2]
    owner = np.full(trace.gpu.height, -1, dtype=np.int64)
    owner[match.gpu_row] = np.arange(len(match.gpu_row))
    return SegmentedStep(step.index, step.duration_ns, _pieces(trace, step, match, owner))


def _pieces(trace: Trace, step: Step, match: ReplayMatch, owner: Ints) -> tuple[Piece, ...]:
    rows = step.gpu_rows
    begin = column(trace.gpu, "ts")[rows] - step.span_start
    end = begin + np.maximum(column(trace.gpu, "dur")[rows], 0)
    matched = owner[rows]
    replay = np.where(matched >= 0, match.replay[matched], -1)
    busy = exclusive_ns(np.clip(begin, 0, step.duration_ns), np.clip(end, 0, step.duration_ns))
    covered = np.maximum.accumulate(np.concatenate(([0], end[:-1])))
    rests = (replay < 0) & ((begin - covered) * _SEEN >= step.duration_ns)
    bounds = np.flatnonzero((np.diff(replay, prepend=replay[0] - 1) != 0) | rests)
    pieces: list[Piece] = []
    clock = 0
    for first, last in zip(bounds.tolist(), [*bounds[1:].tolist(), len(rows)], strict=True):
        start = max(int(begin[first]), clock)
        stop = max(int(end[first:last].max()), start)
        if start > clock:
            pieces.append(Piece(PieceKind.IDLE, None, clock, start, 0))
        work, count = int(busy[first:last].sum()), last - first
        if replay[first] < 0:
            pieces.append(Piece(PieceKind.EAGER, None, start, stop, count, work))
        else:
            graph = int(match.graph[matched[first]])
            root = match.roots[graph] if graph >= 0 else None
            number = int(replay[first])
            pieces.append(Piece(PieceKind.REPLAY, root, start, stop, count, work, number))
        clock = stop
    if step.duration_ns > clock:
        pieces.append(Piece(PieceKind.IDLE, None, clock, step.duration_ns, 0))
    return tuple(pieces)
