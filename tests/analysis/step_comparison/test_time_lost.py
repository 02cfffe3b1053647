from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.step_comparison.time_lost import TimeLost, TracedStep, compute_time_lost
from graphviz_dash.analysis.step_comparison.work_pairs import PairKind, PairRow, WorkPairs
from graphviz_dash.analysis.trace.steps import find_steps
from tests.charts.frames import call, kernel, step, trace

Slices = list[tuple[int, int]]


def _side(slices: Slices, length: int, begin: int = 0, streams: int = 1) -> TracedStep:
    rows = [
        kernel(begin + start, end - start, stream=place % streams, correlation=place + 1)
        for place, (start, end) in enumerate(slices)
    ]
    calls = [call(begin + place, 1, correlation=place + 1) for place in range(len(slices))]
    made = trace(rows, calls, [step(0, begin, length)])
    return TracedStep(made, find_steps(made)[0], np.arange(len(slices), dtype=np.int64))


def _pairs(*rows: tuple[tuple[int, ...], tuple[int, ...]]) -> WorkPairs:
    made = tuple(
        PairRow(PairKind.SAME if one and other else PairKind.ADDED, one, other, "order", 1.0)
        for one, other in rows
    )
    return WorkPairs(cast(Any, None), cast(Any, None), made)


def _lead(first: TracedStep, second: TracedStep) -> TimeLost:
    count = len(first.rows)
    return compute_time_lost(
        _pairs(*(((place,), (place,)) for place in range(count))), first, second
    )


def test_a_step_by_hand() -> None:
    first = _side([(100, 200), (400, 500), (900, 1000)], 1200, begin=5_000)
    second = _side([(50, 150), (150, 230), (230, 330)], 400, begin=77_000)
    lead = _lead(first, second)
    assert lead.times.tolist() == [0, 200, 500, 1000, 1200]
    assert lead.other_times.tolist() == [0, 150, 230, 330, 400]
    assert lead.busy.tolist() == [0, 0, 20, 20, 20]
    assert lead.idle.tolist() == [0, 50, 250, 650, 780]
    # Lost while idle: within the idle time before a kernel; lost at work: within the kernel.
    idle, busy, waiting = lead.interpolate_losses(np.array([-50, 50, 100, 150, 300, 450, 1300]))
    assert not waiting.any()
    assert idle.tolist() == [0, 25, 50, 50, 150, 250, 780]
    assert busy.tolist() == [0, 0, 0, 0, 0, 10, 20]
    assert lead.methods == {"order": 3}
    assert lead.unpaired_counts == (0, 0)


def test_a_run_that_is_faster_gains() -> None:
    quick = _side([(10, 20), (20, 40)], 50)
    slow = _side([(30, 70), (100, 160)], 200)
    forth, back = _lead(slow, quick), _lead(quick, slow)
    assert int(forth.idle[-1] + forth.busy[-1]) == 150
    assert int(back.idle[-1] + back.busy[-1]) == -150
    assert int(forth.busy[-1]) == 70 == -int(back.busy[-1])


def test_waiting_for_other_ranks_is_no_work() -> None:
    # A collective of 300 ns, of which it waits 260, against one that waits 10 of 50.
    early = replace(_side([(0, 100), (100, 400)], 400), wait_ns=np.array([0, 260]))
    late = replace(_side([(0, 100), (150, 200)], 200), wait_ns=np.array([0, 10]))
    lead = _lead(early, late)
    last = (int(each[-1]) for each in (lead.idle, lead.busy, lead.waiting))
    assert tuple(last) == (-50, 0, 250)
    idle, busy, waiting = lead.interpolate_losses(np.array([100, 230, 360, 400]))
    assert (idle + busy + waiting)[-1] == 200
    assert waiting.tolist() == [0, 125, 250, 250]


def test_work_of_only_one_run_is_busy_time() -> None:
    first = _side([(0, 10), (10, 60), (60, 70)], 70)
    second = _side([(0, 10), (10, 20)], 20)
    lead = compute_time_lost(_pairs(((0,), (0,)), ((1,), ()), ((2,), (1,))), first, second)
    assert (int(lead.idle[-1]), int(lead.busy[-1])) == (0, 50)
    assert lead.unpaired_counts == (1, 0)


def test_nothing_in_common_still_adds_up() -> None:
    lead = compute_time_lost(_pairs(((0,), ())), _side([(5, 9)], 30), _side([(1, 2)], 10))
    assert lead.times.tolist() == [0, 30]
    assert (int(lead.idle[-1]), int(lead.busy[-1])) == (17, 3)


@pytest.mark.parametrize("seed", range(12))
def test_against_counting_each_nanosecond(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 30))
    sides = []
    for streams in (3, 2):
        start = np.sort(random.integers(0, 900, count))
        end = start + random.integers(1, 80, count)
        length = int(end.max() + random.integers(0, 50))
        slices = list(zip(start.tolist(), end.tolist(), strict=True))
        sides.append((_side(slices, length, streams=streams), slices, length))
    (first, own, length), (second, others, other_length) = sides
    lead = _lead(first, second)

    assert np.array_equal(lead.idle + lead.busy, lead.times - lead.other_times)
    assert int(lead.times[-1] - lead.other_times[-1]) == length - other_length
    for place, (at, other) in enumerate(
        zip(lead.times.tolist(), lead.other_times.tolist(), strict=True)
    ):
        if 0 < place < count + 1:
            done = [
                other_end for (_, end), (_, other_end) in zip(own, others, strict=True) if end <= at
            ]
            assert other == max(done)
        assert int(lead.busy[place]) == _worked(own, at) - _worked(others, other)
    # Between two instants nothing of either loss goes astray.
    idle, busy, _ = lead.interpolate_losses(np.arange(length + 1))
    last = {at: place for place, at in enumerate(lead.times.tolist())}
    for at, place in last.items():
        assert (int(idle[at]), int(busy[at])) == (int(lead.idle[place]), int(lead.busy[place]))


def _worked(slices: Slices, until: int) -> int:
    return len({ns for start, end in slices for ns in range(start, min(end, until))})
