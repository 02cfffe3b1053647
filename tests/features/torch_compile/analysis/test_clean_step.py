from __future__ import annotations

import pytest

from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm
from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.clean_step import (
    CpuPiece,
    GpuWork,
    LaunchedWork,
    drop_final_wait,
    fit_cpu_factor,
    get_first_node_latency_ns,
    simulate_step,
    split_cpu_pieces,
)
from graphviz_dash.features.torch_compile.analysis.fixed_step import (
    convert_to_graphs,
    merge_breaks,
    merge_compilations,
    merge_partitions,
    remove_copies,
)

US = 1_000.0
FIRST = get_first_node_latency_ns()
CALL, NODE = load_shipped_calibration().replay_cpu_ns


def cpu(part: StepPart, frame: str | None, us: float) -> CpuPiece:
    return CpuPiece(part, frame, us * US)


def graph(frame: str, us: float, traced_us: float = 50) -> CpuPiece:
    """A graph of a node whose launch the profiler makes long."""
    return CpuPiece(StepPart.LAUNCH, frame, traced_us * US, GpuWork(StepPart.REPLAY, us * US, 1))


def kernel(part: StepPart, frame: str | None, cpu_us: float, us: float) -> CpuPiece:
    return CpuPiece(part, frame, cpu_us * US, GpuWork(part, us * US, 1))


def host_copy(part: StepPart, frame: str | None, cpu_us: float, us: float) -> CpuPiece:
    return CpuPiece(part, frame, cpu_us * US, GpuWork(part, us * US, 1, is_host_copy=True))


WAIT = cpu(StepPart.WAIT, None, 2)
ENTRY = cpu(StepPart.GUARDS, "0/0", 10), cpu(StepPart.DISPATCH, "0/0", 10)


def test_a_launch_takes_what_it_takes_clean_and_the_end_waits_for_the_gpu() -> None:
    pieces = (*ENTRY, graph("0/0", 100), cpu(StepPart.PYTHON, None, 30), WAIT)
    assert simulate_step(pieces, 1.0) == pytest.approx(20 * US + FIRST + 100 * US + 2 * US)
    # Where the CPU is at it longer than the GPU, what the GPU does takes no time.
    long = (*ENTRY, graph("0/0", 10), cpu(StepPart.PYTHON, None, 30), WAIT)
    assert simulate_step(long, 1.0) == pytest.approx(52 * US + CALL + NODE)
    # Without a wait the next step begins, and the GPU is what steps wait for in the end.
    assert simulate_step(pieces[:-1], 0.5) == pytest.approx(100 * US)


def test_the_wait_for_the_trace_is_no_part_of_a_loop_that_runs_freely() -> None:
    end = cpu(StepPart.PYTHON, None, 3)
    assert drop_final_wait((*ENTRY, graph("0/0", 9), WAIT, end))[-2:] == [graph("0/0", 9), end]
    own = (*ENTRY, graph("0/0", 9), cpu(StepPart.WAIT, "0/0", 2), end)
    assert drop_final_wait(own) == own


def test_the_factor_makes_the_step_as_long_as_it_was() -> None:
    pieces = (*ENTRY, graph("0/0", 100), WAIT)
    assert fit_cpu_factor(pieces, 100 * US + FIRST + 11 * US) == pytest.approx(0.5)
    assert fit_cpu_factor(pieces, 50 * US) == pytest.approx(0, abs=1e-9)


def test_a_break_behind_which_the_gpu_is_still_at_work_saves_nothing() -> None:
    rest = cpu(StepPart.DISPATCH, "1/0", 20), graph("1/0", 5)
    pieces = (*ENTRY, graph("0/0", 100), cpu(StepPart.EAGER, "0/0", 9), *rest, WAIT)
    fixed = merge_breaks(pieces, ["0/0"], {"0/0", "1/0"}, {"1/0"})
    assert simulate_step(pieces, 1.0) == pytest.approx(simulate_step(fixed, 1.0))


def test_a_break_that_waits_for_the_gpu_costs_all_that_follows() -> None:
    read = host_copy(StepPart.EAGER, "0/0", 6, 1), cpu(StepPart.WAIT, "0/0", 4)
    rest = cpu(StepPart.GUARDS, "1/0", 5), cpu(StepPart.DISPATCH, "1/0", 20), graph("1/0", 5)
    pieces = (*ENTRY, graph("0/0", 100), *read, *rest, cpu(StepPart.PYTHON, None, 15), WAIT)
    fixed = merge_breaks(pieces, ["0/0"], {"0/0", "1/0"}, {"1/0"})
    # The copy, the wait, the rest's guards and dispatch; the end of the call is hidden now.
    saved = simulate_step(pieces, 1.0) - simulate_step(fixed, 1.0)
    assert saved == pytest.approx((1 + 4 + 5 + 20) * US + CALL + NODE + 15 * US - 5 * US)
    # Where the outer function has no graph of its own the rest's is the one that is left.
    alone = (ENTRY[0], *read, *rest, WAIT)
    kept = merge_breaks(alone, ["0/0"], {"0/0", "1/0"}, {"1/0"})
    assert [piece.part for piece in kept] == [
        StepPart.GUARDS,
        StepPart.DISPATCH,
        StepPart.LAUNCH,
        StepPart.WAIT,
    ]


