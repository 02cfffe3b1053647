from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.metrics.step_periods import UNKNOWN, compute_periods
from tests.loops import simulate_engine


def make_sizes(count: int, seed: int = 0) -> Ints:
    """Draw the sizes of steps."""
    return np.random.default_rng(seed).integers(0, 4, size=count)


def get_periods(begin: Ints, end: Ints, group: Ints) -> Ints:
    return compute_periods(begin, end, np.zeros(len(begin), dtype=np.int64), group).period_ns


def test_times_of_an_asynchronous_engine_are_those_of_the_gpu() -> None:
    sizes = make_sizes(300)
    launch, gpu = np.where(sizes == 3, 5_000_000, 1_000_000), 12_000_000 + 9_000_000 * sizes
    begin, end = simulate_engine(launch.tolist(), gpu.tolist())
    periods = compute_periods(begin, end, np.zeros(300, dtype=np.int64), sizes)
    # The first step finds an idle GPU, and the end of the last ones is unknown.
    assert periods.period_ns[1:-2].tolist() == gpu[1:-2].tolist()
    assert periods.is_gpu_bound[1:-2].all()
    assert periods.is_asynchronous
    assert periods.period_ns[-2:].tolist() == [UNKNOWN, UNKNOWN]
    assert not periods.is_gpu_bound[-2:].any()


def test_steps_around_a_pause_of_the_gpu_keep_their_time() -> None:
    sizes = make_sizes(300)
    gpu = 12_000_000 + 9_000_000 * sizes
    pauses = [40, 90, 140, 200, 280]
    begin, end = simulate_engine([1_000_000] * 300, gpu.tolist(), pauses=pauses)
    periods = compute_periods(begin, end, np.zeros(300, dtype=np.int64), sizes)
    period = periods.period_ns
    # The two steps before a pause share their time, and the first after it has its own.
    assert period[89] + period[90] == gpu[89] + gpu[90]
    assert period[91] == gpu[91]
    assert period[100:139].tolist() == gpu[100:139].tolist()
    assert not periods.is_gpu_bound[[39, 40, 41, 89, 90, 91]].any()
    assert period[:-2].sum() == begin[-1] - begin[0]


def test_steps_slower_on_the_cpu_keep_their_interval() -> None:
    sizes = make_sizes(400)
    # Eager steps of size 3 take the CPU longer than the GPU; graphs of the other sizes do not.
    launch = np.where(sizes == 3, 9_000_000, 500_000)
    gpu = np.where(sizes == 3, 3_000_000, 6_000_000 + 2_000_000 * sizes)
    begin, end = simulate_engine(launch.tolist(), gpu.tolist())
    period = get_periods(begin, end, sizes)
    is_settled = np.arange(400) < 398
    before_eager = np.append(sizes[1:] == 3, False)
    for size in range(3):
        rows = (sizes == size) & ~before_eager & is_settled
        assert np.median(period[rows]) == 6_000_000 + 2_000_000 * size
    assert np.median(period[(sizes == 3) & is_settled]) >= 9_000_000


def test_a_fast_gpu_changes_nothing() -> None:
    sizes = make_sizes(300)
    launch = 1_000_000 + 3_000_000 * sizes
    begin, end = simulate_engine(launch.tolist(), [400_000] * 300)
    assert get_periods(begin, end, sizes)[:-1].tolist() == np.diff(begin).tolist()


def test_a_program_that_waits_for_its_own_step_changes_nothing() -> None:
    sizes = make_sizes(300)
    durations = 5_000_000 + 4_000_000 * sizes
    begin = np.append(0, np.cumsum(durations)[:-1])
    # It waits after the call that was recorded.
    sequence = np.zeros(300, dtype=np.int64)
    periods = compute_periods(begin, begin + 500_000, sequence, sizes)
    assert periods.period_ns[:-1].tolist() == durations[:-1].tolist()
    assert periods.period_ns[-1] == UNKNOWN
    assert not periods.is_asynchronous
    # Known as GPU times are long waits of repeated steps; others may contain work of the CPU.
    is_repeated = np.append(False, sizes[1:] == sizes[:-1])
    assert is_repeated.sum() > 40
    expected = is_repeated & (sizes >= 2) & (np.arange(300) < 299)
    assert periods.is_gpu_bound.tolist() == expected.tolist()


def test_few_steps_change_nothing() -> None:
    sizes = make_sizes(40)
    begin, end = simulate_engine([1_000_000] * 40, (12_000_000 + 9_000_000 * sizes).tolist())
    assert get_periods(begin, end, sizes)[:-1].tolist() == np.diff(begin).tolist()


def test_sequences_are_separate() -> None:
    sizes = make_sizes(200)
    gpu = 12_000_000 + 9_000_000 * sizes
    begin, end = simulate_engine([1_000_000] * 200, gpu.tolist())
    alone = compute_periods(begin, end, np.zeros(200, dtype=np.int64), sizes)
    rows = np.arange(400) // 2
    sequence = np.arange(400) % 2
    both = compute_periods(begin[rows] + sequence, end[rows] + sequence, sequence, sizes[rows])
    for number in range(2):
        assert both.period_ns[sequence == number].tolist() == alone.period_ns.tolist()
    unused = compute_periods(begin, end, np.full(200, -1), sizes)
    assert set(unused.period_ns.tolist()) == {UNKNOWN}


@given(
    st.lists(
        st.tuples(st.integers(1, 20), st.integers(1, 60), st.integers(0, 3), st.booleans()),
        max_size=150,
    )
)
def test_the_sum_of_times_is_that_of_the_intervals(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    launch, gpu, group = (
        np.array([step[place] for step in steps], dtype=np.int64) for place in range(3)
    )
    pauses = [number for number, step in enumerate(steps) if step[3]]
    begin, end = simulate_engine(
        (launch * 500_000).tolist(), (gpu * 500_000).tolist(), pauses=pauses
    )
    periods = compute_periods(begin, end, np.zeros(len(steps), dtype=np.int64), group)
    known = periods.period_ns != UNKNOWN
    # Only the last steps are unknown.
    assert known[: max(len(steps) - 2, 0)].all()
    if known.any():
        last = int(np.flatnonzero(known)[-1])
        total = int(periods.period_ns[known].sum())
        assert total in {
            begin[last + 1] - begin[0],
            begin[min(last + 2, len(steps) - 1)] - begin[0],
        }
    assert (periods.period_ns[known] >= 0).all()
