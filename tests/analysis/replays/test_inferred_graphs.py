"""Graphs without the driver's description, inferred from captured launches and from replays."""

from __future__ import annotations

from pathlib import Path

from graphviz_dash.analysis.attribution.attribution import attribute_graph
from graphviz_dash.analysis.replays.inferred_graphs import (
    BY_ARGUMENTS,
    BY_REPLAYS,
    find_captured_launches,
    infer_graphs,
)
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.ingest.kineto.launch_arguments import read_launched_kernels
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.graph import KernelParams, MemcpyParams, NodeKind
from graphviz_dash.model.trace import Trace
from tests.trace_builder import TraceBuilder

COPY = "copy"


def captures(folder: Path, *captured: list[str], told: bool = False) -> Trace:
    """A trace of captures; each launch inside an operator that is called as its kernel is.
    ``told``: launches name their kernel, as ROCm's do."""
    trace = TraceBuilder()
    at = 1_000
    for kernels in captured:
        trace.runtime("cudaStreamBeginCapture", at, 500)
        for name in kernels:
            at += 1_000
            external = trace.op(f"aten::{name}", at, 900)
            call = "cudaMemcpyAsync" if name == COPY else "cudaLaunchKernel"
            more = {"kernel": name, "grid": [4, 1, 1], "block": [64, 1, 1], "shared memory": 8}
            trace.runtime(
                call,
                at + 100,
                300,
                external_id=external,
                arguments=more if told and name != COPY else None,
            )
        at += 1_000
        trace.runtime("cudaStreamEndCapture", at, 500)
        at += 1_000
    return read_trace(trace.write(folder / "capture.json.gz"))


def replays(folder: Path, *launched: list[str], streams: int = 1, shapes: bool = True) -> Trace:
    """A trace of graph launches, the kernels of each in turn on ``streams`` streams."""
    trace = TraceBuilder()
    at = 1_000
    for kernels in launched:
        correlation = trace.runtime("cudaGraphLaunch", at, 500)
        for place, name in enumerate(kernels):
            at += 1_000
            stream = 7 + place % streams
            if name == COPY:
                told = "Memcpy DtoH (Device -> Pinned)"
                trace.memcpy(told, at, 500, bytes=4096, correlation=correlation, stream=stream)
            else:
                grid = (3, 1, 1) if shapes else None
                trace.kernel(name, at, 500, correlation=correlation, stream=stream, grid=grid)
        at += 2_000
    return read_trace(trace.write(folder / "replay.json.gz"))


class TestByReplays:
    """CUPTI does not name the kernel of a launch that was captured."""

    def test_nodes_are_what_the_replays_show(self, tmp_path: Path) -> None:
        capture = captures(tmp_path, ["fill", COPY, "gemm"])
        replay = replays(tmp_path, *[["fill", COPY, "gemm"]] * 2)
        found = infer_graphs(capture, replay, {})
        (graph,) = found.graphs
        assert found.missing == ()
        assert graph.source_api == BY_REPLAYS
        assert [node.kind for node in graph.nodes] == [
            NodeKind.KERNEL,
            NodeKind.MEMCPY,
            NodeKind.KERNEL,
        ]
        first = graph.nodes[0].params
        assert isinstance(first, KernelParams)
        assert (first.name, first.grid, first.dynamic_shared) == ("fill", (3, 1, 1), None)
        assert isinstance(graph.nodes[1].params, MemcpyParams)
        assert graph.nodes[1].params.bytes == 4096
        assert [(edge.source, edge.target) for edge in graph.edges] == [(0, 1), (1, 2)]

    def test_replayed_kernels_lead_to_operators(self, tmp_path: Path) -> None:
        capture = captures(tmp_path, ["fill", "gemm"])
        replay = replays(tmp_path, ["fill", "gemm"])
        (graph,) = infer_graphs(capture, replay, {}).graphs
        ops = [origin.op for origin in attribute_graph(graph, capture).origins]
        assert ops == ["aten::fill", "aten::gemm"]
        matched = match_replays((graph,), replay)
        assert matched.node.tolist() == [0, 1]
        assert matched.confidence.tolist() == [1.0, 1.0]

    def test_captures_of_one_length_in_the_order_of_a_step(self, tmp_path: Path) -> None:
        capture = captures(tmp_path, ["a1", "a2"], ["b1", "b2"])
        replay = replays(tmp_path, *[["x1", "x2"], ["y1", "y2"]] * 3)
        graphs = infer_graphs(capture, replay, {}).graphs
        assert [graph.nodes[0].label for graph in graphs] == ["x1", "y1"]
        assert [graph.capture_index for graph in graphs] == [0, 1]

    def test_another_order_fits_none(self, tmp_path: Path) -> None:
        capture = captures(tmp_path, ["a1", "a2"], ["b1", "b2"])
        replay = replays(tmp_path, ["x1", "x2"], ["y1", "y2"], ["y1", "y2"])
        found = infer_graphs(capture, replay, {})
        assert found.graphs == ()
        assert len(found.missing) == 2
        assert "match no replay, or match several" in found.missing[0]


