"""Ledgers of a server that captures three graphs, with numbers to follow by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.model.ledger import (
    AllocatorBlocks,
    AllocatorState,
    GraphStart,
    LayerGroup,
    Ledger,
    LedgerSpan,
    MemorySample,
    ReservedPool,
    SampleKind,
    SpanKind,
    TensorGroup,
)
from graphviz_dash.model.memory import DEFAULT_POOL, Owner
from graphviz_dash.model.recording import RecordedGraph, Recording
from graphviz_dash.model.run import FORMAT_VERSION, ExecutionMode, WorkloadInfo
from tests.experiments import captured_graph, manifest
from tests.loops import layer_work

MIB = 1 << 20
MS = 1_000_000
POOL = (0, 1)
GRAPHS = ("graph-0", "graph-1", "graph-2")


def sample(
    at_ms: int,
    kind: SampleKind,
    outside: int,
    reserved: int = 0,
    pools: int = 0,
    name: str | None = None,
    host: int = 500,
) -> MemorySample:
    """A sample with sizes in MiB. Nine tenths of the reserved memory are allocated."""
    used = (outside + reserved) * MIB
    allocated = reserved * MIB * 9 // 10
    return MemorySample(
        at_ms * MS, kind, used, reserved * MIB, allocated, pools * MIB, host * MIB, name
    )


def span(kind: SpanKind, begin_ms: int, end_ms: int, name: str = "", thread: int = 0) -> LedgerSpan:
    return LedgerSpan(kind, name, thread, begin_ms * MS, end_ms * MS)


SAMPLES = (
    sample(2_000, SampleKind.CONTEXT, 510),
    sample(2_500, SampleKind.PERIODIC, 600, 300),
    sample(3_000, SampleKind.CAPTURE_BEGIN, 640, 320, name="graph-0"),
    sample(3_100, SampleKind.CAPTURE_END, 650, 420, name="graph-0"),
    sample(3_150, SampleKind.INSTANTIATION, 652, 420, 100, "graph-0", 504),
    sample(3_200, SampleKind.CAPTURE_BEGIN, 652, 420, 100, "graph-1", 504),
    sample(3_300, SampleKind.CAPTURE_END, 652, 440, 100, "graph-1", 505),
    sample(3_310, SampleKind.INSTANTIATION, 652, 440, 120, "graph-1", 506),
    sample(3_400, SampleKind.CAPTURE_BEGIN, 652, 440, 120, "graph-2", 506),
    sample(3_500, SampleKind.CAPTURE_END, 652, 444, 120, "graph-2", 506),
    sample(3_510, SampleKind.INSTANTIATION, 656, 444, 124, "graph-2", 507),
    sample(3_700, SampleKind.STARTUP_END, 656, 444, 124),
    sample(9_000, SampleKind.END, 660, 450, 124),
)

SPANS = (
    span(SpanKind.INTERPRETER, 0, 100, "Python"),
    span(SpanKind.IMPORT, 200, 1_500, "torch"),
    span(SpanKind.RECORDER, 1_500, 1_600, "hook"),
    span(SpanKind.CONTEXT, 1_700, 2_000),
    span(SpanKind.WEIGHTS, 2_000, 2_600, "load"),
    span(SpanKind.IMPORT, 2_100, 2_200, "safetensors"),
    span(SpanKind.GC, 3_010, 3_060, "generation 2"),
    span(SpanKind.RECORDER, 3_090, 3_100, "reading the graph"),
    span(SpanKind.DRIVER, 3_100, 3_150, "graph-0"),
    span(SpanKind.CAPTURE, 3_000, 3_150, "graph-0"),
    span(SpanKind.GC, 3_150, 3_190, "before a capture"),
    span(SpanKind.DRIVER, 3_300, 3_310, "graph-1"),
    span(SpanKind.CAPTURE, 3_200, 3_310, "graph-1"),
    span(SpanKind.DRIVER, 3_500, 3_510, "graph-2"),
    span(SpanKind.CAPTURE, 3_400, 3_510, "graph-2"),
    span(SpanKind.LAUNCH, 3_600, 3_602, "graph-0"),
    span(SpanKind.WARM_UP, 2_650, 2_750, "in a thread", thread=1),
)

STATE = AllocatorState(
    sample=2,
    pools=(
        ReservedPool(DEFAULT_POOL, 0, 4, 288 * MIB, 8 * MIB, 240 * MIB),
        ReservedPool(DEFAULT_POOL, 1, 1, 32 * MIB, 0, 32 * MIB),
    ),
    blocks=(
        AllocatorBlocks(DEFAULT_POOL, 0, Owner.WEIGHTS, 20, 200 * MIB),
        AllocatorBlocks(DEFAULT_POOL, 0, Owner.TENSORS, 4, 48 * MIB),
        AllocatorBlocks(DEFAULT_POOL, 1, Owner.UNOWNED, 1, 32 * MIB),
    ),
    layers=(LayerGroup("Layer", 4, 160 * MIB),),
    tensors=(
        TensorGroup(Owner.WEIGHTS, (1024, 1024), 2, 20, 200 * MIB),
        TensorGroup(Owner.TENSORS, (2, 16, 512, 64), 2, 4, 48 * MIB),
    ),
)


def make_ledger(**changes: Any) -> Ledger:
    """The server's ledger: used memory 510 MiB to 1,100 MiB, 3,602 ms until the first replay."""
    facts: dict[str, Any] = {
        "process_start_ns": 1_000 * MS,
        "pid": 10,
        "parent_pid": 1,
        "device": 0,
        "device_total_bytes": 80_000 * MIB,
        "module_loading": "lazy",
        "used_before_bytes": 10 * MIB,
        "process_used_bytes": None,
        "samples": SAMPLES,
        "spans": SPANS,
        "graphs": tuple(
            GraphStart(graph, POOL, 0, 3_602 * MS if graph == "graph-0" else None)
            for graph in GRAPHS
        ),
        "states": (STATE,),
        "startup_end_ns": 3_602 * MS,
        "recorder_ns": 3 * MS,
    }
    return Ledger(**facts | changes)


def write_server(experiment: Path, name: str = "recorded", ledger: Ledger | None = None) -> Path:
    """Write a run with this ledger, and its graphs of 100 nodes, into ``experiment``."""
    info = WorkloadInfo("server.py", "server.py", None, 30, 0, 0)
    recorded = tuple(
        RecordedGraph(graph, ("server.py:8",), 100 * MS, 0, 100, replays, 0, False, True)
        for graph, replays in zip(GRAPHS, (40, 3, 0), strict=True)
    )
    recording = Recording(
        None, None, 30, 0, 0, (), None, 0, None, False, 0, recorded, exit_code=0, reached_end=True
    )
    with BundleWriter(experiment / name) as writer:
        writer.add(parts.RECORDING, recording)
        writer.add(parts.LEDGER, ledger or make_ledger())
        for graph in GRAPHS:
            writer.add_graph(captured_graph(layer_work(100, 4), graph))
        described = manifest(ExecutionMode.RECORDED, info)
        writer.commit(replace(described, version=FORMAT_VERSION))
    return experiment / name
