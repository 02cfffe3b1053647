"""Experiments of several ranks of known truth: what each rank computes before each all-reduce is
given, and with it who arrives when, who waits how long, and when all are done.

    make_ranks(tmp_path / "tp", "graph", TRUTH)          # tp/graph-rank0 and tp/graph-rank1
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.model.marks import STEP as STEP_MARK
from graphviz_dash.model.run import ExecutionMode, FileRole, RankGroup, WorkloadInfo
from tests.experiments import (
    GEMM,
    Work,
    capture_trace,
    captured_graph,
    clean_timings,
    manifest,
    memory_use,
)
from tests.trace_builder import GpuWork, TraceBuilder

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
BASE_NS = 1_790_857_026_000_000_000
LAUNCH_NS = 2_000
STEP_NS = 400_000


class Truth(Struct, frozen=True):
    """``compute[rank][place]`` is the work before each collective of a step, ``idle`` the GPU idle
    time before that work. ``aside``: duration of work on another stream from each arrival on.
    ``clock[rank]``: offset of the rank's clock. ``begin[rank]``: delay of the CPU at the start of a
    step. All in ns.
    """

    compute: tuple[tuple[int, ...], ...]
    transfer: int = 8_000
    idle: tuple[tuple[int, ...], ...] | None = None
    clock: tuple[int, ...] = ()
    aside: int = 0
    begin: tuple[int, ...] = ()
    steps: int = 4
    collective: str = ALL_REDUCE

    @property
    def ranks(self) -> int:
        return len(self.compute)

    def schedule(self) -> list[list[list[tuple[int, int, int, int]]]]:
        """For each step, rank and collective: begin of the work, its end, arrival at the
        collective (the same), and its end; true times in ns since the step's begin."""
        now = [0] * self.ranks
        rows: list[list[tuple[int, int, int, int]]] = [[] for _ in range(self.ranks)]
        for place in range(len(self.compute[0])):
            idle = [row[place] for row in self.idle] if self.idle else [0] * self.ranks
            begins = [now[rank] + idle[rank] for rank in range(self.ranks)]
            ends = [begins[rank] + self.compute[rank][place] for rank in range(self.ranks)]
            done = max(ends) + self.transfer
            for rank in range(self.ranks):
                rows[rank].append((begins[rank], ends[rank], ends[rank], done))
            now = [done] * self.ranks
        return [rows for _ in range(self.steps)]


SLOW_RANK_1 = Truth(
    compute=((20_000, 20_000, 20_000), (20_000, 23_000, 25_000)), clock=(0, 150_000)
)
"""Rank 1 works longer before the second and the third all-reduce; its clock is 150 µs ahead."""


def work_of(truth: Truth) -> tuple[Work, ...]:
    """Return the step as nodes: a product and a collective per place, in separate modules."""
    items = []
    for place in range(len(truth.compute[0])):
        items.append(
            Work(
                GEMM,
                truth.compute[0][place],
                "aten::mm",
                f"model.py:{10 + place}",
                module=f"Net.layers.{place}",
                sequence=2 * place,
            )
        )
        items.append(
            Work(
                truth.collective,
                truth.transfer,
                "c10d::allreduce_",
                f"parallel.py:{30 + place}",
                grid=(24, 1, 1),
                block=(512, 1, 1),
                module=f"Net.layers.{place}",
                sequence=2 * place + 1,
            )
        )
    return tuple(items)


def rank_trace(truth: Truth, rank: int, mode: ExecutionMode) -> TraceBuilder:
    """The traced pass of one rank, by its own clock."""
    trace = TraceBuilder(base_ns=BASE_NS, offset_ns=truth.clock[rank] if truth.clock else 0)
    work = work_of(truth)
    for step, rows in enumerate(truth.schedule()):
        origin = 10_000 + step * STEP_NS
        slices: list[GpuWork] = []
        for place, (begin, end, arrival, done) in enumerate(rows[rank]):
            product, collective = work[2 * place : 2 * place + 2]
            first = origin + 5_000
            slices.append(replace(product.on_gpu(first + begin), duration=end - begin))
            slices.append(replace(collective.on_gpu(first + arrival), duration=done - arrival))
            if truth.aside:
                other = GpuWork("void aside(float*)", first + arrival, truth.aside, stream=9)
                slices.insert(-1, other)
        if mode is ExecutionMode.EAGER:
            for slice_, item in zip(slices, work, strict=True):
                external = trace.op(item.op, slice_.start - 4_500, 2_500)
                call = trace.runtime(
                    "cudaLaunchKernel", slice_.start - 4_000, LAUNCH_NS, external_id=external
                )
                trace.work(slice_, call, external)
        else:
            trace.graph_launch(origin + 2_500, LAUNCH_NS, slices)
        last = slices[-1].start + slices[-1].duration
        trace.runtime("cudaDeviceSynchronize", last, 1_000)
        begin = origin - 1_000 + (truth.begin[rank] if truth.begin else 0)
        trace.annotation(f"{STEP_MARK}{step}", begin, last + 2_000 - begin)
    return trace


def make_ranks(
    folder: Path,
    mode: ExecutionMode | str,
    truth: Truth = SLOW_RANK_1,
    *,
    walls: Sequence[int] | None = None,
    only: Sequence[int] | None = None,
) -> list[Path]:
    """Writes a bundle for each rank (or those in ``only``); ``walls`` are clean step times."""
    mode = ExecutionMode(mode)
    graphed = mode is not ExecutionMode.EAGER
    found = []
    for rank in range(truth.ranks) if only is None else only:
        target = folder / f"{mode.value}-rank{rank}"
        wall = walls[rank] if walls else (110_000 if graphed else 420_000) + 500 * rank
        scratch = folder / f".{mode.value}-{rank}"
        work = work_of(truth)
        with BundleWriter(target) as writer:
            timings = [wall + offset for offset in (-200, -100, 0, 100, 200)] * 9
            writer.add(parts.CLEAN, clean_timings(timings, 9_000, len(work) if graphed else None))
            writer.add(parts.MEMORY, memory_use(graphed))
            if graphed:
                writer.add_graph(captured_graph(work))
                capture = capture_trace(work).write(scratch / "capture.json.gz")
                writer.add_trace(FileRole.CAPTURE_TRACE, capture)
            replay = rank_trace(truth, rank, mode).write(scratch / "replay.json.gz")
            writer.add_trace(FileRole.REPLAY_TRACE, replay)
            scratch.rmdir()
            info = WorkloadInfo("tp", "tests:tp", 0, 11, len(timings), truth.steps)
            writer.commit(
                msgspec.structs.replace(
                    manifest(mode, info, rank=rank),
                    version=2,
                    group=RankGroup(truth.ranks, rank, {"NCCL_NVLS_ENABLE": "0"}),
                )
            )
        found.append(target)
    return found
