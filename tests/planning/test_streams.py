from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from graphviz_dash.model.parallel import Verdict
from graphviz_dash.planning.operations import (
    Operation,
    Piece,
    StreamCosts,
    compute_time_bounds,
    split_operations,
)
from graphviz_dash.planning.share import KernelLaunch, estimate_kernel_share, split_into_pieces
from graphviz_dash.planning.streams import explain_serial_plan, plan_streams, predict_replay_ns

COSTS = StreamCosts(same_stream_gap_ns=500, cross_stream_gap_ns=1500)


def chains(count: int, length: int, share: float = 0.1) -> list[Operation]:
    """Independent chains, one after another as a program calls them."""
    return [
        Operation(2000, share, (chain * length + at - 1,) if at else ())
        for chain in range(count)
        for at in range(length)
    ]


def lattice(layers: int, steps: int) -> list[Operation]:
    """Stacked recurrent cells: each needs its own state and the output of the layer below."""
    return [
        Operation(2000, 0.1, tuple([at - layers] * (at >= layers) + [at - 1] * (at % layers > 0)))
        for at in range(layers * steps)
    ]


def test_chains_take_a_stream_each() -> None:
    line, *_, four = plan_streams(chains(4, 10), 4, COSTS)
    assert line.schedule.total_ns == 40 * 2000 + 39 * 500
    assert four.schedule.total_ns == 10 * 2000 + 9 * 500
    assert four.stream_count == 4


def test_kernels_that_fill_the_gpu_gain_nothing_but_the_gaps() -> None:
    plan = plan_streams(chains(4, 10, share=1.0), 4, COSTS)[-1]
    assert plan.schedule.total_ns >= 40 * 2000
    assert plan.schedule.slowed_ns > 0


@pytest.mark.parametrize(
    ("operations", "verdict"),
    [
        (chains(1, 6), Verdict.CHAIN),
        (chains(4, 6, share=1.0), Verdict.FULL),
        (chains(2, 6), Verdict.NOISE),
    ],
)
def test_the_line_is_as_good_for_a_reason(operations: list[Operation], verdict: Verdict) -> None:
    # However far measured times of operators are from the measured line.
    for factor in (6, 20):
        longer = [replace(each, duration_ns=each.duration_ns * factor) for each in operations]
        assert explain_serial_plan(longer, COSTS) is verdict


def test_a_wavefront_runs_on_a_stream_for_each_layer() -> None:
    plan = plan_streams(lattice(4, 24), 4, COSTS)[-1]
    cells = 24 + 3
    assert plan.schedule.total_ns <= cells * (2000 + 500) + 3 * 1000


def test_one_chain_stays_on_one_stream() -> None:
    plan = plan_streams(chains(1, 12), 6, COSTS)[-1]
    assert plan.stream_count == 1
    assert set(plan.stream) == {0}


def test_an_operation_without_nodes_is_on_the_first_stream() -> None:
    operations = [Operation(2000, 0.1), Operation(0, 0, nodes=0), Operation(2000, 0.1)]
    plan = plan_streams(operations, 2, COSTS)[-1]
    assert plan.stream == (0, 0, 1)
    assert plan.schedule.total_ns == 2000


def test_kernels_of_one_operator_wait_for_others_each_by_itself() -> None:
    """Two operators of a kernel that fills the GPU and one that needs nothing of it: only the first
    two must take turns, though each operator as a whole fills the GPU by its largest kernel."""
    pieces = [[Piece(1.0, 1.0), Piece(3.0, 0.0)]] * 2 + [[], [Piece(1.0, 0.5)]]
    operations = [
        *[Operation(4500, 1.0, nodes=2)] * 2,
        Operation(0, 0, nodes=0),
        Operation(1000, 0.5, (0, 1)),
    ]
    parts, owners = split_operations(operations, pieces, COSTS.same_stream_gap_ns)
    assert owners == [0, 0, 1, 1, 2, 3]
    assert [part.duration_ns for part in parts] == [1000, 3000, 1000, 3000, 0, 1000]
    assert [part.dependencies for part in parts] == [(), (0,), (), (2,), (), (1, 3)]
    assert predict_replay_ns(parts, [0] * 6, COSTS) == 2 * 4500 + 1000 + 2 * 500
    apart = predict_replay_ns(parts, [0, 0, 1, 1, 0, 0], COSTS)
    assert apart == 2 * 1000 + 500 + 3000 + 1500 + 1000
    assert predict_replay_ns(operations, [0, 1, 0, 0], COSTS) == 2 * 4500 + 1500 + 1000


