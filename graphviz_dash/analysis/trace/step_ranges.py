"""Where the steps of a trace begin and end on the CPU, by the marks of whoever recorded it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, column, encode
from graphviz_dash.analysis.trace.api_calls import CallClass, call_class
from graphviz_dash.analysis.trace.lanes import Links
from graphviz_dash.model.marks import STEP

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.model.trace import Trace

_PROFILER_STEP: Final = "ProfilerStep#"
_ENGINE: Final = re.compile(r"execute_(?:\d+_)?(?:context|diffusion|dummy|model)|step\[")
_NAMED: Final = re.compile(
    r"(?:(?:train(?:ing)?|test|val(?:idation)?|eval(?:uation)?|inference|forward)[ _.:/-]*)?"
    r"(?:step|iter|iteration)[ _.:#/=-]*\d*$",
    re.IGNORECASE,
)
_FEWEST_PERIODS: Final = 3
"""Of graph launches: fewer may look alike by chance, and the last one has no end."""


class StepMethod(StrEnum):
    """How the steps were told apart."""

    MARKED = "graphviz_dash.step ranges"
    PROFILER = "ProfilerStep ranges"
    ENGINE = "ranges of an inference engine"
    NAMED = "ranges named as steps"
    REPLAYS = "repeated graph launches"
    WHOLE = "the whole trace"


class StepRanges(Struct, frozen=True):
    """The steps in the order of time, parallel arrays of shape (steps,)."""

    index: Ints
    """Number of the step as its range has it; its place in time, from 0, where ranges have no
    numbers or numbers repeat."""
    start: Ints
    """Begin of each step on the CPU, in ns since the trace's origin."""
    end: Ints
    """End of each step on the CPU, in ns since the trace's origin."""
    method: StepMethod
    """How the steps of the trace were told apart."""


def step_ranges(trace: Trace, links: Links) -> StepRanges:
    """The ranges ``graphviz_dash.step#i``; without any ``ProfilerStep#i`` (torch of 2021 writes
    them as operators), which need not end synchronised; without these the steps of an inference
    engine (vLLM's and SGLang's ``execute_...`` and ``step[...]``), then ranges that are named as
    steps, as NVTX ranges are; then, from graph launch to graph launch, the period in which these
    repeat. Without any of them the whole trace is one range.

    ``links`` are the launches of ``trace``.
    """
    tables = (trace.annotations, trace.ops)
    for prefix, method in ((STEP, StepMethod.MARKED), (_PROFILER_STEP, StepMethod.PROFILER)):
        for table in tables:
            if (numbered := _numbered(table, prefix, method)) is not None:
                return numbered
    for pattern, method in ((_ENGINE, StepMethod.ENGINE), (_NAMED, StepMethod.NAMED)):
        if (outermost := _outermost(trace.annotations, pattern, method)) is not None:
            return outermost
    if (replays := _periods(trace, links)) is not None:
        return replays
    zero = np.zeros(1, dtype=np.int64)
    return StepRanges(zero, zero, np.array([trace.info.end_ns], dtype=np.int64), StepMethod.WHOLE)


def _rows(table: pl.DataFrame, pattern: re.Pattern[str]) -> Ints:
    """The rows of ``table`` whose names begin as ``pattern`` says; each name is looked at once."""
    names = table["name"].unique().drop_nulls().cast(str).to_list()
    wanted = [name for name in names if pattern.match(name)]
    if not wanted:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(table["name"].cast(str).is_in(wanted).fill_null(False).to_numpy())


def _bounds(table: pl.DataFrame, rows: Ints) -> tuple[Ints, Ints]:
    begin = column(table, "ts")[rows]
    return begin, begin + np.maximum(column(table, "dur")[rows], 0)


def _numbered(table: pl.DataFrame, prefix: str, method: StepMethod) -> StepRanges | None:
    # Eighteen digits fit into int64, whatever they are.
    rows = _rows(table, re.compile(rf"{re.escape(prefix)}[0-9]{{1,18}}$"))
    if not len(rows):
        return None
    begin, end = _bounds(table, rows)
    names = table["name"].gather(rows).cast(str).to_list()
    index = np.array([int(name[len(prefix) :]) for name in names], dtype=np.int64)
    order = np.argsort(begin, kind="stable")
    if len(np.unique(index)) < len(index):
        # Two traces in one, or a profiler started twice: known by their place in time.
        index[order] = np.arange(len(order))
    return StepRanges(index[order], begin[order], end[order], method)


def _outermost(
    table: pl.DataFrame, pattern: re.Pattern[str], method: StepMethod
) -> StepRanges | None:
    """Those of the matching ranges that begin when all before have ended."""
    rows = _rows(table, pattern)
    if not len(rows):
        return None
    begin, end = _bounds(table, rows)
    kept = []
    reached = np.iinfo(np.int64).min
    for at in np.lexsort((-end, begin)).tolist():
        if begin[at] >= reached:
            kept.append(at)
            reached = end[at]
    return StepRanges(np.arange(len(kept)), begin[kept], end[kept], method)


def _periods(trace: Trace, links: Links) -> StepRanges | None:
    """From each launch of a graph that opens a period to the next such launch; the last period,
    whose end the trace does not show, is left out."""
    codes, names = encode(trace.runtime["name"])
    wanted = [at for at, name in enumerate(names) if call_class(name) is CallClass.GRAPH_LAUNCH]
    launches = np.flatnonzero(np.isin(codes, wanted))
    if len(launches) < _FEWEST_PERIODS:
        return None
    work = [tuple(signature) for signature in _launched_names(trace, links, launches)]
    period = next(
        (
            length
            for length in range(1, len(work) // _FEWEST_PERIODS + 1)
            if work[length:] == work[:-length]
        ),
        None,
    )
    if period is None or not any(work):
        return None
    begins = column(trace.runtime, "ts")[launches[::period]]
    return StepRanges(np.arange(len(begins) - 1), begins[:-1], begins[1:], StepMethod.REPLAYS)


def _launched_names(trace: Trace, links: Links, launches: Ints) -> Iterator[list[int]]:
    """The names of what each launch ran, in the order of their numbers: branches interleave."""
    names = trace.gpu["name"].to_physical().to_numpy()
    for launch in launches.tolist():
        yield sorted(names[links.kernels_of(launch)].tolist())
