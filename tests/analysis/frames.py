"""Runs and traces in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.graph import CapturedGraph, GraphEdge, GraphNode, NodeKind
from graphviz_dash.model.run import (
    Absent,
    Environment,
    ExecutionMode,
    Experiment,
    Failure,
    Manifest,
    MemoryUse,
    Pass,
    PoolUse,
    Run,
    WorkloadInfo,
)
from graphviz_dash.model.timings import CleanProcess, CleanTimings, GraphLifecycle, StepTiming
from graphviz_dash.model.trace import (
    ANNOTATION_COLUMNS,
    GPU_COLUMNS,
    OP_COLUMNS,
    PYTHON_COLUMNS,
    RUNTIME_COLUMNS,
    Trace,
    TraceInfo,
    TraceProblem,
)

_TYPES = {
    "int64": pl.Int64,
    "int32": pl.Int32,
    "uint64": pl.UInt64,
    "string": pl.String,
    "categorical": pl.Categorical,
}


def frame(columns: dict[str, str], rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Build a table of the declared columns, sorted by ts; omitted values are null."""
    schema = {name: _TYPES[kind] for name, kind in columns.items()}
    values = [[row.get(name) for name in columns] for row in rows]
    return pl.DataFrame(values, schema=schema, orient="row").sort("ts")


@dataclass
class Frames:
    """Rows; times in ns."""

    gpu: list[dict[str, Any]] = field(default_factory=list)
    runtime: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    ops: list[dict[str, Any]] = field(default_factory=list)

    def op(self, name: str, start: int, end: int, tid: int = 1) -> None:
        row = {"ts": start, "dur": end - start, "name": name, "pid": 1, "tid": tid}
        self.ops.append(row | {"external_id": 1 + len(self.ops)})

    def range(self, name: str, start: int, end: int) -> None:
        """A record_function range."""
        row = {"ts": start, "dur": end - start, "name": name, "pid": 1, "tid": 1}
        self.annotations.append(row)

    def step(self, index: int, start: int, end: int) -> None:
        self.range(f"graphviz_dash.step#{index}", start, end)

    def call(self, name: str, ts: int, correlation: int | None = None, tid: int = 1) -> int:
        """A call of the runtime; returns its correlation, by default a new one."""
        correlation = 1000 + len(self.runtime) if correlation is None else correlation
        row = {"ts": ts, "dur": 2, "name": name, "pid": 1, "tid": tid, "correlation": correlation}
        self.runtime.append(row)
        return correlation

    def work(
        self,
        name: str,
        ts: int,
        dur: int,
        *,
        kind: str = "kernel",
        stream: int = 7,
        correlation: int | None = None,
    ) -> None:
        row = {"ts": ts, "dur": dur, "kind": kind, "name": name, "device": 0, "stream": stream}
        self.gpu.append(row | {"correlation": correlation})

    def kernel(self, name: str, launched: int, ts: int, dur: int, *, stream: int = 7) -> None:
        """A kernel with its cudaLaunchKernel at ``launched``."""
        self.work(name, ts, dur, stream=stream, correlation=self.call("cudaLaunchKernel", launched))

    def trace(self, problems: tuple[TraceProblem, ...] = ()) -> Trace:
        rows = [*self.gpu, *self.runtime, *self.annotations, *self.ops]
        end = max((row["ts"] + row["dur"] for row in rows), default=0)
        return Trace(
            info=TraceInfo(
                source="replay.json.gz",
                events=len(rows),
                skipped={},
                origin_ns=0,
                end_ns=end,
                cupti_version=None,
                cuda_runtime_version=None,
                cuda_driver_version=None,
                device_names=(),
                with_stack=False,
                record_shapes=False,
                problems=problems,
            ),
            gpu=frame(GPU_COLUMNS, self.gpu),
            runtime=frame(RUNTIME_COLUMNS, self.runtime),
            ops=frame(OP_COLUMNS, self.ops),
            annotations=frame(ANNOTATION_COLUMNS, self.annotations),
            python=frame(PYTHON_COLUMNS, []),
        )


ENVIRONMENT = Environment(
    gpu=Gpu("NVIDIA H200", (9, 0), 150_000_000_000, 132),
    gpu_count=1,
    driver="580.1",
    cuda_driver="13.0",
    cuda_runtime="13.0",
    cupti=None,
    torch="2.11.0",
    cuda_bindings="13.0.1",
    python="3.12.1",
    cpu="a processor",
    cpu_count=16,
    os="Linux 6.1",
)