def test_of_a_loop_over_parts_one_call_is_left() -> None:
    part = cpu(StepPart.GUARDS, "1/0", 5), cpu(StepPart.DISPATCH, "1/0", 20), graph("1/0", 10)
    rest = cpu(StepPart.GUARDS, "2/0", 4), cpu(StepPart.DISPATCH, "2/0", 20), graph("2/0", 1)
    call = *part, cpu(StepPart.EAGER, "1/0", 9), *rest
    pieces = (*call, *call, *call, WAIT)
    fixed = merge_breaks(pieces, ["0/0"], {"0/0", "1/0", "2/0"}, {"1/0", "2/0"})
    assert simulate_step(fixed, 1.0) == pytest.approx(25 * US + FIRST + 33 * US + 2 * US)
    assert sum(piece.launches_graph for piece in fixed) == 1


def test_guards_of_the_rest_come_before_the_whole_graph() -> None:
    rest = cpu(StepPart.GUARDS, "1/0", 76), cpu(StepPart.DISPATCH, "1/0", 90), graph("1/0", 200)
    pieces = (*ENTRY, graph("0/0", 300), *rest, WAIT)
    fixed = merge_breaks(pieces, ["0/0"], {"0/0", "1/0"}, {"1/0"})
    # While the first graph runs they are hidden: the one graph of all begins that much later.
    assert simulate_step(fixed, 1.0) - simulate_step(pieces, 1.0) == pytest.approx(60 * US)


def test_a_function_that_is_given_up_is_one_graph_with_the_operators_beside_its_parts() -> None:
    eager = kernel(StepPart.EAGER, None, 10, 7)
    calls = [
        piece
        for frame in ("2/0", "2/1")
        for piece in (
            cpu(StepPart.GUARDS, frame, 5),
            cpu(StepPart.DISPATCH, frame, 20),
            graph(frame, 10),
        )
    ]
    pieces = (cpu(StepPart.PYTHON, None, 3), eager, *calls, eager, WAIT)
    fixed = merge_compilations(pieces, {"2/0", "2/1"})
    assert simulate_step(fixed, 1.0) == pytest.approx(
        28 * US + FIRST + (7 + 10 + 10 + 7) * US + 2 * US
    )
    # What other compiled code does is not its own.
    other = (cpu(StepPart.GUARDS, "9/0", 5), graph("9/0", 1))
    assert merge_compilations((eager, *other, *calls, WAIT), {"2/0", "2/1"})[:3] == [eager, *other]


def test_the_parts_of_a_split_graph_are_one() -> None:
    between = cpu(StepPart.COMPILED, "0/0", 8), kernel(StepPart.COMPILED, "0/0", 5, 3)
    split = (*ENTRY, graph("0/0", 10), *between, cpu(StepPart.DISPATCH, "0/0", 12))
    pieces = (*split, graph("0/0", 20), cpu(StepPart.DISPATCH, "0/0", 4), WAIT)
    fixed = merge_partitions(pieces, "0/0")
    assert simulate_step(fixed, 1.0) == pytest.approx(20 * US + FIRST + 33 * US + 2 * US)
    # Work of the CPU in front of a copy from it goes with the copy.
    copied = cpu(StepPart.COPIES, "0/0", 2), host_copy(StepPart.COPIES, "0/0", 6, 1)
    pieces = (ENTRY[0], *ENTRY, *copied, ENTRY[1], graph("0/0", 10), WAIT)
    assert merge_partitions(pieces, "0/0") == [*ENTRY[:1], ENTRY[0], ENTRY[1], *pieces[-2:]]


def test_kernels_launched_separately_become_one_graph_per_call() -> None:
    call = (*ENTRY, *(kernel(StepPart.COMPILED, "0/0", 20, 2) for _ in range(5)))
    fixed = convert_to_graphs((*call, *call, WAIT), {"0/0"})
    graphs = [piece for piece in fixed if piece.launches_graph]
    gap = load_shipped_calibration().terms[ReplayTerm.KERNEL]
    assert [piece.work and piece.work.duration_ns for piece in graphs] == [5 * (2 * US + gap)] * 2


def test_inputs_that_are_not_copied_take_their_time_with_them() -> None:
    copy = kernel(StepPart.COPIES, "0/0", 5, 80)
    pieces = (*ENTRY, copy, graph("0/0", 10), WAIT)
    saved = simulate_step(pieces, 1.0) - simulate_step(remove_copies(pieces, "0/0", 1.0), 1.0)
    assert saved == pytest.approx(85 * US - FIRST)
    # Where a small one is left it is still to be launched.
    most = simulate_step(remove_copies(pieces, "0/0", 0.95), 1.0)
    assert simulate_step(pieces, 1.0) - most == pytest.approx(80 * US - FIRST)


def test_pieces_end_where_calls_and_waits_do() -> None:
    read = GpuWork(StepPart.EAGER, 4.0, 1, is_host_copy=True)
    launched = [
        LaunchedWork(10, 20, 60, GpuWork(StepPart.REPLAY, 35.0, 3)),
        LaunchedWork(30, 70, 66, read),
    ]
    python, eager, wait = StepPart.PYTHON, StepPart.EAGER, StepPart.WAIT
    spans = [
        (0, 10, python, None),
        (10, 15, StepPart.LAUNCH, "0/0"),
        (15, 20, StepPart.LAUNCH, "0/0"),
        (20, 30, eager, None),
        (30, 70, eager, None),
        (70, 75, wait, None),
        (75, 80, wait, None),
    ]
    pieces = split_cpu_pieces(spans, launched)
    assert [(piece.part, piece.duration_ns) for piece in pieces] == [
        (python, 10),
        (StepPart.LAUNCH, 10),
        (eager, 10),
        (eager, 4),
        (wait, 10),
    ]
    # The call that reads returns when the GPU is done.
    assert [piece.work.is_blocking for piece in pieces if piece.work] == [False, True]
