"""Put progress marks into a captured graph.

Behind each node a kernel of one thread writes the number of the replay into host memory; successors
wait for it. A node before all others counts the replay. The marks become part of the graph that
torch instantiates, so torch's replays, with their random numbers, run them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cuda.bindings import driver

from collectors.driver.calls import DriverError, call
from collectors.driver.capture_mode import relax_capture_mode
from collectors.replays.kernels import CheckKernels, get_kernels
from collectors.replays.marks_file import MAX_GRAPHS, MarksFile, MarksFullError

_REFUSED_KINDS: Final = {
    "CU_GRAPH_NODE_TYPE_MEM_ALLOC": "the graph allocates memory, and CUDA allows no change of it",
    "CU_GRAPH_NODE_TYPE_MEM_FREE": "the graph frees memory, and CUDA allows no change of it",
    "CU_GRAPH_NODE_TYPE_CONDITIONAL": "the graph has a conditional node, and CUDA copies none",
}


class UnmarkedError(Exception):
    """A graph cannot be marked; the text gives the reason."""


@dataclass(frozen=True)
class MarkedGraph:
    """A graph with marks."""

    number: int
    """Its number in the file of marks."""
    nodes: int
    """Number of nodes without the marks."""
    edges: tuple[tuple[int, int], ...]
    """Dependencies between these nodes, in creation order."""


class Marker:
    """Marks graphs of one process into a file that the GPU writes through this mapping."""

    def __init__(self, path: Path) -> None:
        self.file = MarksFile(path, create=True)
        size = len(self.file.map)
        self._host = ctypes.addressof(ctypes.c_char.from_buffer(self.file.map))
        flags = driver.CU_MEMHOSTREGISTER_DEVICEMAP | driver.CU_MEMHOSTREGISTER_PORTABLE
        with relax_capture_mode():
            call(driver.cuMemHostRegister, self._host, size, flags)
            self._mapped = int(call(driver.cuMemHostGetDevicePointer, self._host, 0))
            self._counts = int(call(driver.cuMemAlloc, 4 * MAX_GRAPHS))
            _clear(self._counts, MAX_GRAPHS)

    def mark(self, handle: int) -> MarkedGraph:
        """Mark a CUgraph that is not instantiated yet.

        Raises:
            UnmarkedError: The graph cannot be marked. It keeps its nodes and dependencies.
        """
        graph = driver.CUgraph(handle)
        nodes, edges = read_topology(graph)
        for node in nodes:
            kind = call(driver.cuGraphNodeGetType, node).name
            if kind in _REFUSED_KINDS:
                raise UnmarkedError(_REFUSED_KINDS[kind])
        if not nodes:
            raise UnmarkedError("the graph has no nodes")
        try:
            number = self.file.add_graph(len(nodes))
            kernels = get_kernels()
            # A refusal halfway must not damage the program's graph.
            trial = call(driver.cuGraphClone, graph)
            try:
                self._add_marks(kernels, trial, number)
            finally:
                call(driver.cuGraphDestroy, trial)
            self._add_marks(kernels, graph, number)
        except (DriverError, MarksFullError) as error:
            raise UnmarkedError(str(error)) from error
        index = {int(node): position for position, node in enumerate(nodes)}
        return MarkedGraph(
            number,
            len(nodes),
            tuple((index[int(source)], index[int(target)]) for source, target, _ in edges),
        )

    def _add_marks(self, kernels: CheckKernels, graph: Any, number: int) -> None:
        nodes, edges = read_topology(graph)
        count = self._counts + 4 * number
        targets = {int(target) for _, target, _ in edges}
        roots = [node for node in nodes if int(node) not in targets]
        outgoing: dict[int, list[tuple[Any, Any]]] = {}
        for source, target, data in edges:
            outgoing.setdefault(int(source), []).append((target, data))
        counter = self._mapped + self.file.get_started_offset(number)
        begin = kernels.add_node(graph, (), "begin", count, counter)
        add_edges(graph, [begin] * len(roots), roots)
        for position, node in enumerate(nodes):
            word = self._mapped + self.file.get_node_offset(number, position)
            mark = kernels.add_node(graph, [node], "mark", count, word)
            following = outgoing.get(int(node), [])
            if following:
                # In this order the graph keeps all dependencies if a call fails.
                after = list({int(target): target for target, _ in following}.values())
                add_edges(graph, [mark] * len(after), after)
                remove_edges(graph, node, following)


def _clear(address: int, words: int) -> None:
    """Set words on the device to zero and wait for it.

    On the default stream this would run behind the program's work there, maybe after the first
    replays, which another stream may run.
    """
    stream = call(driver.cuStreamCreate, driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    try:
        call(driver.cuMemsetD32Async, address, 0, words, stream)
        call(driver.cuStreamSynchronize, stream)
    finally:
        call(driver.cuStreamDestroy, stream)


def read_topology(graph: Any) -> tuple[list[Any], list[tuple[Any, Any, Any]]]:
    """Return the nodes of a graph, and its edges as source, target and edge data."""
    _, count = call(driver.cuGraphGetNodes, graph, 0)
    nodes = list(call(driver.cuGraphGetNodes, graph, count)[0]) if count else []
    query = getattr(driver, "cuGraphGetEdges_v2", driver.cuGraphGetEdges)
    number = call(query, graph, 0)[-1]
    if not number:
        return nodes, []
    sources, targets, data, _ = call(query, graph, number)
    return nodes, list(zip(sources, targets, data, strict=True))


def add_edges(graph: Any, sources: Sequence[Any], targets: Sequence[Any]) -> None:
    """Add full dependencies."""
    function = getattr(driver, "cuGraphAddDependencies_v2", driver.cuGraphAddDependencies)
    call(function, graph, list(sources), list(targets), None, len(sources))


def remove_edges(graph: Any, source: Any, following: Sequence[tuple[Any, Any]]) -> None:
    """Remove the dependencies of a node's successors on it."""
    function = getattr(driver, "cuGraphRemoveDependencies_v2", driver.cuGraphRemoveDependencies)
    targets = [target for target, _ in following]
    is_plain = not any(int(item.type) or item.from_port or item.to_port for _, item in following)
    data = None if is_plain else [item for _, item in following]
    call(function, graph, [source] * len(targets), targets, data, len(targets))
