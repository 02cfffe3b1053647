"""Find the nodes in the bodies of conditional nodes.

Since CUDA 13.2 cuGraphNodeGetParams returns the body graphs. For earlier drivers the debug DOT
lists the node handles of each body, which the driver accepts in queries.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cuda.bindings import driver

from collectors.driver.calls import call
from graphviz_dash.bundle.debug_dot import DotNode, parse_dot_nodes
from graphviz_dash.model.graph import ConditionalType

NODE_PARAMS: Final = 13020
"""First driver version, as in cuDriverGetVersion, with cuGraphNodeGetParams."""

BY_DOT: Final = "cuGraphDebugDotPrint (handles), cuGraphNodeGetDependencies"


@dataclass(frozen=True)
class ConditionalBodies:
    """Type and bodies of a conditional node.

    A body is a graph, or node handles in creation order if the driver does not return the graph.
    """

    type: ConditionalType
    graphs: tuple[Any, ...] = ()
    nodes: tuple[tuple[int, ...], ...] = ()


class BodyFinder:
    """Finds the bodies of the conditional nodes in ``root`` and its nested graphs."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._by_handle: dict[int, DotNode] | None = None
        self._graphs: dict[int, tuple[int, ...]] = {}

    def find(self, node: Any) -> ConditionalBodies | None:
        """Return type and bodies of a conditional node, or None if the driver does not report them.

        Raises:
            DriverError: The driver refused a query.
        """
        if call(driver.cuDriverGetVersion) >= NODE_PARAMS and hasattr(
            driver, "cuGraphNodeGetParams"
        ):
            params = call(driver.cuGraphNodeGetParams, node).conditional
            kind = params.type.name.removeprefix("CU_GRAPH_COND_TYPE_").title()
            return ConditionalBodies(ConditionalType(kind), graphs=tuple(params.phGraph_out))
        if self._by_handle is None:
            self._read_dot()
        bodies = (self._by_handle or {}).get(int(node))
        if bodies is None or bodies.type is None:
            return None
        return ConditionalBodies(
            bodies.type, nodes=tuple(self._graphs.get(number, ()) for number in bodies.bodies)
        )

    def _read_dot(self) -> None:
        flags = driver.CUgraphDebugDot_flags
        dot_flags = (
            flags.CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES
            | flags.CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS
        )
        with tempfile.TemporaryDirectory(prefix="graphviz-dash-") as folder:
            file = Path(folder) / "graph.dot"
            call(driver.cuGraphDebugDotPrint, self._root, str(file).encode(), int(dot_flags))
            clusters = parse_dot_nodes(file.read_text(encoding="utf-8", errors="replace"))
        self._by_handle = {}
        # The DOT format is undocumented: use it only where it agrees with the driver's node list.
        count = call(driver.cuGraphGetNodes, self._root, 0)[1]
        handles = {int(node) for node in call(driver.cuGraphGetNodes, self._root, count)[0]}
        if not any({node.handle for node in nodes} == handles for nodes in clusters.values()):
            return
        for number, nodes in clusters.items():
            self._graphs[number] = tuple(node.handle for node in nodes)
            self._by_handle.update({node.handle: node for node in nodes})
