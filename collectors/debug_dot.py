"""The text that cuGraphDebugDotPrint writes, as far as it tells the nodes of each graph.

No format is documented: this is what driver 580 prints with the flags for handles and for
conditional nodes. Each graph is a cluster, those in child graph nodes and in conditional nodes too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from graphviz_dash.model.graph import ConditionalType

_CLUSTER: Final = re.compile(
    r"^subgraph cluster_(\d+) \{$(.*?)(?=^subgraph cluster_|\Z)", re.M | re.S
)
_NODE: Final = re.compile(r'^"graph_\d+_node_(\d+)"\[(.*?)"\];$', re.M | re.S)
_HANDLE: Final = re.compile(r"node handle\s*[:|]\s*(0x[0-9A-Fa-f]+)")
_TYPE: Final = re.compile(r"Conditional Type\|\s*(IF|WHILE|SWITCH)")
_BODY: Final = re.compile(r"\{\s*(?:True|False|\d+)\s*\|\s*graph_(\d+)\s*\}")


@dataclass(frozen=True)
class DotNode:
    """A node of the debug DOT: its handle, and for a conditional its type and the numbers of its
    body graphs in the order of their values."""

    handle: int
    type: ConditionalType | None
    bodies: tuple[int, ...]


def parse_dot(text: str) -> dict[int, tuple[DotNode, ...]]:
    """The nodes of each graph in the driver's debug DOT, by the graph's number and in the order of
    their ids. Written with the flags for handles and conditional nodes, as driver 580 prints it."""
    found: dict[int, tuple[DotNode, ...]] = {}
    for number, content in _CLUSTER.findall(text):
        nodes: dict[int, DotNode] = {}
        for ident, label in _NODE.findall(content):
            handle = _HANDLE.search(label)
            if handle is None:
                continue
            kind = _TYPE.search(label)
            nodes[int(ident)] = DotNode(
                handle=int(handle[1], 16),
                type=ConditionalType(kind[1].title()) if kind else None,
                bodies=tuple(int(body) for body in _BODY.findall(label)) if kind else (),
            )
        found[int(number)] = tuple(nodes[ident] for ident in sorted(nodes))
    return found
