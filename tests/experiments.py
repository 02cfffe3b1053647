"""Runs and experiments of known truth, written as valid bundles: a two-layer training step whose
every node, launch and time follows from :data:`STEP`.

    path = make_experiment(tmp_path / "toy")           # toy/eager and toy/graph
    path = make_run(tmp_path / "toy", "graph", work=chain(1000))
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.graph import (
    CapturedGraph,
    Dim3,
    GraphEdge,
    GraphNode,
    KernelParams,
    MemcpyParams,
    MemsetParams,
    NodeKind,
)
from graphviz_dash.model.marks import CAPTURE, MODULE, SOURCE
from graphviz_dash.model.marks import STEP as STEP_MARK
from graphviz_dash.model.memory import MemoryPass
from graphviz_dash.model.run import (
    Absent,
    Environment,
    ExecutionMode,
    Failure,
    FileRole,
    Manifest,
    MemoryUse,
    Pass,
    PoolUse,
    WorkloadInfo,
)
from graphviz_dash.model.timings import CleanTimings, GraphLifecycle, StepTiming
from tests.trace_builder import AUTOGRAD_THREAD, MAIN_THREAD, GpuWork, TraceBuilder

FORWARD_THREAD = 1
"""Number of the main thread in Kineto's "Fwd thread id", unrelated to system ids."""

CLEAN_NS = {
    ExecutionMode.EAGER: (400_000, 350_000),
    ExecutionMode.GRAPH: (100_000, 8_000),
    ExecutionMode.PARALLEL: (70_000, 9_000),
    ExecutionMode.CALLABLES: (160_000, 40_000),
    ExecutionMode.PARTIAL: (180_000, 60_000),
    ExecutionMode.COMPILE_DEFAULT: (300_000, 250_000),
    ExecutionMode.COMPILE: (120_000, 20_000),
}
"""Median wall and launch CPU time of a clean step in each mode, unless given otherwise."""

LIFE_NS = {"capture": 2_000_000, "instantiate": 300_000, "upload": 120_000}
"""One-off costs of graph-0; its first launch takes twice the median step."""

POOL_BYTES = 64 << 20
"""Reserved by the private pool of graph-0."""

OP_NS = 30_000  # from one op of an eager step to the next
LAUNCH_NS = 5_000  # a launch call
LATENCY_NS = 7_000  # from the begin of a launch call to the kernel's start, at the least
NODE_GAP_NS = 100  # between two nodes of a replay
SYNC_NS = 3_000  # from the end of the last GPU work to the end of the step's range
STEP_GAP_NS = 20_000  # between two traced steps


class Work(Struct, frozen=True):
    """One node of the step and all that is true of it; times in ns, sizes in bytes.

    ``after`` are the indices it depends on; None: the one before it. ``sequence`` is the autograd
    sequence number, which a backward op shares with its forward op.
    """

    name: str
    duration: int
    op: str
    source: str
    kind: NodeKind = NodeKind.KERNEL
    mangled: str = "_Z6kernelv"
    grid: Dim3 = (4, 1, 1)
    block: Dim3 = (128, 1, 1)
    static_shared: int = 0
    dynamic_shared: int = 0
    registers: int = 32
    bytes: int = 0
    dims: tuple[tuple[int, ...], ...] = ((64, 64),)
    types: tuple[str, ...] = ("float",)
    module: str | None = None
    sequence: int | None = None
    phase: str = "forward"
    stream: int = 7
    after: tuple[int, ...] | None = None

    def node(self, index: int) -> GraphNode:
        if self.kind is NodeKind.MEMCPY:
            width = self.bytes
            memcpy = MemcpyParams("device", "unified", "DtoH", width, width, 1, 1)
            return GraphNode(index, self.kind, memcpy)
        if self.kind is NodeKind.MEMSET:
            return GraphNode(index, self.kind, MemsetParams(0, 1, self.bytes, 1, self.bytes))
        kernel = KernelParams(
            self.mangled,
            self.name,
            self.grid,
            self.block,
            self.dynamic_shared,
            self.static_shared,
            self.registers,
        )
        return GraphNode(index, self.kind, kernel)

    def on_gpu(self, start: int) -> GpuWork:
        kinds = {NodeKind.KERNEL: "kernel", NodeKind.MEMCPY: "memcpy", NodeKind.MEMSET: "memset"}
        return GpuWork(
            self.name,
            start,
            self.duration,
            kinds[self.kind],
            self.stream,
            self.grid,
            self.block,
            self.static_shared + self.dynamic_shared,
            self.registers,
            self.bytes,
        )

    @property
    def launch_call(self) -> str:
        calls = {NodeKind.MEMCPY: "cudaMemcpyAsync", NodeKind.MEMSET: "cudaMemsetAsync"}
        return calls.get(self.kind, "cudaLaunchKernel")


