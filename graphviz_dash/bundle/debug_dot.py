"""Parser of the text written by cuGraphDebugDotPrint: nodes and edges of each graph.

The format is undocumented; supports drivers 570 and 580, with and without the flags. Each graph is
a cluster, including child graphs and bodies of conditional nodes.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from graphviz_dash.model.graph import ConditionalType

_CLUSTER: Final = re.compile(r"^subgraph cluster_(\d+) \{$", re.M)
_NODE: Final = re.compile(r'^"graph_\d+_node_(\d+)"\[', re.M)
_LABEL: Final = 'label="'
_END: Final = re.compile(r'"\];$', re.M)
_EDGE: Final = re.compile(r'^"graph_\d+_node_(\d+)" -> "graph_\d+_node_(\d+)"', re.M)
_HANDLE: Final = re.compile(r"node handle\s*[:|]\s*(0x[0-9A-Fa-f]+)")
_TYPE: Final = re.compile(r"Conditional Type\|\s*(IF|WHILE|SWITCH)")
_BODY: Final = re.compile(r"\{\s*(?:True|False|\d+)\s*\|\s*graph_(\d+)\s*\}")


class DotNode(Struct, frozen=True):
    """A node of the debug DOT."""

    handle: int
    type: ConditionalType | None
    """Type of a conditional node. None for other nodes."""
    bodies: tuple[int, ...]
    """Numbers of the body graphs, in the order of their values."""


class DotText(Struct, frozen=True):
    """A graph of the debug DOT."""

    labels: dict[int, str]
    """Label by node number, in ascending order."""
    edges: tuple[tuple[int, int], ...]
    """Edges as pairs of node numbers, in file order."""


def parse_dot_graphs(text: str) -> dict[int, DotText]:
    """Parse the graphs of a debug DOT by number, in file order, in linear time."""
    heads = list(_CLUSTER.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)][: len(heads)]
    return {
        int(head[1]): _parse_graph(text[head.end() : end])
        for head, end in zip(heads, ends, strict=True)
    }


def _parse_graph(content: str) -> DotText:
    labels: dict[int, str] = {}
    position = 0
    while (head := _NODE.search(content, position)) is not None:
        end = _END.search(content, head.end())
        if end is None:
            break
        position = end.end()
        start = content.find(_LABEL, head.end(), position)
        labels[int(head[1])] = content[start + len(_LABEL) : end.start()] if start >= 0 else ""
    edges = tuple((int(edge[1]), int(edge[2])) for edge in _EDGE.finditer(content))
    return DotText({number: labels[number] for number in sorted(labels)}, edges)


def parse_bodies(label: str) -> tuple[ConditionalType | None, tuple[int, ...]]:
    """Parse the type of a conditional node and the numbers of its bodies."""
    kind = _TYPE.search(label)
    if kind is None:
        return None, ()
    return ConditionalType(kind[1].title()), tuple(map(int, _BODY.findall(label)))


def parse_dot_nodes(text: str) -> dict[int, tuple[DotNode, ...]]:
    """Parse the nodes with a handle, by graph number, ordered by id."""
    return {
        number: tuple(
            DotNode(int(handle[1], 16), *parse_bodies(label))
            for label in graph.labels.values()
            if (handle := _HANDLE.search(label)) is not None
        )
        for number, graph in parse_dot_graphs(text).items()
    }
