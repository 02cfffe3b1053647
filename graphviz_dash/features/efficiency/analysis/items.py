"""GPU work of one replay or step: what ran, how long, and what launched it."""

from __future__ import annotations

from math import prod
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.attribution.origins import NodeOrigin
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.analysis.prediction.eager_step import EagerStep
from graphviz_dash.analysis.prediction.module_prediction import find_item_origins
from graphviz_dash.analysis.trace.kernel_categories import Category, categorise
from graphviz_dash.model.graph import (
    KernelParams,
    MemcpyParams,
    MemsetParams,
    NodeKind,
    Operand,
    Params,
)
from graphviz_dash.model.trace import Trace

_TIMED_KINDS: Final = (NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET)


class WorkItem(Struct, frozen=True):
    """A kernel, copy or memset."""

    index: int
    """Place in the graph, or position in the step."""
    name: str
    """Demangled name, or description of the copy or memset."""
    kind: NodeKind
    """Kernel, Memcpy or Memset."""
    category: Category
    duration_ns: float | None
    """Median duration in ns. None if not timed."""
    runs: float
    """Mean runs per replay: less than 1 in a body that does not always run."""
    origin: NodeOrigin | None
    """Operator, module and source line; None if unknown."""
    operands: tuple[Operand, ...] | None
    """Memory that the arguments give access to; None if unknown."""
    params: Params | None
    """None for the work of an eager step."""
    blocks: int | None
    """Number of blocks. None if unknown."""
    threads: int | None
    """Threads per block; None if unknown."""
    copied_bytes: int | None = None
    """Size of a copy or memset; None for kernels."""
    graph: str | None = None
    """Id of the outermost graph; None for the work of an eager step."""


def list_graph_items(graph: ExpandedGraph) -> tuple[WorkItem, ...]:
    """List kernels, copies and memsets of a graph with median durations."""
    replays = graph.table.replays
    items = []
    for position, row in enumerate(graph.table.rows):
        if row.node.kind not in _TIMED_KINDS or row.node.enabled is False:
            continue
        params = row.node.params
        kernel = params if isinstance(params, KernelParams) else None
        items.append(
            WorkItem(
                index=position,
                name=row.node.label,
                kind=row.node.kind,
                category=row.category,
                duration_ns=row.times.median_ns,
                runs=row.times.samples / replays if replays else 0.0,
                origin=row.origin,
                operands=row.node.operands,
                params=params,
                blocks=prod(kernel.grid) if kernel and kernel.grid else None,
                threads=prod(kernel.block) if kernel and kernel.block else None,
                copied_bytes=(
                    params.bytes if isinstance(params, MemcpyParams | MemsetParams) else None
                ),
                graph=graph.table.graph.id,
            )
        )
    return tuple(items)


_KINDS: Final = {
    "kernel": NodeKind.KERNEL,
    "memcpy": NodeKind.MEMCPY,
    "memset": NodeKind.MEMSET,
}


def list_step_items(trace: Trace, step: EagerStep) -> tuple[WorkItem, ...]:
    """List kernels, copies and memsets of a typical step with median durations."""
    origins = find_item_origins(trace, step)
    return tuple(
        WorkItem(
            index=position,
            name=name,
            kind=_KINDS.get(kind, NodeKind.KERNEL),
            category=categorise(kind, name),
            duration_ns=float(duration),
            runs=1.0,
            origin=origin,
            operands=None,
            params=None,
            blocks=blocks or None,
            threads=threads or None,
            copied_bytes=size if kind != "kernel" else None,
        )
        for position, (name, kind, duration, origin, blocks, threads, size) in enumerate(
            zip(
                step.name,
                step.kind,
                step.duration.tolist(),
                origins,
                step.blocks.tolist(),
                step.threads.tolist(),
                step.size.tolist(),
                strict=True,
            )
        )
    )
