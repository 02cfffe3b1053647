"""What lies between two instants of a timeline, in words: for the ruler."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from graphviz_dash.analysis.trace.lanes import idle_periods
from graphviz_dash.charts.timeline.difference import RunLead
from graphviz_dash.charts.timeline.lanes import between
from graphviz_dash.charts.timeline.run import ChosenRun
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_ns


class Measured(msgspec.Struct, frozen=True):
    """Pairs of what and how much, one for each run and each difference lane."""

    lines: list[tuple[str, str]]


def measure(runs: Sequence[ChosenRun], span: tuple[int, int], leads: Sequence[RunLead]) -> Measured:
    """What runs between the instants of ``span``, in ns since the runs' origins, ascending."""
    lines = [(one.timeline.run, _told(one, span)) for one in runs]
    for one in leads:
        if isinstance(one.lead, Missing):
            continue
        idle, busy = one.lost_before(np.array(span, dtype=np.int64))
        idle_ns, busy_ns = int(idle[1] - idle[0]), int(busy[1] - busy[0])
        first = runs[0].timeline.run
        lines.append(
            (
                f"{first} against {one.run}",
                f"{_signed(idle_ns + busy_ns)} lost: {_signed(idle_ns)} GPU idle, "
                f"{_signed(busy_ns)} work",
            )
        )
    return Measured(lines)


def _told(one: ChosenRun, span: tuple[int, int]) -> str:
    told = between(one, span)
    begin, stop = span[0] + one.origin, span[1] + one.origin
    device = one.timeline.lanes.device
    gaps = [
        end - start
        for lane in range(len(device))
        for start, end in idle_periods(device, lane, begin, stop, 1)
    ]
    return f"{told} · longest idle {format_ns(max(gaps))}" if gaps else told


def _signed(ns: int) -> str:
    return f"{'-' if ns < 0 else '+'}{format_ns(abs(ns))}"
