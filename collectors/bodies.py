"""The bodies of conditional nodes: which nodes are in them.

Since CUDA 13.2 cuGraphNodeGetParams gives the body graphs of a conditional node. Before, the driver
tells them only to whoever creates the node; for the graphs of others its debug DOT does name the
handles of the nodes in each body, and the driver answers queries about those like about any node.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cuda.bindings import driver

from collectors.driver import call
from graphviz_dash.model.graph import ConditionalType

NODE_PARAMS: Final = 13020
"""The driver version (as cuDriverGetVersion tells it) that has cuGraphNodeGetParams."""

BY_DOT: Final = "cuGraphDebugDotPrint (handles), cuGraphNodeGetDependencies"

_CLUSTER = re.compile(r"^subgraph cluster_(\d+) \{$(.*?)(?=^subgraph cluster_|\Z)", re.M | re.S)
_NODE = re.compile(r'^"graph_\d+_node_(\d+)"\[(.*?)"\];$', re.M | re.S)
_HANDLE = re.compile(r"node handle\s*[:|]\s*(0x[0-9A-Fa-f]+)")
_TYPE = re.compile(r"Conditional Type\|\s*(IF|WHILE|SWITCH)")
_BODY = re.compile(r"\{\s*(?:True|False|\d+)\s*\|\s*graph_(\d+)\s*\}")


@dataclass(frozen=True)
class DotNode:
    """A node of the debug DOT: its handle, and for a conditional its type and the numbers of its
    body graphs in the order of their values."""

    handle: int
    type: ConditionalType | None
    bodies: tuple[int, ...]


@dataclass(frozen=True)
class Conditional:
    """A conditional node's type and bodies. Each body is a graph, or a list of node handles in
    creation order where the driver does not give the graph."""

    type: ConditionalType
    graphs: tuple[Any, ...] = ()
    nodes: tuple[tuple[int, ...], ...] = ()


class Bodies:
    """Finds the bodies of the conditional nodes in ``root`` and in all that it holds."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._by_handle: dict[int, DotNode] | None = None
        self._graphs: dict[int, tuple[int, ...]] = {}

    def of(self, node: Any) -> Conditional | None:
        """The type and bodies of a conditional node; None where the driver does not tell.

        Raises:
            DriverError: the driver refused a query.
        """
        if call(driver.cuDriverGetVersion) >= NODE_PARAMS and hasattr(
            driver, "cuGraphNodeGetParams"
        ):
            params = call(driver.cuGraphNodeGetParams, node).conditional
            kind = params.type.name.removeprefix("CU_GRAPH_COND_TYPE_").title()
            return Conditional(ConditionalType(kind), graphs=tuple(params.phGraph_out))
        if self._by_handle is None:
            self._read_dot()
        found = (self._by_handle or {}).get(int(node))
        if found is None or found.type is None:
            return None
        return Conditional(
            found.type, nodes=tuple(self._graphs.get(number, ()) for number in found.bodies)
        )

    def _read_dot(self) -> None:
        flags = driver.CUgraphDebugDot_flags
        wanted = (
            flags.CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES
            | flags.CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS
        )
        with tempfile.TemporaryDirectory(prefix="graphviz-dash-") as folder:
            file = Path(folder) / "graph.dot"
            call(driver.cuGraphDebugDotPrint, self._root, str(file).encode(), int(wanted))
            clusters = parse_dot(file.read_text(encoding="utf-8", errors="replace"))
        self._by_handle = {}
        # The text is no interface: it is believed only where it agrees with what the driver says.
        count = call(driver.cuGraphGetNodes, self._root, 0)[1]
        handles = {int(node) for node in call(driver.cuGraphGetNodes, self._root, count)[0]}
        if not any({node.handle for node in nodes} == handles for nodes in clusters.values()):
            return
        for number, nodes in clusters.items():
            self._graphs[number] = tuple(node.handle for node in nodes)
            self._by_handle.update({node.handle: node for node in nodes})


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
