from __future__ import annotations

import gzip
from pathlib import Path

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.model.doctor import (
    DoctorReport,
)
from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.graph import (
    CapturedGraph,
    EdgeType,
    GraphEdge,
    GraphNode,
    KernelParams,
    MemcpyParams,
    NodeKind,
)
from graphviz_dash.model.memory import (
    Extent,
    GraphMemory,
    LiveExtent,
    MemoryPass,
    MemoryStage,
    OwnedBytes,
    Owner,
    PoolSegment,
    Stage,
)
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass, NodeIdRow, NodeSignature
from graphviz_dash.model.observers import ObserverPass
from graphviz_dash.model.recording import BoundaryKind, RecordedGraph, Recording
from graphviz_dash.model.run import (
    Absent,
    Environment,
    ExecutionMode,
    FileRole,
    GraphUpdates,
    Manifest,
    MemoryUse,
    PoolUse,
    WorkloadInfo,
)
from graphviz_dash.model.timings import (
    CleanProcess,
    CleanTimings,
    GpuClocks,
    GraphLifecycle,
    StepTiming,
)

MANIFEST = Manifest(
    format="graphviz-dash-run",
    version=7,
    tool_version="0.1.0",
    created="2026-11-20T10:00:00+00:00",
    command=("graphviz-dash", "collect", "--workload", "mlp-train"),
    workload=WorkloadInfo("mlp-train", "collectors.workloads.mlp:train", 0, 11, 2, 1),
    mode=ExecutionMode.GRAPH,
    rank=None,
    status="complete",
    failures=(),
    absent=(Absent("upload_ns", "the driver refused it"),),
    environment=Environment(
        gpu=Gpu("NVIDIA H200", (9, 0), 150_000_000_000, 132),
        gpu_count=1,
        driver=None,
        cuda_driver="13.0",
        cuda_runtime="13.0",
        cupti=None,
        torch="2.11.0",
        cuda_bindings="13.0.1",
        python="3.12.1",
        cpu="a processor",
        cpu_count=16,
        os="Linux 6.1",
    ),
    files=(),
)

CLEAN = CleanTimings(
    warmup_ns=9_000_000,
    steps=(StepTiming(127_000, 9_000), StepTiming(131_000, 9_500)),
    back_to_back_ns=(120_000, 121_000),
    graphs=(GraphLifecycle("graph-0", 3, 2_000_000, 50_000, None, 20_000, 140_000),),
    processes=(
        CleanProcess(1_763_800_000_000_000_000, 1, 2, (250_000, 251_000), None),
        CleanProcess(
            1_763_800_005_000_000_000, 1, 0, (), GpuClocks(1_980, 1_980, 3_201, ("power cap",))
        ),
    ),
)

MEMORY = MemoryUse(1 << 20, 1 << 21, 1 << 19, 1 << 21, (PoolUse((1, 0), 1, 1 << 21, 1 << 20),))

MEMORY_PASS = MemoryPass(
    method="torch",
    iterations=4,
    stages=tuple(
        MemoryStage(stage, 3 << 20, 5 << 20, 1 << 20, 4 << 20, 9 << 20) for stage in Stage
    ),
    owners_at_end=(
        OwnedBytes((0, 0), Owner.WEIGHTS, 1024),
        OwnedBytes((1, 0), Owner.GRADIENTS, 512),
    ),
    owners_at_peak=(OwnedBytes((0, 0), Owner.TRANSIENT, 2048),),
    segments=(PoolSegment((1, 0), 1 << 21),),
    live_extents=(LiveExtent(0, 0, 512, Owner.GRADIENTS),),
    graphs=(GraphMemory("graph-0", (1, 0), 2, 1024, 512, (Extent(0, 0, 1024),), None),),
)

