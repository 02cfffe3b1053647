"""Tables as CSV: the kernels of an experiment, and the nodes of a graph.

A spreadsheet runs a cell that begins like a formula; kernel names are not ours, so such a cell gets
an apostrophe in front.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

from graphviz_dash.analysis.kernels import KernelTable
from graphviz_dash.analysis.nodes import NodeTable
from graphviz_dash.errors import printable
from graphviz_dash.model.graph import KernelParams, MemcpyParams, MemsetParams

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def kernels_csv(table: KernelTable) -> str:
    """A row for each kernel, copy or set; times in ns, medians over the traced steps. A run that
    does not have the kernel has empty cells."""
    head = ["kernel", "kind", "category"]
    for run in table.runs:
        head += [f"{run} count", f"{run} total ns", f"{run} mean ns", f"{run} change ns"]
    rows: list[list[object]] = []
    for row in table.rows:
        cells: list[object] = [row.name, row.kind, row.category.value]
        for use, change in zip(row.uses, row.changes, strict=True):
            cells += [use.count, use.total_ns, use.mean_ns] if use else [None, None, None]
            cells.append(change)
        rows.append(cells)
    return _csv(head, rows)


def nodes_csv(table: NodeTable) -> str:
    """A row for each node of a graph: driver facts, origin, and times over the replays in ns."""
    head = [
        "node", "kind", "name", "mangled name", "grid", "block", "shared bytes", "bytes",
        "operator", "operator path", "input shapes", "module", "source", "source method", "phase",
        "attribution", "attribution confidence", "samples", "median ns", "least ns", "most ns",
        "stream", "matching", "matching confidence", "after",
    ]  # fmt: skip
    before: dict[int, list[int]] = {}
    for edge in table.graph.edges:
        before.setdefault(edge.target, []).append(edge.source)
    rows: list[list[object]] = []
    for row in table.rows:
        params, origin, times = row.node.params, row.origin, row.times
        kernel = params if isinstance(params, KernelParams) else None
        moved = params.bytes if isinstance(params, MemcpyParams | MemsetParams) else None
        rows.append([
            row.node.index, row.node.kind.value, row.node.label, kernel and kernel.name,
            kernel and "x".join(map(str, kernel.grid)), kernel and "x".join(map(str, kernel.block)),
            kernel and kernel.dynamic_shared + (kernel.static_shared or 0), moved,
            origin.op, " > ".join(origin.op_path), origin.input_dims, origin.module, origin.source,
            origin.source_method, origin.phase, origin.method, origin.confidence, times.samples,
            times.median_ns, times.min_ns, times.max_ns, times.stream, times.method,
            times.confidence, " ".join(map(str, before.get(row.node.index, []))),
        ])  # fmt: skip
    return _csv(head, rows)


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_cell(cell) for cell in head])
    writer.writerows([_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    safe = printable(value)
    return f"'{safe}" if safe.startswith(_FORMULA) else safe
