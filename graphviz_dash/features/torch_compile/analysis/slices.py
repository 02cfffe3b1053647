"""The CPU side of compiled code in a trace: what a thread was in at any instant.

torch names the parts of a compiled call by ranges: the look-up of a function's compilations, with
its guards (``TorchDynamo Cache Lookup``), the compiled function (``Torch-Compiled Region: 0/1``,
which holds the rests of the function behind its graph breaks too), the wrappers of AOTAutograd, and
each graph of Inductor's (``## Call CompiledFxGraph <key> ##``).
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Flags, Ints, column, encode
from graphviz_dash.analysis.trace.api_calls import CallClass, call_class
from graphviz_dash.analysis.trace.intervals import NONE, Nesting
from graphviz_dash.model.marks import STEP

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.model.trace import Trace


class SliceKind(IntEnum):
    """What a range, operator or call is to compiled code."""

    GUARDS = 0
    REGION = 1
    CALL = 2
    WRAPPER = 3
    COPY = 4
    OPERATOR = 5
    GRAPH_LAUNCH = 6
    LAUNCH = 7
    WAIT = 8
    OTHER_CALL = 9
    RANGE = 10
    STEP = 11


_REGION: Final = re.compile(r"Torch-Compiled Region: (?P<frame>\S+)")
_CALL: Final = re.compile(r"## Call CompiledFxGraph (?P<key>\S+) ##")
_GUARDS: Final = "TorchDynamo Cache Lookup"
_WRAPPERS: Final = ("Pregraph bytecode", "AOTDispatcher Runtime Wrapper", "CompiledFunction")
_BACKWARD: Final = "autograd::engine::evaluate_function: CompiledFunctionBackward"
_COPIES: Final = frozenset({"aten::copy_", "aten::_foreach_copy_"})
_PROFILER_STEP: Final = "ProfilerStep#"


class CpuSlices(Struct, frozen=True):
    """Operators, API calls and ranges of a trace as one; arrays of shape (slices,)."""

    nesting: Nesting
    """Which of them lie within which."""
    kind: Ints
    """SliceKind of each."""
    name: Ints
    """Index into ``names``."""
    names: tuple[str, ...]
    """The names of all slices."""
    runtime: int
    """The slice of the first row of ``trace.runtime``; the others follow."""
    threads: tuple[int, ...]
    """The threads that marked steps, then those that launched work on the GPU."""

    def of_kind(self, kind: SliceKind) -> Flags:
        """Which slices are of ``kind``."""
        return np.asarray(self.kind == kind)

    def frame_of(self, slice_index: int) -> str | None:
        """The compilation that a region runs."""
        return region_frame(self.names[int(self.name[slice_index])])

    def key_of(self, slice_index: int) -> str | None:
        """The key of the graph that a call runs."""
        match = _CALL.match(self.names[int(self.name[slice_index])])
        return None if match is None else match["key"]


def region_frame(name: str) -> str | None:
    """The id of the compilation in the name of a region; None for other names."""
    match = _REGION.match(name)
    return None if match is None else match["frame"]


def has_compiled_code(trace: Trace) -> bool:
    """Whether ``trace`` shows calls of compiled functions."""
    for table in (trace.ops, trace.annotations):
        names = table["name"].unique().drop_nulls().cast(str).to_list()
        if any(name.startswith("Torch-Compiled Region") for name in names):
            return True
    return False


def cpu_slices(trace: Trace) -> CpuSlices:
    """The slices of ``trace``; near-linear in its rows."""
    tables = (trace.ops, trace.annotations, trace.runtime)
    codes: list[Ints] = []
    kinds: list[Ints] = []
    names: list[str] = []
    for table in tables:
        own_codes, own_names = _encoded(table["name"])
        is_call = table is trace.runtime
        kind = np.array(
            [_call_kind(name) if is_call else _range_kind(name) for name in own_names],
            dtype=np.int64,
        )
        if table is trace.annotations:
            kind[kind == SliceKind.OPERATOR] = SliceKind.RANGE
        codes.append(own_codes.astype(np.int64) + len(names))
        kinds.append(kind[own_codes] if len(own_names) else np.zeros(0, dtype=np.int64))
        names.extend(own_names)
    start, duration, thread = (
        np.concatenate([column(table, name) for table in tables]) for name in ("ts", "dur", "tid")
    )
    kind = np.concatenate(kinds)
    launches = (kind == SliceKind.LAUNCH) | (kind == SliceKind.GRAPH_LAUNCH)
    ordered = (*thread[kind == SliceKind.STEP].tolist(), *np.unique(thread[launches]).tolist())
    return CpuSlices(
        nesting=Nesting.build(start, np.maximum(duration, 0), thread),
        kind=kind,
        name=np.concatenate(codes),
        names=tuple(names),
        runtime=len(trace.ops) + len(trace.annotations),
        threads=tuple(dict.fromkeys(ordered)),
    )


def first_of_kind_within(slices: CpuSlices, kind: SliceKind, around: SliceKind) -> Ints:
    """For each slice of kind ``around`` when the first slice of ``kind`` in it begins, the largest
    integer where there is none; shape (slices,), for other slices the largest too."""
    never = np.iinfo(np.int64).max
    first = np.full(len(slices.kind), never, dtype=np.int64)
    nearest = slices.nesting.nearest(slices.of_kind(around))
    rows = np.flatnonzero(slices.of_kind(kind))
    inside = nearest[rows]
    is_inside = inside != NONE
    np.minimum.at(first, inside[is_inside], slices.nesting.start[rows[is_inside]])
    return first


def _encoded(names: pl.Series) -> tuple[Ints, list[str]]:
    """Names as codes of shape (rows,) and the text of each code."""
    if str(names.dtype) == "String":
        texts = names.fill_null("").to_list()
        places: dict[str, int] = {}
        return np.array([places.setdefault(text, len(places)) for text in texts], np.int64), list(
            places
        )
    codes, distinct = encode(names)
    return codes.astype(np.int64), distinct


def _call_kind(name: str) -> SliceKind:
    which = call_class(name)
    if which is CallClass.GRAPH_LAUNCH:
        return SliceKind.GRAPH_LAUNCH
    if which in (CallClass.KERNEL_LAUNCH, CallClass.COPY):
        return SliceKind.LAUNCH
    return SliceKind.WAIT if which is CallClass.SYNCHRONISE else SliceKind.OTHER_CALL


def _range_kind(name: str) -> SliceKind:
    if name.startswith((STEP, _PROFILER_STEP)):
        return SliceKind.STEP
    if name == _GUARDS:
        return SliceKind.GUARDS
    if _REGION.match(name):
        return SliceKind.REGION
    if _CALL.match(name):
        return SliceKind.CALL
    if name.startswith(_WRAPPERS) or name == _BACKWARD:
        return SliceKind.WRAPPER
    return SliceKind.COPY if name in _COPIES else SliceKind.OPERATOR