GEMM = "void cutlass::gemm_kernel<float, 64>(float const*, float const*, float*)"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu>(int)"
LOSS = "void at::native::reduce_kernel<512, 1, at::native::MeanOps>(at::native::MeanOps)"
ADAM = "void at::native::multi_tensor_apply_kernel<at::native::AddOps>(int)"

STEP: tuple[Work, ...] = (
    Work(
        "Memset (Device)",
        800,
        "aten::addmm",
        "model.py:11",
        NodeKind.MEMSET,
        bytes=32,
        module="Mlp.0",
        sequence=1,
    ),
    Work(GEMM, 7_700, "aten::addmm", "model.py:11", grid=(8, 2, 1), module="Mlp.0", sequence=1),
    Work(RELU, 1_000, "aten::relu", "model.py:12", module="Mlp.1", sequence=2),
    Work(GEMM, 7_900, "aten::addmm", "model.py:13", grid=(8, 2, 1), module="Mlp.2", sequence=3),
    Work(LOSS, 2_300, "aten::mse_loss", "train.py:20", static_shared=2064, sequence=4),
    Work(
        RELU,
        1_100,
        "aten::mse_loss_backward",
        "train.py:20",
        sequence=4,
        phase="backward",
    ),
    Work(
        GEMM,
        8_100,
        "aten::mm",
        "model.py:13",
        grid=(4, 4, 1),
        module="Mlp.2",
        sequence=3,
        phase="backward",
    ),
    Work(
        RELU,
        1_050,
        "aten::threshold_backward",
        "model.py:12",
        module="Mlp.1",
        sequence=2,
        phase="backward",
    ),
    Work(
        GEMM,
        8_200,
        "aten::mm",
        "model.py:11",
        grid=(4, 4, 1),
        module="Mlp.0",
        sequence=1,
        phase="backward",
    ),
    Work(ADAM, 3_000, "aten::_foreach_add_", "train.py:22", grid=(12, 1, 1), phase="optimizer"),
    Work(
        "Memcpy DtoH (Device -> Pinned)",
        900,
        "aten::copy_",
        "train.py:23",
        NodeKind.MEMCPY,
        bytes=4,
        phase="other",
    ),
)
"""Forward, loss, backward, optimizer and a copy of a two-layer network: 11 nodes in a line."""


def chain(nodes: int) -> tuple[Work, ...]:
    """A line of ``nodes`` kernels with four names, in modules of four."""
    return tuple(
        Work(
            f"void kernel_{index % 4}<float>(float*)",
            1_000 + index % 7 * 100,
            f"aten::op_{index % 4}",
            f"model.py:{10 + index % 4}",
            grid=(1 + index % 4, 1, 1),
            module=f"Net.layers.{index // 4}",
            sequence=index,
        )
        for index in range(nodes)
    )


