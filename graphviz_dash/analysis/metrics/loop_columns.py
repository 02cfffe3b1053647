"""Steps of a program's loop as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Flags, Ints
from graphviz_dash.analysis.metrics.step_periods import compute_periods
from graphviz_dash.model.loop import Phase, ProgramLoop, SizeMethod, StepKind

NONE: Final = -1

KINDS: Final = tuple(StepKind)
REPLAY_KINDS: Final = (KINDS.index(StepKind.REPLAY), KINDS.index(StepKind.SEGMENTS))
_REPLAY: Final = KINDS.index(StepKind.REPLAY)
FALLBACK: Final = KINDS.index(StepKind.FALLBACK)
CAPTURE: Final = KINDS.index(StepKind.CAPTURE)


PHASES: Final = tuple(Phase)

_SIZES_PER_OCTAVE: Final = 6
"""Groups of eager steps between a size and its double."""


class SizeSource(StrEnum):
    """Source of a step's real size, most reliable first."""

    LABEL = "label"
    """Program label: ``collectors.label``."""
    ENGINE = "engine"
    """Public state of an engine."""
    SHAPES = "shapes"
    """Input shapes of an eager pass for which no graph fits."""
    COPIES = "copies"
    """Bytes copied into static inputs before the replay, in the traced window."""


SIZE_SOURCES: Final = tuple(SizeSource)


