"""What a node is called, and what it does in a few words where that alone says too little."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.errors import printable
from graphviz_dash.model.graph import (
    BatchMemOpParams,
    ConditionalParams,
    GraphNode,
    HostParams,
    KernelParams,
    MemAllocParams,
    MemcpyParams,
    MemFreeParams,
    MemsetParams,
    SemaphoreParams,
)
from graphviz_dash.units import format_bytes

ATEN: Final = "aten::"
"""The namespace that needs no saying."""


def node_lines(row: NodeRow, above: str = "") -> tuple[str, str]:
    """What a node is called, and what else tells it from others: its operator or, where none is
    known, its module, and the kernel; a node of neither by its kernel and :func:`node_note`. A
    module that the title ``above`` says already is passed over."""
    work = work_name(row.node)
    module = row.origin.module
    title = operator_name(row) or (module.rpartition(".")[2] if module and module != above else "")
    if not title or title == work:
        return work, node_note(row.node)
    return printable(title), work


def operator_name(row: NodeRow) -> str:
    """The node's operator as PyTorch's users write it, its namespace only where that is another
    one than aten; empty where no operator is known."""
    return (row.origin.op or "").removeprefix(ATEN)


def module_tail(module: str | None) -> str:
    """A module's path without the class that it begins with, which all nodes share; empty where no
    module is known."""
    if module is None:
        return ""
    root, _, inner = printable(module).partition(".")
    return inner or root


def work_name(node: GraphNode) -> str:
    """The short name of the node's kernel; of another kind of node what it does."""
    label = printable(node.label)
    return short_name(label) if isinstance(node.params, KernelParams) else label


def node_note(node: GraphNode) -> str:
    """The size, partner or operations of a node; its kind where nothing more is known."""
    match node.params:
        case MemcpyParams(bytes=size) | MemsetParams(bytes=size):
            note = f"{node.kind.value}, {format_bytes(size)}"
        case MemAllocParams(bytes=size, device=device):
            note = f"{format_bytes(size)} on device {device}"
        case MemFreeParams(allocated_by=int(by)):
            note = f"allocated by node {by}"
        case HostParams(library=str(library)):
            note = f"CPU, {library}"
        case SemaphoreParams(semaphores=numbers):
            note = f"semaphore {', '.join(map(str, numbers))}"
        case ConditionalParams(size=int(size)):
            note = f"Conditional, {size} {'body' if size == 1 else 'bodies'}"
        case BatchMemOpParams(operations=operations) if operations:
            note = ", ".join(operations)
        case _:
            note = node.kind.value
    return note
