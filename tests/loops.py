"""Recorded programs with many graphs, of known truth: a server with a graph for each batch size,
and a training step of segments with eager work between.

    run = make_server(tmp_path / "service", sizes=(1, 2, 4, 8))     # service/recorded
    run = make_segmented(tmp_path / "training", segments=4)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.model.loop import (
    SAMPLING_INTERVAL,
    FamilyMember,
    GraphCost,
    GraphFamily,
    KeyMethod,
    LoopSteps,
    Phase,
    ProgramLoop,
    SizeMethod,
    StepKind,
)
from graphviz_dash.model.recording import (
    BoundaryKind,
    ProcessOrigin,
    RecordedGraph,
    Recording,
    StartMethod,
)
from graphviz_dash.model.run import ExecutionMode, WorkloadInfo
from tests.experiments import Work, captured_graph, manifest

SIZES = (1, 2, 4, 8, 16, 32)
LAUNCH_NS = 9_000
EAGER_NS = 4_000_000
"""Duration of a fallback, and of the eager forward before a capture."""

HOST_NS = 1_000_000
"""Time of a simulated engine between two steps."""


def replay_ns(size: int) -> int:
    """GPU time of the server's graph of ``size``: a constant and a slope, so that answers can be
    worked out by hand."""
    return 300_000 + 10_000 * size


def layer_work(nodes: int, size: int) -> tuple[Work, ...]:
    """A line of kernels whose grids follow the size; from 16 on another GEMM is chosen."""
    gemm = "void small_gemm<float>(float*)" if size < 16 else "void tall_gemm<float>(float*)"
    names = (gemm, "void add<float>(float*)", "void gelu<float>(float*)")
    return tuple(
        Work(names[i % 3], 1_000, "aten::op", f"model.py:{10 + i % 3}", grid=(size, 1 + i % 3, 1))
        for i in range(nodes)
    )


@dataclass
class Steps:
    rows: list[dict[str, Any]] = field(default_factory=list)
    now: int = 1_000_000
    """When the next step begins."""

    def add(self, took: int, between: int, **facts: Any) -> None:
        """A step that took ``took`` ns until its last call returned, and ``between`` ns later the
        next one begins."""
        self.rows.append({"start_ns": self.now, "end_ns": self.now + took, "thread": 0, **facts})
        self.now += took + between

    def columns(self) -> LoopSteps:
        """Return the table; missing values are None."""
        names = LoopSteps.__struct_fields__
        return LoopSteps(*(tuple(row.get(name) for row in self.rows) for name in names))


def simulate_engine(
    launch_ns: Sequence[int], gpu_ns: Sequence[int], *, pauses: Sequence[int] = ()
) -> tuple[Ints, Ints]:
    """Simulate an engine that starts a step while the GPU executes the previous one.

    Returns the starts and returns of the steps. After steps of ``pauses``, the engine has no
    requests until the GPU has executed everything.
    """
    now = gpu_end = 0
    begin, end = [], []
    for number, (launch, gpu) in enumerate(zip(launch_ns, gpu_ns, strict=True)):
        begin.append(now)
        end.append(now + launch)
        previous_end, gpu_end = gpu_end, max(gpu_end, now) + gpu
        now = max(now + launch + HOST_NS, gpu_end if number in pauses else previous_end)
    return np.array(begin), np.array(end)


def traffic(steps: int, ceiling: int, seed: int = 0) -> tuple[int, ...]:
    """Sizes of requests, most of them small; deterministic."""
    draw = random.Random(seed)
    return tuple(min(ceiling, 1 + int(draw.expovariate(3 / ceiling))) for _ in range(steps))


def make_server(
    experiment: Path,
    name: str = "recorded",
    *,
    sizes: Sequence[int] = SIZES,
    requests: Sequence[int] | None = None,
    nodes: int = 6,
    gpu_ns: Callable[[int], int] = replay_ns,
    method: KeyMethod | None = KeyMethod.LABEL,
    first_ns: int = 0,
    profiler: tuple[int, int] | None = None,
    engine: str | None = None,
) -> Path:
    """A run of a server with a graph for each of ``sizes``, the largest captured first.

    Args:
        experiment: its folder.
        name: the run's name.
        sizes: the ladder; a request is padded to the next size, above the largest it runs eagerly.
        requests: the real size of each step; 400 by :func:`traffic` unless given.
        nodes: of each graph.
        gpu_ns: GPU time of a replay by size.
        method: how keys are known; None: they are not, and neither are real sizes.
        first_ns: what the first replay of each graph, and the first eager step of each real size,
            take besides.
        profiler: how many of the last steps are profiled, and how long it takes to start.
        engine: the engine that tells the steps.
    """
    ladder = sorted(sizes, reverse=True)
    asked = traffic(400, max(sizes)) if requests is None else tuple(requests)
    steps = Steps()
    for place in range(len(ladder)):
        facts = {"kind": StepKind.CAPTURE, "family": 0, "member": place}
        steps.add(EAGER_NS, 100_000, **facts)
    counts = [0] * len(ladder)
    seen: set[int] = set()
    for number, real in enumerate(asked):
        if profiler is not None and number == len(asked) - profiler[0]:
            steps.now += profiler[1]
        known = {} if method is None else {"real_size": real, "size_method": SizeMethod.LABEL}
        facts = {"family": 0, "phase": Phase.DECODE, **known}
        padded = min((size for size in sizes if size >= real), default=None)
        late_ns = 0 if (padded or real) in seen else first_ns
        seen.add(padded or real)
        if padded is None:
            steps.add(EAGER_NS + late_ns, 50_000, kind=StepKind.FALLBACK, **facts)
            continue
        place = ladder.index(padded)
        counts[place] += 1
        if counts[place] % SAMPLING_INTERVAL == 2:
            facts["gpu_ns"] = gpu_ns(padded)
        if method is not None:
            facts["padded_size"] = padded
        steps.add(
            40_000 + late_ns,
            gpu_ns(padded) + 10_000,
            kind=StepKind.REPLAY,
            member=place,
            launch_ns=LAUNCH_NS,
            **facts,
        )
    family = GraphFamily(
        name="decode",
        captured_at=("server.py:42", "server.py:80"),
        axes=() if method is None else ("batch",),
        size_axis=None if method is None else 0,
        module="Decoder",
        members=tuple(
            FamilyMember(None if method is None else (size,), method, (f"graph-{place}",))
            for place, size in enumerate(ladder)
        ),
    )
    costs = tuple(
        graph_cost(place, nodes, counts[place], gpu_ns(size), first=place == 0)
        for place, size in enumerate(ladder)
    )
    clean = len(steps.rows) - (0 if profiler is None else profiler[0])
    loop = ProgramLoop((family,), costs, steps.columns(), len(steps.rows), clean, (), engine)
    works = [layer_work(nodes, size) for size in ladder]
    return write_loop(experiment, name, loop, works, counts)


def make_segmented(
    experiment: Path,
    name: str = "recorded",
    *,
    segments: int = 4,
    repeats: int = 2,
    steps: int = 50,
    nodes: int = 5,
) -> Path:
    """A run of a training step of ``segments`` graphs replayed in order, ``repeats`` times."""
    order = tuple(f"graph-{i}" for i in range(segments)) * repeats
    rows = Steps()
    for number in range(steps):
        sampled = number % SAMPLING_INTERVAL == 2
        rows.add(
            len(order) * 30_000,
            200_000,
            kind=StepKind.SEGMENTS,
            family=0,
            member=0,
            launch_ns=len(order) * LAUNCH_NS,
            gpu_ns=len(order) * 50_000 if sampled else None,
        )
    family = GraphFamily(
        name="create_fwd_graph",
        captured_at=("cuda_graphs.py:1305", "train.py:30"),
        axes=(),
        size_axis=None,
        module="TransformerLayer",
        members=(FamilyMember(None, None, order),),
    )
    costs = tuple(
        graph_cost(i, nodes, steps * repeats, 50_000, first=i == 0) for i in range(segments)
    )
    loop = ProgramLoop((family,), costs, rows.columns(), steps, steps, ())
    works = [layer_work(nodes, 4 + i) for i in range(segments)]
    return write_loop(experiment, name, loop, works, [steps * repeats] * segments)


def graph_cost(place: int, nodes: int, replays: int, gpu_ns: int, *, first: bool) -> GraphCost:
    """Compute the cost of graph ``place``: 10 us and 3 kB per node; the pool grows at the first."""
    samples = len(range(2, replays + 1, SAMPLING_INTERVAL))
    return GraphCost(
        graph=f"graph-{place}",
        instantiate_ns=10_000 * nodes,
        first_launch_ns=40_000 if replays else None,
        launch_ns=(LAUNCH_NS,) * min(max(replays - 1, 0), 64),
        gpu_ns=tuple(gpu_ns + i % 3 * 1_000 for i in range(samples)),
        pool=(0, 1),
        pool_growth_bytes=64 << 20 if first else 0,
        exclusive_bytes=1 << 20,
        driver_bytes=3_072 * nodes,
    )


def write_loop(
    experiment: Path,
    name: str,
    loop: ProgramLoop,
    works: Sequence[Sequence[Work]],
    replays: Sequence[int],
    process: ProcessOrigin | None = None,
) -> Path:
    """Writes a run of ``loop`` whose graph-i holds ``works[i]``, replayed ``replays[i]`` times."""
    info = WorkloadInfo("server.py", "server.py", None, 30, 0, 0)
    origin = process or ProcessOrigin("MainProcess", StartMethod.PROGRAM, 100, 99, None)
    places = loop.families[0].captured_at
    recording = Recording(
        boundary_kind=BoundaryKind.REPLAYS,
        boundary="any graph of a family",
        skip_steps=30,
        requested_window_steps=10,
        steps=loop.step_count,
        step_ns=(),
        final_wait_ns=None,
        window_steps=0,
        window_missing_reason="no traced window was asked for",
        profiler_active=False,
        earlier_replays=0,
        graphs=tuple(
            RecordedGraph(
                f"graph-{i}", places, 20_000_000, i, len(work), replays[i], 0, False, True
            )
            for i, work in enumerate(works)
        ),
        exit_code=0,
        process=origin,
    )
    with BundleWriter(experiment / name) as writer:
        writer.add(parts.RECORDING, recording)
        writer.add(parts.LOOP, loop)
        for i, work in enumerate(works):
            writer.add_graph(captured_graph(work, f"graph-{i}"))
        writer.commit(manifest(ExecutionMode.RECORDED, info))
    return experiment / name
