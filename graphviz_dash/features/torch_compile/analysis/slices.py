"""CPU side of compiled code in a trace: the active slice of a thread at each instant.

torch marks cache lookups (``TorchDynamo Cache Lookup``), compiled functions (``Torch-Compiled
Region: 0/1``), AOTAutograd wrappers and Inductor graphs (``## Call CompiledFxGraph <key> ##``).
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Flags, Ints, encode, get_column, get_threads
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.analysis.trace.intervals import NONE, Nesting
from graphviz_dash.model.marks import STEP

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace


class SliceKind(IntEnum):
    """Role of a range, operator or call in compiled code."""

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
    """Operators, API calls and ranges of a trace; arrays of shape (slices,)."""

    nesting: Nesting
    kind: Ints
    name: Ints
    """Index into ``names``."""
    names: tuple[str, ...]
    runtime: int
    """First row of ``trace.runtime``; the others follow."""
    threads: tuple[int, ...]
    """Threads that marked steps, then those that launched GPU work."""

    def select_kind(self, kind: SliceKind) -> Flags:
        """Return a mask of the slices of ``kind``."""
        return np.asarray(self.kind == kind)

    def get_frame(self, slice_index: int) -> str | None:
        """Return the compilation of a region."""
        return parse_region_frame(self.names[int(self.name[slice_index])])

    def get_key(self, slice_index: int) -> str | None:
        """Return the graph key of a call."""
        match = _CALL.match(self.names[int(self.name[slice_index])])
        return None if match is None else match["key"]


def parse_region_frame(name: str) -> str | None:
    """Parse the compilation id of a region; None for other names."""
    match = _REGION.match(name)
    return None if match is None else match["frame"]


def build_cpu_slices(trace: Trace) -> CpuSlices:
    """Build the slices; near-linear in the rows of ``trace``."""
    tables = (trace.ops, trace.annotations, trace.runtime)
    codes: list[Ints] = []
    kinds: list[Ints] = []
    names: list[str] = []
    for table in tables:
        table_codes, table_names = encode(table["name"])
        is_call = table is trace.runtime
        kind = np.array(
            [_classify_call(name) if is_call else _classify_range(name) for name in table_names],
            dtype=np.int64,
        )
        if table is trace.annotations:
            kind[kind == SliceKind.OPERATOR] = SliceKind.RANGE
        codes.append(table_codes.astype(np.int64) + len(names))
        kinds.append(kind[table_codes] if len(table_names) else np.zeros(0, dtype=np.int64))
        names.extend(table_names)
    start, duration = (
        np.concatenate([get_column(table, name) for table in tables]) for name in ("ts", "dur")
    )
    thread = np.concatenate([get_threads(table) for table in tables])
    kind = np.concatenate(kinds)
    # A step that ends at a replay starts inside the compiled call, so its range is not nested.
    duration = np.where(kind == SliceKind.STEP, 0, duration)
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


def find_first_within(slices: CpuSlices, kind: SliceKind, around: SliceKind) -> Ints:
    """Find the start of the first slice of ``kind`` within each slice of kind ``around``.

    Shape (slices,); otherwise the largest integer.
    """
    never = np.iinfo(np.int64).max
    first = np.full(len(slices.kind), never, dtype=np.int64)
    nearest = slices.nesting.find_nearest(slices.select_kind(around))
    rows = np.flatnonzero(slices.select_kind(kind))
    inside = nearest[rows]
    has_slice = inside != NONE
    np.minimum.at(first, inside[has_slice], slices.nesting.start[rows[has_slice]])
    return first


def _classify_call(name: str) -> SliceKind:
    class_of_call = get_call_class(name)
    if class_of_call is CallClass.GRAPH_LAUNCH:
        return SliceKind.GRAPH_LAUNCH
    if class_of_call in (CallClass.KERNEL_LAUNCH, CallClass.COPY):
        return SliceKind.LAUNCH
    return SliceKind.WAIT if class_of_call is CallClass.SYNCHRONISE else SliceKind.OTHER_CALL


def _classify_range(name: str) -> SliceKind:
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