def fork_join(branches: int = 3, length: int = 4) -> tuple[Work, ...]:
    """Build one kernel, ``branches`` lines of ``length`` kernels on separate streams, and a kernel
    that waits for all of them. Nodes are created branch by branch.
    """
    work = [Work("void fork(float*)", 2_000, "aten::add", "net.py:5")]
    ends = []
    for branch in range(branches):
        before = 0
        for step in range(length):
            name = f"void branch_{branch}_{step}(float*)"
            stream = 7 if branch == 0 else 140 + branch
            line = f"net.py:{10 + branch}"
            work.append(Work(name, 3_000, "aten::mul", line, stream=stream, after=(before,)))
            before = len(work) - 1
        ends.append(before)
    work.append(Work("void join(float*)", 2_000, "aten::add", "net.py:20", after=tuple(ends)))
    return tuple(work)


def captured_graph(work: Sequence[Work] = STEP, graph_id: str = "graph-0") -> CapturedGraph:
    nodes = tuple(item.node(index) for index, item in enumerate(work))
    edges = tuple(
        GraphEdge(source, index)
        for index, item in enumerate(work)
        for source in dependencies(work, index)
    )
    return CapturedGraph(graph_id, nodes, edges, "cuGraphGetNodes")


def dependencies(work: Sequence[Work], index: int) -> tuple[int, ...]:
    after = work[index].after
    return after if after is not None else ((index - 1,) if index else ())


def capture_trace(work: Sequence[Work] = STEP, graph_id: str = "graph-0") -> TraceBuilder:
    """Trace the capture of ``work``: one launch per node in node order, inside operator, module
    range and source line range; backward on the autograd thread."""
    trace = TraceBuilder(with_stack=True, record_shapes=True)
    trace.thread_name(AUTOGRAD_THREAD, f"thread {AUTOGRAD_THREAD} (pt_autograd_0)")
    # One real launch before the capture begins, as warm-up code makes in real traces.
    before = trace.runtime("cudaLaunchKernel", 2_000, LAUNCH_NS)
    trace.kernel("void fill(long*)", 9_000, 700, correlation=before)
    trace.runtime("cudaStreamBeginCapture", 20_000, 2_000)
    now = 30_000
    main = trace.frame("train.py(9): step", now, (len(work) + 1) * OP_NS)
    for item in work:
        backward = item.phase == "backward"
        tid = AUTOGRAD_THREAD if backward else MAIN_THREAD
        if not backward:
            trace.frame(f"{item.source.replace(':', '(')}): call", now, 25_000, parent=main)
            if item.module is not None:
                trace.annotation(f"{MODULE}{item.module}", now + 500, 24_000)
            trace.annotation(f"{SOURCE}{item.source}", now + 1_000, 23_000)
        external = _op(trace, item, now + 2_000, 20_000, tid)
        trace.runtime(item.launch_call, now + 8_000, LAUNCH_NS, external_id=external, tid=tid)
        now += OP_NS
    trace.runtime("cudaStreamEndCapture", now, 5_000)
    trace.annotation(f"{CAPTURE}{graph_id}", 10_000, now + 10_000 - 10_000)
    trace.runtime("cudaDeviceSynchronize", now + 11_000, 5_000)
    return trace


def replay_trace(
    work: Sequence[Work] = STEP, steps: int = 3, mode: ExecutionMode = ExecutionMode.GRAPH
) -> TraceBuilder:
    """The traced pass: ``steps`` marked iterations, eager or as one graph launch each."""
    trace = TraceBuilder()
    trace.thread_name(MAIN_THREAD, f"thread {MAIN_THREAD} (python3)")
    now = 1_000
    for step in range(steps):
        run = _graph_step if mode.captures_graphs else _eager_step
        end = run(trace, work, now + 1_000)
        trace.runtime("cudaDeviceSynchronize", end - SYNC_NS, SYNC_NS - 500)
        trace.annotation(f"{STEP_MARK}{step}", now, end - now)
        now = end + STEP_GAP_NS
    return trace


def gpu_starts(work: Sequence[Work], first: int) -> list[int]:
    """Compute the start of each node in a replay from ``first``, after its dependencies."""
    starts: list[int] = []
    for index in range(len(work)):
        ends = [starts[i] + work[i].duration + NODE_GAP_NS for i in dependencies(work, index)]
        starts.append(max(ends, default=first))
    return starts