GRAPH = CapturedGraph(
    id="graph-0",
    nodes=(
        GraphNode(0, NodeKind.KERNEL, KernelParams("_Z1kv", "k()", (1, 1, 1), (32, 1, 1), 0, 16)),
        GraphNode(1, NodeKind.MEMCPY, MemcpyParams("device", "host", "DtoH", 64, 64, 1, 1)),
        GraphNode(2, NodeKind.EMPTY),
    ),
    edges=(GraphEdge(0, 1), GraphEdge(0, 2, 1, 0, EdgeType.PROGRAMMATIC)),
    source_api="cuGraphGetNodes",
)

IDS = (GraphIds("graph-0", (2, 5), (0, 1, 2)),)

NODE_IDS = NodeIdPass(
    source="cupti-python 13.0.1",
    steps=2,
    dropped_records=0,
    outside_records=4,
    graphs=IDS,
    signatures=(
        NodeSignature("kernel", "k()", (1, 1, 1), (32, 1, 1), 16, 24, None),
        NodeSignature("memcpy", "Memcpy DtoH", None, None, None, None, 64),
    ),
    launch_steps=(0, 1),
    rows=(
        NodeIdRow(0, 2, 0, 0, 0, 7, 0, 900),
        NodeIdRow(0, 2, 1, 1, 0, 7, 950, 700),
        NodeIdRow(1, 2, 0, 0, 0, 7, 5000, 910),
        NodeIdRow(1, 2, 1, 1, 0, 7, 5960, 690),
    ),
)

TRACE = gzip.compress(b'{"traceEvents": []}', mtime=0)


RECORDING = Recording(
    boundary_kind=BoundaryKind.REPLAYS,
    boundary="replay of graph-0",
    skip_steps=2,
    requested_window_steps=1,
    steps=7,
    step_ns=(15_000, 14_000),
    final_wait_ns=90_000,
    window_steps=1,
    window_missing_reason=None,
    profiler_active=False,
    earlier_replays=1,
    graphs=(
        RecordedGraph("graph-0", ("train.py:9",), 5_000, 0, 3, 60, 4, False, True),
        RecordedGraph("graph-1", (), 0, 7, None, 0, 0, False, False, "Error: no"),
    ),
    exit_code=-9,
)


def write_bundle(
    target: Path,
    manifest: Manifest = MANIFEST,
    clean: CleanTimings | None = CLEAN,
    memory: MemoryUse | None = MEMORY,
    memory_pass: MemoryPass | None = None,
    graphs: tuple[CapturedGraph, ...] = (GRAPH,),
    traces: tuple[FileRole, ...] = (FileRole.CAPTURE_TRACE, FileRole.REPLAY_TRACE),
    replay_ids: tuple[GraphIds, ...] = (),
    node_ids: NodeIdPass | None = None,
    recording: Recording | None = None,
    doctor: DoctorReport | None = None,
    updates: GraphUpdates | None = None,
    observers: ObserverPass | None = None,
) -> Path:
    """Write a bundle like the collectors do."""
    with BundleWriter(target) as writer:
        if clean is not None:
            writer.add(parts.CLEAN, clean)
        if memory is not None:
            writer.add(parts.MEMORY, memory)
        if memory_pass is not None:
            writer.add(parts.MEMORY_PASS, memory_pass)
        if recording is not None:
            writer.add(parts.RECORDING, recording)
        if doctor is not None:
            writer.add(parts.DOCTOR, doctor)
        if updates is not None:
            writer.add(parts.UPDATES, updates)
        if observers is not None:
            writer.add(parts.OBSERVERS, observers)
        for graph in graphs:
            writer.add_graph(graph)
        for role in traces:
            source = target.parent / f"{role.value}.json.gz"
            source.write_bytes(TRACE)
            writer.add_trace(role, source)
        if replay_ids:
            writer.add(parts.REPLAY_IDS, replay_ids)
        if node_ids is not None:
            writer.add(parts.NODE_IDS, node_ids)
        writer.commit(manifest)
    return target
