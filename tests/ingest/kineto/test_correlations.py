from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.ingest.kineto.correlations import CallIntervals, find_repeated, mask_members

_IDS = st.lists(st.none() | st.integers(0, 6) | st.integers(-(1 << 62), 1 << 62), max_size=20)


def ids(values: list[int | None]) -> pl.Series:
    return pl.Series(values, dtype=pl.Int64)


@given(some=_IDS, others=_IDS)
def test_among(some: list[int | None], others: list[int | None]) -> None:
    found = mask_members(ids(some), ids(others)).to_list()
    assert found == [one is not None and one in others for one in some]


@given(values=_IDS)
def test_repeated(values: list[int | None]) -> None:
    numbers, rows = find_repeated(ids(values))
    several = [one for one in values if one is not None and values.count(one) > 1]
    assert (numbers.to_list(), rows) == (sorted(set(several)), len(several))


@given(calls=st.lists(st.tuples(st.none() | st.integers(0, 5), st.integers(0, 9))), work=_IDS)
def test_calls(calls: list[tuple[int | None, int]], work: list[int | None]) -> None:
    calls.sort(key=lambda call: call[1])
    runtime = pl.DataFrame(
        {
            "correlation": ids([one for one, _ in calls]),
            "ts": ids([ts for _, ts in calls]),
            "dur": ids([7 * ts % 5 for _, ts in calls]),
        }
    )
    found = CallIntervals(runtime, pl.DataFrame({"correlation": ids(work)}))
    times = {
        one: [ts for other, ts in calls if other == one] for one, _ in calls if one is not None
    }
    rows = [row for row, one in enumerate(work) if one in times]
    assert found.work.tolist() == rows
    assert found.start.tolist() == [min(times[work[row]]) for row in rows]
    assert found.end.tolist() == [max(ts + 7 * ts % 5 for ts in times[work[row]]) for row in rows]
