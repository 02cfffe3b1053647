"""Schema of the tables of a trace: columns, units and meaning of null.

Times are integer nanoseconds since the trace's first event (at ``TraceInfo.origin_ns``). The tables
are Polars frames; this module only declares them and does not import Polars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import polars as pl

# Column name -> type name (int64, int32, uint64, string, categorical).
GPU_COLUMNS = {
    "ts": "int64",  # start, ns since origin
    "dur": "int64",  # ns
    "kind": "categorical",  # kernel, memcpy or memset
    "name": "categorical",  # demangled kernel; "Memcpy DtoH (Device -> Pinned)"; "Memset (..)"
    "device": "int32",
    "stream": "int64",
    "correlation": "int64",  # shared with the launching row of ``runtime``; null: unknown
    "external_id": "int64",  # the cpu_op that launched it; null: none (graph replays)
    "grid_x": "int64",
    "grid_y": "int64",
    "grid_z": "int64",  # null for memcpys and memsets
    "block_x": "int64",
    "block_y": "int64",
    "block_z": "int64",
    "shared": "int64",  # bytes, static and dynamic together; null for memcpys and memsets
    "registers": "int64",  # per thread
    "bytes": "int64",  # of a copy or set; null for kernels
    "graph_id": "uint64",  # null: not in the trace (torch before 2.12) or no graph
    "graph_node_id": "uint64",
}
"""GPU work, sorted by ts."""

RUNTIME_COLUMNS = {
    "ts": "int64",
    "dur": "int64",
    "name": "categorical",  # cudaLaunchKernel, cudaGraphLaunch, cuLaunchKernelEx, hipGraphLaunch
    "pid": "int64",
    "tid": "int64",
    "correlation": "int64",
    "external_id": "int64",
}
"""API calls on the CPU (CUDA or HIP runtime and driver, or another device's API), sorted by ts."""

OP_COLUMNS = {
    "ts": "int64",
    "dur": "int64",
    "name": "categorical",  # aten::addmm, autograd::engine::evaluate_function: AddmmBackward0, ...
    "pid": "int64",
    "tid": "int64",
    "external_id": "int64",
    "sequence": "int64",  # autograd sequence number; null: none
    "forward_tid": "int64",  # "Fwd thread id" of a backward op; 0 or null for forward ops
    "input_dims": "categorical",  # JSON text as recorded, "[[512,256],[256]]"; null: not recorded
    "input_types": "categorical",  # JSON text as recorded
    "input_strides": "categorical",  # JSON text as recorded, in elements; null: not recorded
    "input_values": "categorical",  # JSON text of values that are not tensors; null: not recorded
}
"""Operators on the CPU (category cpu_op), sorted by ts, longer first at equal ts."""

ANNOTATION_COLUMNS = {
    "ts": "int64",
    "dur": "int64",
    "name": "string",
    "pid": "int64",
    "tid": "int64",
}
"""record_function ranges (category user_annotation), sorted by ts, longer first at equal ts."""

PYTHON_COLUMNS = {
    "ts": "int64",
    "dur": "int64",
    "name": "categorical",  # "model.py(35): forward", the line is the function's first one
    "pid": "int64",
    "tid": "int64",
    "python_id": "int64",
    "python_parent_id": "int64",
}
"""Python frames (category python_function, with_stack=True), sorted by ts, longer first."""


class TraceProblem(Struct, frozen=True):
    """A defect of a trace and the affected figures."""

    code: str
    text: str


WHOLE_GRAPH_PATTERN = "^CUDA graph .*, as a whole$"
"""Names of GPU rows that represent all work of a graph launch, traced as single units."""

STITCHED = "stitched-replays"
"""Problem of replays whose kernels lack individual times."""

UNCATEGORIZED_SLICES = "slices without a category"
"""Key of ``TraceInfo.skipped`` for complete events without a category."""

_CUT = ("cut-off", "damaged")
_INCOMPLETE = (*_CUT, "text-damaged")


class TraceInfo(Struct, frozen=True):
    """Metadata of a trace, and results of reading it."""

    source: str
    """Name of the file."""
    events: int
    """Entries in traceEvents."""
    skipped: dict[str, int]
    """Events without a table (flows, metadata, overhead), by category."""
    origin_ns: int
    """Time of the first event, in ns of the trace's clock (Unix time if the trace has
    baseTimeNanoseconds)."""
    end_ns: int
    """End of the last event since the origin, in ns."""
    cupti_version: int | None
    """CUPTI version number. None if unknown."""
    cuda_runtime_version: int | None
    """CUDA runtime version number (13000). None if unknown."""
    cuda_driver_version: int | None
    """CUDA driver version number. None if unknown."""
    device_names: tuple[str, ...]
    with_stack: bool
    """True if Python stacks were recorded."""
    record_shapes: bool
    """True if shapes of arguments were recorded."""
    problems: tuple[TraceProblem, ...]
    """Defects with the affected figures."""

    @property
    def completeness_problems(self) -> tuple[TraceProblem, ...]:
        """Problems that indicate missing events."""
        return tuple(problem for problem in self.problems if problem.code in _INCOMPLETE)

    @property
    def is_cut(self) -> bool:
        """True if the file could not be read to its end."""
        return any(problem.code in _CUT for problem in self.problems)

    @property
    def has_stitched_replays(self) -> bool:
        """True if durations of replayed kernels include the gaps between them."""
        return any(problem.code == STITCHED for problem in self.problems)


class EventOffsets(Struct, frozen=True):
    """Locations of the rows in the trace's file, for reading data that no column holds."""

    path: Path
    """The trace file."""
    pieces: pl.DataFrame
    """Pieces of the document in order: ``first`` (index in traceEvents of the first event),
    ``start`` and ``end`` (bytes of the decompressed document)."""
    rows: Mapping[str, pl.Series]
    """Index in traceEvents of each row, by table name."""


@dataclass(frozen=True)
class Trace:
    """One trace as tables, with the columns declared in this module.

    A dataclass, so that a subclass can load tables on access.
    """

    info: TraceInfo
    gpu: pl.DataFrame
    """GPU work (GPU_COLUMNS)."""
    runtime: pl.DataFrame
    """Calls of the runtime and driver API (RUNTIME_COLUMNS)."""
    ops: pl.DataFrame
    """Operators on the CPU (OP_COLUMNS)."""
    annotations: pl.DataFrame
    """record_function ranges (ANNOTATION_COLUMNS)."""
    python: pl.DataFrame
    """Python frames (PYTHON_COLUMNS)."""
    offsets: EventOffsets | None = None
    """None for a trace that was not read from a file."""