def test_a_share_is_told_from_the_launch() -> None:
    assert estimate_kernel_share("elementwise", 66, 448, 132, 14.0) == 0.5
    assert estimate_kernel_share("sgemm", 66, 160, 132, 14.0) == 0.5
    assert estimate_kernel_share("elementwise", 10_000, 32, 132, 14.0) == 1.0


def test_blocks_that_add_up_in_turns_ask_for_their_place() -> None:
    # Ten blocks fit a multiprocessor, and with those of a third of them its warps would be filled.
    product = KernelLaunch("sm80_xmma_gemm_f32f32", 660, 64, 102, 9984)
    (filling,) = split_into_pieces([product], 100_000, 132, (9, 0))
    counters, in_turns = split_into_pieces([None, product], 100_000, 132, (9, 0))
    assert (counters.share, in_turns.share) == (0.0, 0.5)
    assert filling.share > 0.9


@st.composite
def programs(draw: st.DrawFn) -> list[Operation]:
    count = draw(st.integers(1, 14))
    operations: list[Operation] = []
    for index in range(count):
        # What makes no node needs nothing and is needed by none.
        nodes = draw(st.sampled_from((1, 1, 1, 2, 0)))
        earlier = [at for at in range(index) if operations[at].nodes]
        after = draw(st.sets(st.sampled_from(earlier), max_size=3)) if earlier and nodes else ()
        duration = draw(st.integers(1, 5000)) if nodes else 0
        share = draw(st.sampled_from((0.05, 0.3, 1.0)))
        operations.append(Operation(duration, share, tuple(sorted(after)), nodes))
    return operations


@given(programs(), st.sampled_from((COSTS, StreamCosts(500, 1500, 300))))
def test_plans_keep_every_law(operations: list[Operation], costs: StreamCosts) -> None:
    plans = plan_streams(operations, 5, costs)
    totals = [plan.schedule.total_ns for plan in plans]
    assert all(later <= earlier for earlier, later in pairwise(totals))
    assert min(totals) >= compute_time_bounds(operations, costs).lower_bound_ns - 1e-6
    for most, plan in enumerate(plans, 1):
        assert plan.stream_count <= most
        for index, operation in enumerate(operations):
            begin = plan.schedule.start[index]
            for source in operation.dependencies:
                assert begin >= plan.schedule.end[source] + costs.same_stream_gap_ns - 1e-6
        # A stream runs one operation at a time, in the order of the program.
        for lane in range(plan.stream_count):
            mine = [
                at
                for at, stream in enumerate(plan.stream)
                if stream == lane and operations[at].nodes
            ]
            for ahead, behind in pairwise(mine):
                assert plan.schedule.start[behind] >= plan.schedule.end[ahead] - 1e-6


@given(programs())
def test_one_stream_is_the_line(operations: list[Operation]) -> None:
    (line,) = plan_streams(operations, 1, COSTS)
    issued = [operation for operation in operations if operation.nodes]
    work = sum(operation.duration_ns for operation in issued)
    assert line.schedule.total_ns == pytest.approx(work + max(len(issued) - 1, 0) * 500)


@given(programs(), st.integers(1, 3))
def test_an_operation_stays_on_the_streams_that_it_may_use(
    operations: list[Operation], wide: int
) -> None:
    bound = [
        replace(operation, max_streams=wide) if index % 3 == 0 else operation
        for index, operation in enumerate(operations)
    ]
    for plan in plan_streams(bound, 5, COSTS):
        used = {
            lane
            for operation, lane in zip(bound, plan.stream, strict=True)
            if operation.max_streams and operation.nodes
        }
        assert len(used) <= wide