class TestByArguments:
    """ROCm records the kernel's name without its grid."""

    def _kernels(self, capture: Trace) -> dict[int, KernelParams]:
        rows = [row for launches, _ in find_captured_launches(capture) for row in launches.tolist()]
        return read_launched_kernels(capture, rows)

    def test_nodes_are_what_the_launches_say(self, tmp_path: Path) -> None:
        capture = captures(tmp_path, ["fill", "gemm"], told=True)
        replay = replays(tmp_path, ["fill", "gemm"], shapes=False)
        (graph,) = infer_graphs(capture, replay, self._kernels(capture)).graphs
        assert graph.source_api == BY_ARGUMENTS
        kernel = graph.nodes[1].params
        assert isinstance(kernel, KernelParams)
        assert (kernel.name, kernel.grid, kernel.block) == ("gemm", (4, 1, 1), (64, 1, 1))
        assert kernel.dynamic_shared == 8
        assert match_replays((graph,), replay).node.tolist() == [0, 1]

    def test_layers_that_look_alike_take_turns(self, tmp_path: Path) -> None:
        layers = [["embed"], ["norm", "gemm"], ["norm", "gemm"], ["norm", "gemm"]]
        capture = captures(tmp_path, *layers, told=True)
        replay = replays(tmp_path, *layers, shapes=False)
        graphs = infer_graphs(capture, replay, self._kernels(capture)).graphs
        matched = match_replays(graphs, replay)
        assert matched.graph.tolist() == [0, 1, 1, 2, 2, 3, 3]
        # The first graph looks like no other and was launched as often as each of them would be.
        assert matched.confidence.tolist() == [1.0] + [0.9] * 6
        ops = [[origin.op for origin in attribute_graph(one, capture).origins] for one in graphs]
        assert ops[3] == ["aten::norm", "aten::gemm"]
        assert [attribute_graph(one, capture).capture_launches for one in graphs] == [1, 2, 2, 2]

    def test_replays_that_lack_the_last_kernel_of_the_capture(self, tmp_path: Path) -> None:
        kernels = [f"kernel {place % 7}" for place in range(30)]
        capture = captures(tmp_path, kernels, told=True)
        replay = replays(tmp_path, kernels[:-1], kernels[:-1], shapes=False)
        (graph,) = infer_graphs(capture, replay, self._kernels(capture)).graphs
        assert len(graph.nodes) == 30
        matched = match_replays((graph,), replay)
        assert matched.node.tolist() == [*range(29), *range(29)]
        assert 0.5 < matched.confidence.min() <= matched.confidence.max() < 1

    def test_replays_of_another_graph(self, tmp_path: Path) -> None:
        kernels = [f"kernel {place % 7}" for place in range(30)]
        capture = captures(tmp_path, kernels, told=True)
        replay = replays(tmp_path, kernels[::-1][:-1], shapes=False)
        assert infer_graphs(capture, replay, self._kernels(capture)).graphs == ()

    def test_a_plain_file_too(self, tmp_path: Path) -> None:
        capture = captures(tmp_path, ["fill", "gemm"], told=True)
        assert [kernel.name for kernel in self._kernels(capture).values()] == ["fill", "gemm"]


class TestNothing:
    def test_several_streams_tell_no_dependencies(self, tmp_path: Path) -> None:
        capture = captures(tmp_path, ["fill", "gemm"])
        found = infer_graphs(capture, replays(tmp_path, ["fill", "gemm"], streams=2), {})
        assert found.graphs == ()
        assert "run on up to 2 streams" in found.missing[0]

    def test_no_capture_and_no_replay(self, tmp_path: Path) -> None:
        capture, replay = captures(tmp_path, ["fill"]), replays(tmp_path, ["fill"])
        assert infer_graphs(replay, replay, {}).missing == (
            "the trace of the capture shows no capture",
        )
        assert infer_graphs(capture, capture, {}).graphs == ()

    def test_an_empty_capture(self, tmp_path: Path) -> None:
        found = infer_graphs(captures(tmp_path, [], ["fill"]), replays(tmp_path, ["fill"]), {})
        assert [graph.capture_index for graph in found.graphs] == [1]
        assert found.missing == ("capture 0 shows no launch",)
