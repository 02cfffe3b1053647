"""Find collectives in the bodies of conditional nodes, which CUDA refuses. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Final

from collectors.replays.notes import is_collective
from graphviz_dash.model.doctor import Evidence
from graphviz_dash.model.graph import CapturedGraph, KernelParams, NodeKind

TORCH_BODIES: Final = "cudagraph_conditional_nodes.py"
"""File in which torch captures the bodies of ``torch.cond`` and ``torch.while_loop``."""

_EVENTS: Final = (NodeKind.EVENT_RECORD, NodeKind.EVENT_WAIT)


def has_caller(frame: FrameType | None, file: str) -> bool:
    """Check if ``frame`` or a caller of it runs code of ``file``, given by the end of its path."""
    while frame is not None:
        if frame.f_code.co_filename.endswith(file):
            return True
        frame = frame.f_back
    return False


def find_body_collectives(graphs: Sequence[CapturedGraph]) -> tuple[Evidence, ...]:
    """Describe the collectives in conditional bodies of a graph; empty without any.

    ``graphs`` are a graph and its child graphs and bodies.
    """
    by_id = {graph.id: graph for graph in graphs}
    collectives: list[str] = []
    events = 0
    for graph in graphs:
        if not _is_body(graph, by_id):
            continue
        names = [
            node.params.demangled
            for node in graph.nodes
            if isinstance(node.params, KernelParams) and is_collective(node.params.demangled)
        ]
        if names:
            collectives += names
            events += sum(node.kind in _EVENTS for node in graph.nodes)
    if not collectives:
        return ()
    return (
        Evidence("first collective in a conditional body", collectives[0]),
        Evidence("collectives in conditional bodies", len(collectives)),
        Evidence("event nodes next to them", events),
    )


def _is_body(graph: CapturedGraph, by_id: dict[str, CapturedGraph]) -> bool:
    """Check if a graph is a conditional body, or a child graph in one."""
    while graph.parent is not None:
        parent, index = by_id[graph.parent[0]], graph.parent[1]
        if parent.nodes[index].kind is NodeKind.CONDITIONAL:
            return True
        graph = parent
    return False
