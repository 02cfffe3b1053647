"""Names and short descriptions of nodes."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.nodes.node_table import NodeRow
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.errors import escape_control_characters
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

ATEN_PREFIX: Final = "aten::"
"""Default operator namespace, omitted in names."""


def build_node_lines(row: NodeRow, above: str = "") -> tuple[str, str]:
    """Build name and description of a node: operator or module, and kernel.

    Without both, use the kernel and :func:`describe_node`. A module equal to the title ``above`` is
    skipped.
    """
    work = format_work_name(row.node)
    module = row.origin.module
    title = format_operator(row) or (
        module.rpartition(".")[2] if module and module != above else ""
    )
    if not title or title == work:
        return work, describe_node(row.node)
    # Boxes of one operator differ by module.
    name = "" if module is None else _get_last_names(escape_control_characters(module))
    is_context = not name or name == title or f".{above}".endswith(f".{name}")
    return escape_control_characters(title), work if is_context else f"{name} · {work}"


def _get_last_names(module: str) -> str:
    """Return a module's last name, with the one before it if it is a number."""
    *others, last = module.split(".")
    return f"{others[-1]}.{last}" if last.isdecimal() and others else last


def format_operator(row: NodeRow) -> str:
    """Format the operator without the aten namespace; empty if unknown."""
    return (row.origin.op or "").removeprefix(ATEN_PREFIX)


def format_module_tail(module: str | None) -> str:
    """Return a module's path without the shared root class; empty if unknown."""
    if module is None:
        return ""
    root, _, inner = escape_control_characters(module).partition(".")
    return inner or root


def format_work_name(node: GraphNode) -> str:
    """Return the short kernel name, or the label of another kind of node."""
    label = escape_control_characters(node.label)
    return shorten_name(label) if isinstance(node.params, KernelParams) else label


def _format_shape(shape: tuple[int, int, int]) -> str:
    """Format sizes without trailing ones: "128" or "16 x 4"."""
    width, height, depth = shape
    sizes = (width, height, depth) if depth > 1 else (width, height) if height > 1 else (width,)
    return " x ".join(map(str, sizes))


def describe_node(node: GraphNode) -> str:
    """Describe size, partner or operations; the kind if nothing else is known."""
    match node.params:
        case KernelParams(grid=(int(), int(), int()) as grid, block=(int(), int(), int()) as block):
            note = f"grid {_format_shape(grid)}, block {_format_shape(block)}"
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
