"""Ruler of the timeline: summary of the work between two times."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from graphviz_dash.analysis.trace.lanes import idle_periods
from graphviz_dash.features.timeline.view.difference import RunDifference
from graphviz_dash.features.timeline.view.lanes import between
from graphviz_dash.features.timeline.view.run import ChosenRun
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_ns


class Measured(msgspec.Struct, frozen=True):
    """Summary of a time span."""

    lines: list[tuple[str, str]]
    """Pairs of label and value, one per run and difference lane."""


def measure(
    runs: Sequence[ChosenRun], span: tuple[int, int], differences: Sequence[RunDifference]
) -> Measured:
    """Summarize the work in ``span``, in ns since the runs' origins, ascending."""
    lines = [(chosen.timeline.run, _summary(chosen, span)) for chosen in runs]
    for difference in differences:
        if isinstance(difference.lost, Missing):
            continue
        losses = difference.lost_before(np.array(span, dtype=np.int64))
        idle_ns, busy_ns, waiting_ns = (int(loss[1] - loss[0]) for loss in losses)
        ranks = f", {_signed(waiting_ns)} waiting for ranks" if waiting_ns else ""
        first = runs[0].timeline.run
        lines.append(
            (
                f"{first} vs. {difference.run}",
                f"{_signed(idle_ns + busy_ns + waiting_ns)} lost: {_signed(idle_ns)} GPU idle, "
                f"{_signed(busy_ns)} work{ranks}",
            )
        )
    return Measured(lines)


def _summary(chosen: ChosenRun, span: tuple[int, int]) -> str:
    summary = between(chosen, span)
    begin, stop = span[0] + chosen.origin, span[1] + chosen.origin
    device = chosen.timeline.lanes.device
    gaps = [
        end - start
        for lane in range(len(device))
        for start, end in idle_periods(device, lane, begin, stop, 1)
    ]
    return f"{summary} · longest idle {format_ns(max(gaps))}" if gaps else summary


def _signed(ns: int) -> str:
    return f"{'-' if ns < 0 else '+'}{format_ns(abs(ns))}"