class LoopColumns(Struct, frozen=True):
    """Steps in order; columns of shape (steps,), ``NONE`` if unknown."""

    kind: Ints
    """Index in ``KINDS``."""
    phase: Ints
    family: Ints
    member: Ints
    real: Ints
    """Requested size."""
    size_source: Ints
    """Index of the size's source in ``SIZE_SOURCES``."""
    padded: Ints
    """Computed size, including padding."""
    requests: Ints
    begin_ns: Ints
    end_ns: Ints
    """Return of the last call."""
    gpu_ns: Ints
    """GPU time of the replays, if sampled."""
    launch_ns: Ints
    """CPU time of the replay calls."""
    period_ns: Ints
    """Time of the step: to the start of the thread's next step, or that of the GPU if the next step
    starts before the GPU has executed this one. ``NONE`` for the last step."""
    is_gpu_bound: Flags
    """``period_ns`` is the time of the GPU."""
    is_asynchronous: bool
    """Steps start while the GPU executes the previous one, which takes longer than the CPU."""

    @property
    def is_replay(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Mask of the steps that replayed graphs."""
        return np.isin(self.kind, REPLAY_KINDS)

    def select_settled(self, rows: Ints) -> Ints:
        """Select the rows of one family with steady-state intervals, if there are any.

        Excludes the first step of each shape, which initializes libraries (30 ms for cuDNN
        attention).
        """
        timed_rows: Ints = rows[self.period_ns[rows] != NONE]
        if not (self.real[timed_rows] != NONE).any():
            return timed_rows
        is_single = self.kind[timed_rows] == _REPLAY
        groups = np.where(is_single, self.member[timed_rows], self.real[timed_rows])
        first = np.unique(np.stack((is_single, groups)), axis=1, return_index=True)[1]
        settled_rows: Ints = np.delete(timed_rows, first)
        return settled_rows if len(settled_rows) else timed_rows


def build_loop_columns(
    loop: ProgramLoop, copied: Mapping[int, int] = MappingProxyType({})
) -> LoopColumns:
    """Build the columns, without times that a profiler may have affected.

    ``copied`` maps rows to real sizes from input copies.
    """
    steps = loop.steps
    real = _encode_column(steps.real_size)
    source = _encode_column(
        [None if method is None else _SOURCE_BY_METHOD[method] for method in steps.size_method]
    )
    for row, size in copied.items():
        real[row], source[row] = size, SIZE_SOURCES.index(SizeSource.COPIES)
    kind, family = _encode_kinds(steps.kind), _encode_column(steps.family)
    is_biased = _find_biased(source, kind, family, real, loop.window_rows)
    real[is_biased] = source[is_biased] = NONE
    begin, thread = _encode_column(steps.start_ns), _encode_column(steps.thread)
    member = _encode_column(steps.member)
    end, clean = _encode_column(steps.end_ns), _find_clean_ranges(loop)
    is_capture = kind == CAPTURE
    periods = compute_periods(
        begin,
        end,
        _number_sequences(thread, clean),
        np.where(is_capture, NONE, _number_shapes(kind, family, member, real)),
    )
    return LoopColumns(
        kind=kind,
        phase=_encode_column(
            [None if phase is None else PHASES.index(phase) for phase in steps.phase]
        ),
        family=family,
        member=member,
        real=real,
        size_source=source,
        padded=_encode_column(steps.padded_size),
        requests=_encode_column(steps.requests or [None] * len(kind)),
        begin_ns=begin,
        end_ns=end,
        gpu_ns=_mask_profiled(_encode_column(steps.gpu_ns), clean),
        launch_ns=_mask_profiled(_encode_column(steps.launch_ns), clean),
        period_ns=periods.period_ns,
        is_gpu_bound=periods.is_gpu_bound,
        is_asynchronous=periods.is_asynchronous,
    )


_SOURCE_BY_METHOD: Final = {
    SizeMethod.LABEL: SIZE_SOURCES.index(SizeSource.LABEL),
    SizeMethod.ENGINE: SIZE_SOURCES.index(SizeSource.ENGINE),
    SizeMethod.SHAPES: SIZE_SOURCES.index(SizeSource.SHAPES),
}


def _find_biased(
    source: Ints, kind: Ints, family: Ints, real: Ints, window: Sequence[int | None]
) -> Ints:
    """Find eager passes with inferred sizes in families whose replays have unknown sizes.

    Otherwise all known requests would seem to fit no graph.
    """
    by_shapes = source == SIZE_SOURCES.index(SizeSource.SHAPES)
    is_traced = np.zeros(len(kind), dtype=bool)
    is_traced[np.array([row for row in window if row is not None], dtype=np.int64)] = True
    is_biased = np.zeros(len(kind), dtype=bool)
    for number in np.unique(family[by_shapes]):
        is_family = family == number
        is_replay = is_family & np.isin(kind, REPLAY_KINDS)
        if (real[is_replay] == NONE).any():
            is_allowed = (
                is_traced
                if (real[is_replay & is_traced] != NONE).any()
                else np.zeros_like(is_traced)
            )
            is_biased |= is_family & by_shapes & ~is_allowed
    return np.flatnonzero(is_biased)


def _encode_column(values: Sequence[int | None]) -> Ints:
    encoded_values = (
        [NONE if value is None else value for value in values] if None in values else values
    )
    return np.array(encoded_values, dtype=np.int64)


def _find_clean_ranges(loop: ProgramLoop) -> Ints:
    """Return 1 for rows before a profiler, 2 for rows after it was detached, and 0 otherwise."""
    ranges = np.zeros(len(loop.steps.kind), dtype=np.int64)
    ranges[: loop.clean_steps] = 1
    if loop.later_clean_steps is not None:
        first, last = loop.later_clean_steps
        ranges[first:last] = 2
    return ranges


def _mask_profiled(times: Ints, clean: Ints) -> Ints:
    return np.where(clean > 0, times, NONE)


def _encode_kinds(values: Sequence[StepKind]) -> Ints:
    codes = {kind: code for code, kind in enumerate(KINDS)}
    return np.array([codes[value] for value in values], dtype=np.int64)


def _number_sequences(thread: Ints, clean: Ints) -> Ints:
    """Number the clean steps of each thread before and after a profiler, whose start costs
    seconds."""
    numbers = np.unique(np.stack((thread, clean)), axis=1, return_inverse=True)[1].ravel()
    return np.where(clean > 0, numbers, NONE)


def _number_shapes(kind: Ints, family: Ints, member: Ints, real: Ints) -> Ints:
    """Number the steps by their graph or, without one, by the order of their size."""
    is_eager = kind == FALLBACK
    size = np.round(_SIZES_PER_OCTAVE * np.log2(np.maximum(real, 1))).astype(np.int64)
    key = np.stack((is_eager, family, np.where(is_eager, size, member)))
    return np.unique(key, axis=1, return_inverse=True)[1].ravel()
