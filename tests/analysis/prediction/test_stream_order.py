from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.analysis.prediction.eager_step import EagerStep, build_eager_step
from graphviz_dash.analysis.prediction.replay_model import find_item_dependencies
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.marks import STEP
from graphviz_dash.planning.operations import Operation
from graphviz_dash.planning.simulation import simulate
from tests.trace_builder import TraceBuilder

MAIN, COLLECTIVES = 7, 14
START_NS = 5_000


@dataclass
class Program:
    """A step with known order: one launch per 10 µs, run as soon as its stream and waits permit."""

    trace: TraceBuilder = field(default_factory=TraceBuilder)
    records: bool = True
    at: int = 1_000
    durations: list[int] = field(default_factory=list)
    waits: list[list[int]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    newest: dict[int, int] = field(default_factory=dict)
    pending: dict[int, list[int]] = field(default_factory=dict)

    def wait(self, waiting: int, source: int, op: bool = False) -> None:
        """``waiting`` waits for what ``source`` has been given so far."""
        if op:
            self.trace.op("c10d::allreduce_", self.at, 4_000)
        if self.records:
            self.trace.runtime("cudaEventRecord", self.at + 500, 500)
        self.trace.runtime("cudaStreamWaitEvent", self.at + 2_000, 500)
        self.at += 5_000
        if source in self.newest:
            self.pending.setdefault(waiting, []).append(self.newest[source])

    def launch(self, stream: int, duration: int, name: str = "") -> None:
        # What looks alike takes as long.
        name = name or f"gemm_{duration}"
        waits = self.pending.pop(stream, [])
        if stream in self.newest:
            waits.append(self.newest[stream])
        begin = max([self.at + 4_000 + START_NS, *(self.ends[item] + 1_000 for item in waits)])
        correlation = self.trace.runtime("cudaLaunchKernel", self.at, 4_000)
        self.trace.kernel(name, begin, duration, correlation=correlation, stream=stream)
        self.newest[stream] = len(self.durations)
        self.durations.append(duration)
        self.waits.append(waits)
        self.ends.append(begin + duration)
        self.at += 10_000

    def collective(self, duration: int) -> None:
        """As a process group does: its stream waits for the main one, which waits for it."""
        self.wait(COLLECTIVES, MAIN, op=True)
        self.launch(COLLECTIVES, duration, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
        self.wait(MAIN, COLLECTIVES, op=True)

    def fork_join(self, branches: Sequence[Sequence[int]]) -> None:
        for number, branch in enumerate(branches):
            self.wait(20 + number, MAIN)
            for duration in branch:
                self.launch(20 + number, duration)
        for number in range(len(branches)):
            self.wait(MAIN, 20 + number)

    def least_ns(self) -> int:
        """Duration of the longest path through the step."""
        ends: list[int] = []
        for duration, waits in zip(self.durations, self.waits, strict=True):
            ends.append(duration + max((ends[item] for item in waits), default=0))
        return max(ends)

    def step(self, folder: Path) -> EagerStep:
        end = max([self.at, *self.ends]) + 1_000
        self.trace.annotation(f"{STEP}0", 0, end)
        step = build_eager_step(read_trace(self.trace.write(folder / "trace.json")))
        assert isinstance(step, EagerStep), step
        return step


def scheduled_ns(step: EagerStep) -> float:
    """Duration of the step without gaps between nodes on an unlimited GPU."""
    operations = [Operation(float(alone), 0.0) for alone in step.exclusive_duration]
    order = [[(source, 0.0) for source in set(sources)] for sources in find_item_dependencies(step)]
    return simulate(operations, order).total_ns


def collectives_program(records: bool) -> Program:
    program = Program(records=records)
    for _ in range(4):
        program.launch(MAIN, 50_000)
        program.collective(30_000)
    program.launch(MAIN, 50_000)
    return program


class TestCollectives:
    def test_they_keep_their_place_between_kernels(self, tmp_path: Path) -> None:
        program = collectives_program(records=True)
        assert scheduled_ns(program.step(tmp_path)) == program.least_ns() == 370_000

    def test_also_where_the_trace_has_no_records_of_events(self, tmp_path: Path) -> None:
        program = collectives_program(records=False)
        assert scheduled_ns(program.step(tmp_path)) == program.least_ns()

    def test_kernels_behind_a_waiting_kernel_do_not_wait_again(self, tmp_path: Path) -> None:
        program = Program()
        program.launch(MAIN, 50_000)
        program.collective(30_000)
        for _ in range(3):
            program.launch(MAIN, 50_000)
        after = program.step(tmp_path).predecessors
        assert after[2:] == ((1,), (), ())


def test_streams_that_no_wait_orders_keep_the_order_in_which_they_ran(tmp_path: Path) -> None:
    program = Program()
    program.launch(MAIN, 5_000)
    program.launch(20, 40_000)
    program.launch(MAIN, 40_000)
    program.launch(20, 5_000)
    # The second kernel on the main stream ran beside the first on the other, which is allowed.
    assert program.step(tmp_path).predecessors == ((), (0,), (), (0,))


def test_a_kernel_that_starts_after_another_stream_waited_for_it(tmp_path: Path) -> None:
    program = Program()
    program.launch(MAIN, 200_000)
    program.launch(20, 1_000)
    # A library's wait that no record tells of: inside an operator, behind work of the same stream.
    program.trace.op("library::call", program.at, 8_000)
    program.trace.runtime("cudaStreamWaitEvent", program.at + 1_000, 500)
    program.at += 10_000
    program.pending[20] = [0]
    program.launch(20, 30_000)
    assert 0 in program.step(tmp_path).predecessors[2]


BLOCKS = st.one_of(
    st.integers(1_000, 90_000),
    st.tuples(st.integers(1_000, 90_000)),
    st.lists(st.lists(st.integers(1_000, 90_000), min_size=1, max_size=3), min_size=2, max_size=3),
)
"""A kernel on the main stream, a collective, or branches on separate streams."""


@settings(max_examples=25, deadline=None)
@given(blocks=st.lists(BLOCKS, min_size=2, max_size=6), records=st.booleans())
def test_never_less_than_what_must_be_done_in_its_order(
    blocks: list[int | tuple[int] | list[list[int]]],
    records: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    program = Program(records=records)
    program.launch(MAIN, 2_000)
    for block in blocks:
        match block:
            case int():
                program.launch(MAIN, block)
            case tuple():
                program.collective(*block)
            case list():
                program.fork_join(block)
                program.launch(MAIN, 2_000)
    program.launch(MAIN, 2_000)
    folder = tmp_path_factory.mktemp("program")
    assert scheduled_ns(program.step(folder)) >= program.least_ns()
