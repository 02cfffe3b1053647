"""The steps of a program's loop as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.model.loop import ProgramLoop, SizeMethod, StepKind

NONE: Final = -1
"""Stands in a column where the fact of a step is not known."""

KINDS: Final = tuple(StepKind)
REPLAYED: Final = (KINDS.index(StepKind.REPLAY), KINDS.index(StepKind.SEGMENTS))
"""Codes of the kinds that replay graphs."""
_REPLAY: Final = KINDS.index(StepKind.REPLAY)
FALLBACK: Final = KINDS.index(StepKind.FALLBACK)
CAPTURE: Final = KINDS.index(StepKind.CAPTURE)


class SizeSource(StrEnum):
    """How the real size of a step is known, surest first."""

    LABEL = "label"
    """The program said it: ``collectors.label``."""
    ENGINE = "engine"
    """The public state of an engine."""
    SHAPES = "shapes"
    """The shapes of what a pass was given that ran eagerly, for no graph fits it."""
    COPIES = "copies"
    """The bytes that were copied into static inputs before the replay, in the traced window."""


SIZE_SOURCES: Final = tuple(SizeSource)


class LoopColumns(Struct, frozen=True):
    """The steps in their order, each column of shape (steps,), ``NONE`` where a fact is unknown."""

    kind: Ints
    """The place of its kind in ``KINDS``."""
    family: Ints
    """The place of its family."""
    member: Ints
    """The place of its member."""
    real: Ints
    """The size that was asked for."""
    size_source: Ints
    """The place in ``SIZE_SOURCES`` of how that is known."""
    padded: Ints
    """The size that was computed."""
    begin_ns: Ints
    """When it began."""
    end_ns: Ints
    """When its last call returned."""
    gpu_ns: Ints
    """GPU time of its replays, where they were sampled."""
    launch_ns: Ints
    """The calls that replay its graphs."""
    period_ns: Ints
    """From its begin to that of the next step of the same thread; of each thread's last none."""

    @property
    def replayed(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which steps replayed graphs."""
        return np.isin(self.kind, REPLAYED)

    def settled(self, rows: Ints) -> Ints:
        """Those of ``rows``, of one family, whose period tells of a program that has run for a
        while, where others are left: not the first replay of each graph that is a step by itself,
        nor the first step of each real size with eager work in it. Libraries prepare themselves for
        a shape when they first see it, as cuDNN's attention does for 30 ms."""
        timed: Ints = rows[self.period_ns[rows] != NONE]
        if not (self.real[timed] != NONE).any():
            return timed
        alone = self.kind[timed] == _REPLAY
        which = np.where(alone, self.member[timed], self.real[timed])
        first = np.unique(np.stack((alone, which)), axis=1, return_index=True)[1]
        later: Ints = np.delete(timed, first)
        return later if len(later) else timed


def loop_columns(
    loop: ProgramLoop, copied: Mapping[int, int] = MappingProxyType({})
) -> LoopColumns:
    """The columns of the steps of ``loop``; times of those that a profiler may have slowed down are
    left out, but for when they began and ended. ``copied`` are real sizes by the copies into static
    inputs, by row."""
    steps = loop.steps
    real = _column(steps.real)
    source = _column([None if how is None else _SOURCE_OF[how] for how in steps.size_method])
    for row, size in copied.items():
        real[row], source[row] = size, SIZE_SOURCES.index(SizeSource.COPIES)
    kind, family = _codes(steps.kind), _column(steps.family)
    biased = _biased(source, kind, family, real, loop.window_steps)
    real[biased] = source[biased] = NONE
    begin, thread = _column(steps.begin_ns), _column(steps.thread)
    return LoopColumns(
        kind=kind,
        family=family,
        member=_column(steps.member),
        real=real,
        size_source=source,
        padded=_column(steps.padded),
        begin_ns=begin,
        end_ns=_column(steps.end_ns),
        gpu_ns=_clean(_column(steps.gpu_ns), loop.clean_steps),
        launch_ns=_clean(_column(steps.launch_ns), loop.clean_steps),
        period_ns=_periods(begin, thread, loop.clean_steps),
    )


_SOURCE_OF: Final = {
    SizeMethod.LABEL: SIZE_SOURCES.index(SizeSource.LABEL),
    SizeMethod.ENGINE: SIZE_SOURCES.index(SizeSource.ENGINE),
    SizeMethod.SHAPES: SIZE_SOURCES.index(SizeSource.SHAPES),
}


def _biased(
    source: Ints, kind: Ints, family: Ints, real: Ints, window: Sequence[int | None]
) -> Ints:
    """The rows of eager passes whose shapes tell a size that may not be used: where that of their
    family's replays is not known, all requests would seem to fit no graph. Where it is known of the
    traced window alone, theirs is used there alone."""
    by_shapes = source == SIZE_SOURCES.index(SizeSource.SHAPES)
    traced = np.zeros(len(kind), dtype=bool)
    traced[np.array([row for row in window if row is not None], dtype=np.int64)] = True
    biased = np.zeros(len(kind), dtype=bool)
    for number in np.unique(family[by_shapes]):
        own = family == number
        served = own & np.isin(kind, REPLAYED)
        if (real[served] == NONE).any():
            used = traced if (real[served & traced] != NONE).any() else np.zeros_like(traced)
            biased |= own & by_shapes & ~used
    return np.flatnonzero(biased)


def _column(values: Sequence[int | None]) -> Ints:
    known = [NONE if value is None else value for value in values] if None in values else values
    return np.array(known, dtype=np.int64)


def _clean(times: Ints, clean: int) -> Ints:
    return np.where(np.arange(len(times)) < clean, times, NONE)


def _codes(values: Sequence[StepKind]) -> Ints:
    codes = {kind: code for code, kind in enumerate(KINDS)}
    return np.array([codes[value] for value in values], dtype=np.int64)


def _periods(begin: Ints, thread: Ints, clean: int) -> Ints:
    """Up to the next step of the same thread, which must be clean too: a profiler that starts
    between the two takes seconds."""
    order = np.lexsort((begin, thread))
    periods = np.full(len(begin), NONE, dtype=np.int64)
    if len(order) > 1:
        known = (thread[order][1:] == thread[order][:-1]) & (order[1:] < clean)
        periods[order[:-1]] = np.where(known, np.diff(begin[order]), NONE)
    return _clean(periods, clean)
