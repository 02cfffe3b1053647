"""Graphs, captures and replays of known truth, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphviz_dash.model.graph import (
    CapturedGraph,
    GraphEdge,
    GraphNode,
    KernelParams,
    MemcpyParams,
    MemsetParams,
    NodeKind,
)
from graphviz_dash.model.marks import CAPTURE
from graphviz_dash.model.trace import (
    ANNOTATION_COLUMNS,
    GPU_COLUMNS,
    OP_COLUMNS,
    PYTHON_COLUMNS,
    RUNTIME_COLUMNS,
    Trace,
    TraceInfo,
)
from tests.analysis.frames import frame

MAIN = 10
ENGINE = 20
EVALUATE = "autograd::engine::evaluate_function: "


def kernel(index: int, name: str = "k", grid: int = 1, *, static: int | None = 0) -> GraphNode:
    """A kernel node; ``name`` is the demangled one."""
    params = KernelParams(f"_Z{name}", name, (grid, 1, 1), (128, 1, 1), 16, static)
    return GraphNode(index, NodeKind.KERNEL, params)


def memset(index: int, size: int = 4) -> GraphNode:
    return GraphNode(index, NodeKind.MEMSET, MemsetParams(0, 1, size, 1, size))


def memcpy(index: int, size: int = 8) -> GraphNode:
    params = MemcpyParams("device", "device", "DtoD", size, size, 1, 1)
    return GraphNode(index, NodeKind.MEMCPY, params)


def graph_of(
    nodes: Sequence[GraphNode],
    edges: Iterable[tuple[int, int]] | None = None,
    name: str = "graph-0",
) -> CapturedGraph:
    """A graph; without ``edges`` its nodes are a line."""
    pairs = [(i, i + 1) for i in range(len(nodes) - 1)] if edges is None else edges
    return CapturedGraph(name, tuple(nodes), tuple(GraphEdge(a, b) for a, b in pairs), "a test")


@dataclass
class Scene:
    """Collects the rows of a trace. Times in ns."""

    gpu: list[dict[str, Any]] = field(default_factory=list)
    runtime: list[dict[str, Any]] = field(default_factory=list)
    ops: list[dict[str, Any]] = field(default_factory=list)
    marks: list[dict[str, Any]] = field(default_factory=list)
    frames: list[dict[str, Any]] = field(default_factory=list)

    def call(
        self, name: str, ts: int, dur: int = 2, *, tid: int = MAIN, external: int | None = None
    ) -> int:
        """Return its correlation."""
        correlation = 1000 + len(self.runtime)
        row = {"ts": ts, "dur": dur, "name": name, "pid": 1, "tid": tid}
        self.runtime.append(row | {"correlation": correlation, "external_id": external})
        return correlation

    def launch(self, ts: int, *, tid: int = MAIN, external: int | None = None) -> int:
        return self.call("cudaLaunchKernel", ts, tid=tid, external=external)

    def op(self, name: str, start: int, end: int, *, tid: int = MAIN, **rest: Any) -> int:
        """An operator; returns its External id."""
        row = {"ts": start, "dur": end - start, "name": name, "pid": 1, "tid": tid}
        self.ops.append(row | {"external_id": len(self.ops) + 1} | rest)
        return len(self.ops)

    def mark(self, name: str, start: int, end: int, *, tid: int = MAIN) -> None:
        """A record_function range."""
        row = {"ts": start, "dur": end - start, "name": name, "pid": 1, "tid": tid}
        self.marks.append(row)

    def frame(self, name: str, start: int, end: int, *, tid: int = MAIN) -> None:
        row = {"ts": start, "dur": end - start, "name": name, "pid": 1, "tid": tid}
        self.frames.append(row)

    def capture(self, start: int, end: int, name: str | None = "graph-0") -> None:
        """The calls around a capture, and the collector's range if ``name`` is given."""
        self.call("cudaStreamBeginCapture", start)
        self.call("cudaStreamEndCapture", end)
        if name is not None:
            self.mark(CAPTURE + name, start - 10, end + 10)

    def work(
        self,
        node: GraphNode,
        ts: int,
        correlation: int | None,
        *,
        dur: int = 5,
        stream: int = 7,
        **rest: Any,
    ) -> None:
        row: dict[str, Any] = {"ts": ts, "dur": dur, "device": 0, "stream": stream}
        row["correlation"] = correlation
        match node.params:
            case KernelParams() as params:
                row |= {"kind": "kernel", "name": params.demangled}
                for axis, grid, block in zip("xyz", params.grid, params.block, strict=True):
                    row |= {f"grid_{axis}": grid, f"block_{axis}": block}
                row["shared"] = params.dynamic_shared + (params.static_shared or 0)
            case MemcpyParams(bytes=size):
                row |= {"kind": "memcpy", "name": "Memcpy DtoD", "bytes": size}
            case MemsetParams(bytes=size):
                row |= {"kind": "memset", "name": "Memset (Device)", "bytes": size}
            case _:
                return
        self.gpu.append(row | rest)

    def replay(self, graph: CapturedGraph, start: int, rows: Iterable[tuple[int, int, int]]) -> int:
        """A graph launch whose rows are (node, ts after ``start``, stream)."""
        correlation = self.call("cudaGraphLaunch", start)
        for node, ts, stream in rows:
            self.work(graph.nodes[node], start + 10 + ts, correlation, stream=stream)
        return correlation

    def trace(self) -> Trace:
        info = TraceInfo("t.json", 0, {}, 0, 0, None, None, None, (), True, True, ())
        return Trace(
            info=info,
            gpu=frame(GPU_COLUMNS, self.gpu),
            runtime=frame(RUNTIME_COLUMNS, self.runtime),
            ops=frame(OP_COLUMNS, self.ops),
            annotations=frame(ANNOTATION_COLUMNS, self.marks),
            python=frame(PYTHON_COLUMNS, self.frames),
        )
