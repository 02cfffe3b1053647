"""Tables of graph nodes and kernels, as CSV or Parquet."""

from __future__ import annotations

import io
from math import prod
from pathlib import Path
from typing import Final

import polars as pl
from msgspec import Struct

from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.analysis.nodes.measured_graph import UNTRACED, MeasuredGraph
from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.errors import InputError, escape_control_characters
from graphviz_dash.exports.files import replace_file
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import (
    BatchMemOpParams,
    ConditionalParams,
    EventParams,
    GraphNode,
    HostParams,
    KernelParams,
    MemAllocParams,
    MemcpyParams,
    MemFreeParams,
    MemsetParams,
    SemaphoreParams,
)

_FORMULA: Final = r"^[=+\-@\t\r]"
"""Start of a cell that spreadsheets interpret as a formula."""

_UNPRINTABLE: Final = r"[\p{C}\p{Zl}\p{Zp}]"


class TableSummary(Struct, frozen=True):
    """Summary of a written table."""

    path: Path
    rows: int
    """Number of rows without the header."""
    columns: tuple[str, ...]


def build_node_frame(full_graph: ExpandedGraph, measured: MeasuredGraph | Missing) -> pl.DataFrame:
    """Build a table of a graph's nodes, then those of nested graphs.

    Times are in ns over the replays of the pass ``timed_in``, sizes in bytes; null if unknown or
    not applicable.
    """
    rows = [
        _build_node_columns(row)
        | {"graph": graph, "node": index}
        | _build_slack_columns(measured, (graph, index))
        for row, (graph, index) in zip(full_graph.table.rows, full_graph.owners, strict=True)
    ]
    return pl.DataFrame(rows, schema=_NODE_SCHEMA)


def _build_slack_columns(
    measured: MeasuredGraph | Missing, name: tuple[str, int]
) -> dict[str, object]:
    index = None if isinstance(measured, Missing) else measured.index_of.get(name)
    if isinstance(measured, Missing) or index is None or measured.p50[index] == UNTRACED:
        return {}
    return {
        "p99_ns": int(measured.p99[index]),
        "slack_ns": int(measured.slack[index]),
        "lost_before_ns": measured.lost_before[index],
        "on_critical_path": index in measured.critical_nodes,
    }


def build_kernel_frame(table: KernelTable) -> pl.DataFrame:
    """Build a table with one row per kernel and run: counts and times per traced step, in ns."""
    rows = [
        {
            "run": run,
            "name": row.name,
            "kind": row.kind,
            "category": row.category.value,
            "count": use.count,
            "total_ns": use.total_ns,
            "mean_ns": use.mean_ns,
            "share": use.share,
            "instances": use.instances,
            "change_ns": change,
        }
        for row in table.rows
        for run, use, change in zip(table.runs, row.uses, row.changes, strict=True)
        if use is not None
    ]
    return pl.DataFrame(rows, schema=_KERNEL_SCHEMA)


def write_table(frame: pl.DataFrame, file: Path) -> TableSummary:
    """Write ``frame`` as CSV or Parquet, depending on the suffix of ``file``.

    Raises:
        InputError: unsupported suffix, or the file cannot be written.
    """
    if file.suffix not in (".csv", ".parquet"):
        raise InputError(file, f"the suffix {file.suffix!r}", ".csv or .parquet")
    with replace_file(file) as target:
        target.write(format_parquet(frame) if file.suffix == ".parquet" else format_csv(frame))
    return TableSummary(file, frame.height, tuple(frame.columns))


def format_csv(frame: pl.DataFrame) -> bytes:
    """Format ``frame`` as CSV.

    Formulas are prefixed with an apostrophe, and control characters and line breaks are escaped.
    Parquet keeps the original text.
    """
    text = pl.col(pl.String)
    escaped = pl.when(text.str.contains(_FORMULA)).then("'" + text).otherwise(text)
    printable_text = escaped.map_batches(_make_printable, return_dtype=pl.String)
    return frame.with_columns(printable_text.name.keep()).write_csv().encode()


def _make_printable(texts: pl.Series) -> pl.Series:
    if not texts.str.contains(_UNPRINTABLE).any():
        return texts
    return pl.Series([text and escape_control_characters(text) for text in texts], dtype=pl.String)


