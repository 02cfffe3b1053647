"""Read each graph of a capture pass from the driver after its capture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cuda.bindings import driver
from msgspec.structs import replace
from torch.profiler import profile, record_function

from collectors.allocator.extents import Segment
from collectors.allocator.history import end_recording, read_segments, start_recording
from collectors.driver.capabilities import SWITCHABLE, is_node_enabled, try_device_launch
from collectors.driver.node_operands import find_extent
from collectors.driver.operands import AllocationResolver, list_live_extents
from collectors.driver.topology import read_graph_with_positions
from collectors.passes.capture_listener import get_executable
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.marks import CAPTURE


class TopologyReader:
    """Marks each capture in the trace and reads its graph afterwards.

    The trace starts with the first capture to exclude warmup.
    """

    def __init__(self, profiler: profile) -> None:
        self.graphs: list[CapturedGraph] = []
        self._profiler = profiler
        self._started = False
        self._span: record_function | None = None
        self._handles: dict[str, dict[int, int]] = {}
        self._before: list[Segment] = []

    def on_capture_start(self, graph_id: str) -> None:
        """Mark the start of a capture in the trace."""
        self.start()
        self._before = read_segments()
        start_recording()
        self._span = record_function(CAPTURE + graph_id)
        self._span.__enter__()

    def stop(self) -> None:
        """Stop the trace, which is empty if nothing was captured."""
        self.start()
        self._profiler.stop()

    def start(self) -> None:
        """Start the trace unless it is running."""
        if not self._started:
            self._profiler.start()
            self._started = True

    def on_capture_end(self, graph_id: str, handle: int, capture_ns: int) -> None:
        """Read the graph of a capture."""
        if self._span is not None:
            self._span.__exit__(None, None, None)
        blocks = list_live_extents(self._before, end_recording())
        graphs, nodes_of_handles = read_graph_with_positions(
            handle, graph_id, AllocationResolver(read_segments(), blocks, find_extent)
        )
        # torch.compile's CUDA graph trees make an empty capture once to create their memory pool.
        if graphs[0].nodes:
            device_launch = try_device_launch(driver.CUgraph(handle), nodes_of_handles)
            self.graphs += (replace(graphs[0], device_launch=device_launch), *graphs[1:])
            self._handles[graph_id] = {
                index: node
                for node, (holder, index) in nodes_of_handles.items()
                if holder == graph_id
            }

    def on_instantiation(self, graph_id: str, handle: int, instantiate_ns: int) -> None:
        """Do nothing: timed only in the clean pass."""

    def on_first_launch(self, graph_id: str, call_ns: int, complete_ns: int) -> None:
        """Do nothing: timed only in the clean pass."""

    def read_enabled_nodes(self, alive: Mapping[str, Any]) -> None:
        """Read which nodes each executable runs. Nodes in bodies cannot be queried."""
        for index, graph in enumerate(self.graphs):
            if graph.id not in alive or graph.id not in self._handles:
                continue
            executable = get_executable(alive[graph.id])
            if executable is None:
                return
            handles = self._handles[graph.id]
            nodes = tuple(
                replace(node, enabled=is_node_enabled(executable, handles[node.index]))
                if node.kind in SWITCHABLE
                else node
                for node in graph.nodes
            )
            self.graphs[index] = replace(graph, nodes=nodes)
