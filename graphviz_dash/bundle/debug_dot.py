"""The text that cuGraphDebugDotPrint writes: the nodes and edges of each graph in it.

No format is documented: this is what drivers 570 and 580 print, with and without the flags for
handles and parameters. Each graph is a cluster, those in child graph nodes and in conditional nodes
too.
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
    """A node of the debug DOT: its handle, and for a conditional its type and the numbers of its
    body graphs in the order of their values."""

    handle: int
    type: ConditionalType | None
    bodies: tuple[int, ...]


class DotText(Struct, frozen=True):
    """A graph as text: the label of each node by the node's number, in the order of numbers, and
    the edges by the numbers of their ends, as they stand."""

    labels: dict[int, str]
    edges: tuple[tuple[int, int], ...]


def dot_graphs(text: str) -> dict[int, DotText]:
    """The graphs of a debug DOT by number, in the order in which they stand; linear in the text."""
    heads = list(_CLUSTER.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)][: len(heads)]
    return {
        int(head[1]): _graph(text[head.end() : end]) for head, end in zip(heads, ends, strict=True)
    }


def _graph(content: str) -> DotText:
    labels: dict[int, str] = {}
    at = 0
    while (head := _NODE.search(content, at)) is not None:
        end = _END.search(content, head.end())
        if end is None:
            break
        at = end.end()
        begin = content.find(_LABEL, head.end(), at)
        labels[int(head[1])] = content[begin + len(_LABEL) : end.start()] if begin >= 0 else ""
    edges = tuple((int(edge[1]), int(edge[2])) for edge in _EDGE.finditer(content))
    return DotText({number: labels[number] for number in sorted(labels)}, edges)


def dot_bodies(label: str) -> tuple[ConditionalType | None, tuple[int, ...]]:
    """The type of a conditional node and the numbers of its bodies, as its label says."""
    kind = _TYPE.search(label)
    if kind is None:
        return None, ()
    return ConditionalType(kind[1].title()), tuple(map(int, _BODY.findall(label)))


def parse_dot(text: str) -> dict[int, tuple[DotNode, ...]]:
    """The nodes of each graph in the driver's debug DOT that were printed with a handle, by the
    graph's number and in the order of their ids."""
    return {
        number: tuple(
            DotNode(int(handle[1], 16), *dot_bodies(label))
            for label in graph.labels.values()
            if (handle := _HANDLE.search(label)) is not None
        )
        for number, graph in dot_graphs(text).items()
    }