LIFE = GraphLifecycle(
    graph="graph-0",
    nodes=3,
    capture_ns=2_000_000,
    instantiate_ns=300_000,
    upload_ns=100_000,
    first_launch_cpu_ns=90_000,
    first_launch_ns=200_000,
)

GRAPH = CapturedGraph(
    "graph-0",
    nodes=(GraphNode(0, NodeKind.EMPTY), GraphNode(1, NodeKind.EMPTY), GraphNode(2, NodeKind.HOST)),
    edges=(GraphEdge(0, 1), GraphEdge(0, 2)),
    source_api="a test",
)


def clean_timings(
    walls: Sequence[int],
    *,
    launch: int = 5_000,
    intervals: Sequence[int] | None = None,
    lives: tuple[GraphLifecycle, ...] = (),
) -> CleanTimings:
    """A clean pass; back to back is as long as synchronised unless told."""
    return CleanTimings(
        warmup_ns=1_000_000,
        steps=tuple(StepTiming(wall, min(launch, wall)) for wall in walls),
        back_to_back_ns=tuple(walls if intervals is None else intervals),
        graphs=lives,
    )


def in_processes(*walls: Sequence[int], lives: tuple[GraphLifecycle, ...] = ()) -> CleanTimings:
    """A clean pass of a process for each of ``walls``, on a quiet machine."""
    clean = clean_timings([wall for series in walls for wall in series], lives=lives)
    rows = tuple(CleanProcess(0, len(series), len(series), (100,), None) for series in walls)
    return msgspec.structs.replace(clean, processes=rows)


def make_run(
    name: str,
    mode: ExecutionMode | None = None,
    *,
    clean: CleanTimings | None = None,
    trace: Trace | None = None,
    memory: MemoryUse | None = None,
    graphs: tuple[CapturedGraph, ...] = (),
    failures: tuple[Failure, ...] = (),
    absent: tuple[Absent, ...] = (),
    rank: int | None = None,
    environment: Environment = ENVIRONMENT,
    seed: int = 0,
) -> Run:
    """Build a run; its mode is its name by default."""
    return Run(
        path=Path("experiment") / name,
        manifest=Manifest(
            format="graphviz-dash-run",
            version=1,
            tool_version="0.1.0",
            created="2026-11-20T10:00:00+00:00",
            command=("graphviz-dash", "collect"),
            workload=WorkloadInfo("mlp-train", "collectors.workloads.mlp:mlp", seed, 11, 200, 20),
            mode=ExecutionMode(name) if mode is None else mode,
            rank=rank,
            status="failed" if failures else "complete",
            failures=failures,
            absent=absent,
            environment=environment,
            files=(),
        ),
        clean=clean,
        graphs=graphs,
        memory=memory,
        capture_trace=None,
        replay_trace=trace,
    )


def make_experiment(*runs: Run) -> Experiment:
    return Experiment(Path("experiment"), runs)


def pools(reserved: int, *pool_bytes: int) -> MemoryUse:
    """Memory with ``reserved`` bytes at its peak and private pools of the sizes given."""
    return MemoryUse(
        peak_allocated_bytes=reserved // 2,
        peak_reserved_bytes=reserved,
        allocated_bytes=0,
        reserved_bytes=reserved,
        pools=tuple(PoolUse((1, place), 1, size, 0) for place, size in enumerate(pool_bytes)),
    )


def failure(during: Pass = Pass.CLEAN, message: str = "no such luck") -> Failure:
    return Failure(during, "RuntimeError", message, "model.py:12", "Traceback ...")


def steps_trace(count: int, step: int, work: Sequence[tuple[str, int]], *, graph: bool) -> Trace:
    """``count`` steps of ``step`` ns; in each the kernels of ``work`` (name, duration) one after
    another, launched one by one or by one graph launch."""
    frames = Frames()
    for index in range(count):
        start = index * (step + 1_000)
        frames.step(index, start, start + step)
        at = start + 100
        replay = frames.call("cudaGraphLaunch", start + 10) if graph else None
        for place, (name, duration) in enumerate(work):
            if graph:
                frames.work(name, at, duration, correlation=replay)
            else:
                frames.kernel(name, start + 10 + place, at, duration)
            at += duration + 10
        frames.call("cudaDeviceSynchronize", start + step - 10)
    return frames.trace()