def format_parquet(frame: pl.DataFrame) -> bytes:
    """Format ``frame`` as Parquet."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


_NODE_SCHEMA: Final = {
    "graph": pl.String,
    "node": pl.Int64,
    "kind": pl.String,
    "name": pl.String,
    "mangled": pl.String,
    "category": pl.String,
    "grid_x": pl.Int64,
    "grid_y": pl.Int64,
    "grid_z": pl.Int64,
    "block_x": pl.Int64,
    "block_y": pl.Int64,
    "block_z": pl.Int64,
    "dynamic_shared_bytes": pl.Int64,
    "static_shared_bytes": pl.Int64,
    "registers": pl.Int64,
    "cluster_blocks": pl.Int64,
    "cooperative": pl.Boolean,
    "priority": pl.Int64,
    "bytes": pl.Int64,
    "device": pl.Int64,
    "allocated_by": pl.Int64,
    "event": pl.Int64,
    "semaphores": pl.String,
    "function": pl.String,
    "operations": pl.String,
    "conditional": pl.String,
    "bodies": pl.String,
    "op": pl.String,
    "module": pl.String,
    "source": pl.String,
    "phase": pl.String,
    "input_dims": pl.String,
    "attributed_by": pl.String,
    "attribution_confidence": pl.Float64,
    "replays": pl.Int64,
    "p99_ns": pl.Int64,
    "slack_ns": pl.Int64,
    "lost_before_ns": pl.Int64,
    "on_critical_path": pl.Boolean,
    "median_ns": pl.Float64,
    "min_ns": pl.Int64,
    "max_ns": pl.Int64,
    "stream": pl.Int64,
    "matched_by": pl.String,
    "match_confidence": pl.Float64,
    "timed_in": pl.String,
    "note": pl.String,
}

_KERNEL_SCHEMA: Final = {
    "run": pl.String,
    "name": pl.String,
    "kind": pl.String,
    "category": pl.String,
    "count": pl.Float64,
    "total_ns": pl.Float64,
    "mean_ns": pl.Float64,
    "share": pl.Float64,
    "instances": pl.Int64,
    "change_ns": pl.Float64,
}


def _build_node_columns(row: NodeRow) -> dict[str, object]:
    origin, times = row.origin, row.times
    columns: dict[str, object] = {
        "kind": row.node.kind.value,
        "name": row.node.label,
        "category": row.category.value,
        "op": origin.op,
        "module": origin.module,
        "source": origin.source,
        "phase": origin.phase,
        "input_dims": origin.input_dims,
        "attributed_by": origin.method,
        "attribution_confidence": origin.confidence,
        "replays": times.samples,
        "median_ns": times.median_ns,
        "min_ns": times.min_ns,
        "max_ns": times.max_ns,
        "stream": times.stream,
        "matched_by": times.method,
        "match_confidence": times.confidence,
        "timed_in": times.timed_in,
        "note": times.note,
    }
    return columns | _build_parameter_columns(row.node)


def _build_parameter_columns(node: GraphNode) -> dict[str, object]:
    columns: dict[str, object] = {"bodies": " ".join(node.bodies)} if node.bodies else {}
    match node.params:
        case KernelParams() as kernel:
            columns |= {
                "mangled": kernel.name,
                "dynamic_shared_bytes": kernel.dynamic_shared,
                "static_shared_bytes": kernel.static_shared,
                "registers": kernel.registers,
                "cluster_blocks": None if kernel.cluster is None else prod(kernel.cluster),
                "cooperative": kernel.cooperative,
                "priority": kernel.priority,
            }
            for dimension, size in (("grid", kernel.grid), ("block", kernel.block)):
                extent = size or (None, None, None)
                columns |= {f"{dimension}_{axis}": n for axis, n in zip("xyz", extent, strict=True)}
        case MemcpyParams(bytes=count) | MemsetParams(bytes=count):
            columns["bytes"] = count
        case MemAllocParams(bytes=count, device=device):
            columns |= {"bytes": count, "device": device}
        case MemFreeParams(allocated_by=by):
            columns["allocated_by"] = by
        case EventParams(event=number):
            columns["event"] = number
        case SemaphoreParams(semaphores=numbers):
            columns["semaphores"] = " ".join(map(str, numbers))
        case HostParams(function=function):
            columns["function"] = function
        case BatchMemOpParams(operations=operations):
            columns["operations"] = ", ".join(operations)
        case ConditionalParams(type=kind):
            columns["conditional"] = None if kind is None else kind.value
    return columns