def make_run(
    experiment: Path,
    mode: ExecutionMode | str = ExecutionMode.GRAPH,
    *,
    name: str | None = None,
    work: Sequence[Work] = STEP,
    wall_ns: int | Sequence[int] | None = None,
    launch_cpu_ns: int | None = None,
    iterations: int = 21,
    traced: int = 3,
    workload: str = "toy",
    gpu: str = "NVIDIA H200",
    rank: int | None = None,
    failure: Failure | None = None,
    memory_pass: MemoryPass | None = None,
) -> Path:
    """Writes ``experiment/name`` (``name`` is the mode by default) and returns its path.

    ``wall_ns``: the clean step time's median, around which the steps spread by 1%, or every step.
    With ``failure`` the bundle holds nothing but its manifest, as of a capture that failed.
    """
    mode = ExecutionMode(mode)
    target = experiment / (name or mode.value)
    absent: tuple[Absent, ...] = ()
    with BundleWriter(target) as writer:
        if failure is None:
            wall, cpu = CLEAN_NS[mode]
            cpu = cpu if launch_cpu_ns is None else launch_cpu_ns
            walls = _spread(wall if wall_ns is None else wall_ns, iterations)
            graphed = mode.captures_graphs
            writer.add(parts.CLEAN, clean_timings(walls, cpu, len(work) if graphed else None))
            writer.add(parts.MEMORY, memory_use(graphed))
            if graphed:
                writer.add_graph(captured_graph(work))
                _add_trace(writer, FileRole.CAPTURE_TRACE, capture_trace(work), target)
            replay = replay_trace(work, traced, mode)
            _add_trace(writer, FileRole.REPLAY_TRACE, replay, target)
            if memory_pass is not None:
                writer.add(parts.MEMORY_PASS, memory_pass)
            iterations = len(walls)
        else:
            blame = f"the {failure.stage.value} pass failed"
            absent = tuple(
                Absent(
                    f"{kind.value} pass",
                    "it failed, see failures" if kind is failure.stage else blame,
                )
                for kind in (Pass.CLEAN, Pass.CAPTURE, Pass.TRACED, Pass.MEMORY)
            )
        info = WorkloadInfo(workload, f"tests:{workload}", 0, 11, iterations, traced)
        writer.commit(manifest(mode, info, gpu, rank, failure, absent))
    return target


def make_experiment(
    folder: Path,
    modes: Iterable[ExecutionMode | str] = (ExecutionMode.EAGER, ExecutionMode.GRAPH),
    *,
    work: Sequence[Work] = STEP,
    traced: int = 3,
    memory_pass: Mapping[str, MemoryPass] | None = None,
) -> Path:
    """Writes a run of each mode under ``folder``, which it returns; ``memory_pass`` by mode."""
    for mode in modes:
        found = (memory_pass or {}).get(ExecutionMode(mode).value)
        make_run(folder, mode, work=work, traced=traced, workload=folder.name, memory_pass=found)
    return folder


def manifest(
    mode: ExecutionMode,
    workload: WorkloadInfo,
    gpu: str = "NVIDIA H200",
    rank: int | None = None,
    failure: Failure | None = None,
    absent: tuple[Absent, ...] = (),
) -> Manifest:
    return Manifest(
        format="graphviz-dash-run",
        version=1,
        tool_version="0.1.0",
        created="2026-11-20T10:00:00+00:00",
        command=("graphviz-dash", "collect", "--workload", workload.name),
        workload=workload,
        mode=mode,
        rank=rank,
        status="complete" if failure is None else "failed",
        failures=() if failure is None else (failure,),
        absent=absent,
        environment=Environment(
            gpu=Gpu(gpu, (9, 0), 150_109_880_320, 132),
            gpu_count=1,
            driver="580.65.06",
            cuda_driver="13.0",
            cuda_runtime="13.0",
            cupti="13.0.85",
            torch="2.11.0+cu130",
            cuda_bindings="13.0.1",
            python="3.12.3",
            cpu="a processor",
            cpu_count=16,
            os="Linux 6.18",
        ),
        files=(),
    )


