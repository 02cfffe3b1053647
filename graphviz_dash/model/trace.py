"""The tables of a trace: which columns there are, their units, and what null means.

Times are integer nanoseconds since the trace's first event (``TraceInfo.origin_ns`` says when that
was). The tables are Polars frames; this module only declares them, so that it imports none.
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
    "correlation": "int64",  # shared with the launching row of ``runtime``; null: not told
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
    "graph_id": "uint64",  # null: the trace does not say (torch before 2.12) or not from a graph
    "graph_node_id": "uint64",
}
"""Work on the GPU, sorted by ts."""

RUNTIME_COLUMNS = {
    "ts": "int64",
    "dur": "int64",
    "name": "categorical",  # cudaLaunchKernel, cudaGraphLaunch, cuLaunchKernelEx, hipGraphLaunch
    "pid": "int64",
    "tid": "int64",
    "correlation": "int64",
    "external_id": "int64",
}
"""Calls of the CUDA or HIP runtime and driver API on the CPU, or of another device's that torch is
built for, sorted by ts."""

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
    """A defect found while reading, and which figures it spoils. ``code`` is stable, for tests."""

    code: str
    text: str


STITCHED = "stitched-replays"
"""The problem of replays whose kernels have no times of their own."""

_INCOMPLETE = ("cut-off", "damaged", "text-damaged")


class TraceInfo(Struct, frozen=True):
    """What the trace says of itself, and what reading it found."""

    source: str
    """The name of the file."""
    events: int
    """How many entries traceEvents has."""
    skipped: dict[str, int]
    """How many of them no table holds (flows, metadata, overhead), by category."""
    origin_ns: int
    """The time of the first event, in ns of the trace's own clock (Unix time where the trace has
    baseTimeNanoseconds)."""
    end_ns: int
    """The end of the last event since the origin, in ns."""
    cupti_version: int | None
    """As CUPTI numbers it; None where the trace does not say."""
    cuda_runtime_version: int | None
    """As CUDA numbers it (13000); None where the trace does not say."""
    cuda_driver_version: int | None
    """The same of the driver; None where the trace does not say."""
    device_names: tuple[str, ...]
    """The GPUs that the trace lists."""
    with_stack: bool
    """Whether Python's stacks were recorded."""
    record_shapes: bool
    """Whether the shapes of arguments were recorded."""
    problems: tuple[TraceProblem, ...]
    """Defects, each with the figures that it spoils."""

    @property
    def incomplete(self) -> tuple[TraceProblem, ...]:
        """Those problems that say that events are missing from the trace, or may be."""
        return tuple(problem for problem in self.problems if problem.code in _INCOMPLETE)

    @property
    def stitched(self) -> bool:
        """Whether durations of replayed kernels hold the gaps between them."""
        return any(problem.code == STITCHED for problem in self.problems)


class EventOffsets(Struct, frozen=True):
    """Where in the trace's file each row stands, so that what no column holds can be read there.

    ``path``: the file. ``pieces``: parts of the document one behind the other, with columns
    ``first`` (place in traceEvents of the first event in the piece), ``start`` and ``end`` (bytes
    of the document, decompressed). ``rows``: for each table by its name, the place in traceEvents
    of each row.
    """

    path: Path
    pieces: pl.DataFrame
    rows: Mapping[str, pl.Series]


@dataclass(frozen=True)
class Trace:
    """One trace as tables; the columns are declared in this module. A dataclass: a kind of it can
    read each table when it is asked for."""

    info: TraceInfo
    """What the trace says of itself."""
    gpu: pl.DataFrame
    """Work on the GPU (GPU_COLUMNS)."""
    runtime: pl.DataFrame
    """Calls of the runtime and driver API (RUNTIME_COLUMNS)."""
    ops: pl.DataFrame
    """Operators on the CPU (OP_COLUMNS)."""
    annotations: pl.DataFrame
    """record_function ranges (ANNOTATION_COLUMNS)."""
    python: pl.DataFrame
    """Python frames (PYTHON_COLUMNS)."""
    offsets: EventOffsets | None = None
    """Where in the file each row stands; None for a trace that was not read from a file."""