def clean_timings(walls: Sequence[int], launch_cpu_ns: int, nodes: int | None) -> CleanTimings:
    """clean.json with these steps; ``nodes`` None: no graph."""
    first = 2 * sorted(walls)[len(walls) // 2]
    life = (
        ()
        if nodes is None
        else (
            GraphLifecycle(
                "graph-0",
                nodes,
                LIFE_NS["capture"],
                LIFE_NS["instantiate"],
                LIFE_NS["upload"],
                launch_cpu_ns * 10,
                first,
            ),
        )
    )
    return CleanTimings(
        warmup_ns=9_000_000,
        steps=tuple(StepTiming(wall, launch_cpu_ns) for wall in walls),
        back_to_back_ns=tuple(wall - 3_000 for wall in walls),
        graphs=life,
    )


def memory_use(graphed: bool) -> MemoryUse:
    """memory.json; with a private pool when there is a graph."""
    pools = (PoolUse((1, 0), 3, POOL_BYTES, POOL_BYTES - 1024),) if graphed else ()
    reserved = (64 << 20) + (POOL_BYTES if graphed else 0)
    return MemoryUse(reserved - 4096, reserved, reserved - 8192, reserved, pools)


def _spread(wall: int | Sequence[int], iterations: int) -> list[int]:
    """Every step as given, or steps within 1% of a median that an odd count keeps exact."""
    if not isinstance(wall, int):
        return list(wall)
    offsets = itertools.cycle((0, wall // 100, -(wall // 100), wall // 200, -(wall // 200)))
    around = [wall + next(offsets) for _ in range(iterations - 1)]
    return [*around, wall] if iterations else []


def _add_trace(writer: BundleWriter, role: FileRole, trace: TraceBuilder, target: Path) -> None:
    source = target.parent / f".{target.name}.{role.value}.json.gz"
    writer.add_trace(role, trace.write(source))


def _op(trace: TraceBuilder, item: Work, start: int, duration: int, tid: int) -> int:
    """The operator of ``item``, under its autograd wrapper when it is a backward one."""
    if item.phase == "backward":
        name = f"{item.op.removeprefix('aten::')}Backward0"
        trace.op(
            f"autograd::engine::evaluate_function: {name}",
            start - 1_000,
            duration + 2_000,
            tid=tid,
            sequence=item.sequence,
            forward_thread=FORWARD_THREAD,
        )
        return trace.op(item.op, start, duration, tid=tid, dims=item.dims, types=item.types)
    return trace.op(
        item.op,
        start,
        duration,
        tid=tid,
        dims=item.dims,
        types=item.types,
        sequence=item.sequence,
    )


def _eager_step(trace: TraceBuilder, work: Sequence[Work], now: int) -> int:
    done: list[int] = []
    streams: dict[int, int] = {}
    for index, item in enumerate(work):
        tid = AUTOGRAD_THREAD if item.phase == "backward" else MAIN_THREAD
        external = _op(trace, item, now, 20_000, tid)
        call = now + 4_000
        correlation = trace.runtime(
            item.launch_call, call, LAUNCH_NS, external_id=external, tid=tid
        )
        ready = [done[i] for i in dependencies(work, index)]
        start = max(call + LATENCY_NS, streams.get(item.stream, 0), *ready)
        trace.work(item.on_gpu(start), correlation, external)
        streams[item.stream] = start + item.duration
        done.append(start + item.duration)
        now += OP_NS
    return max(now, *done) + SYNC_NS


def _graph_step(trace: TraceBuilder, work: Sequence[Work], now: int) -> int:
    starts = gpu_starts(work, now + LATENCY_NS)
    order = sorted(range(len(work)), key=starts.__getitem__)
    trace.graph_launch(now, LAUNCH_NS, [work[index].on_gpu(starts[index]) for index in order])
    return max(start + item.duration for start, item in zip(starts, work, strict=True)) + SYNC_NS
