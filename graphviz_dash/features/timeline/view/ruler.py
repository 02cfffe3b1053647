"""Ruler of the timeline: summary of the work between two times."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from graphviz_dash.analysis.trace.lanes import find_idle_periods
from graphviz_dash.features.timeline.view.difference import RunDifference
from graphviz_dash.features.timeline.view.lanes import summarize_window
from graphviz_dash.features.timeline.view.run import ChosenRun
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_ns


class SpanSummary(msgspec.Struct, frozen=True):
    """Summary of a time span."""

    lines: list[tuple[str, str]]
    """Pairs of label and value, one per run and difference lane."""


def measure_span(
    runs: Sequence[ChosenRun], span: tuple[int, int], differences: Sequence[RunDifference]
) -> SpanSummary:
    """Summarize the work in ``span``, in ns since the runs' origins, ascending."""
    lines = [(choice.timeline.run, _summarize_run(choice, span)) for choice in runs]
    for difference in differences:
        if isinstance(difference.lost, Missing):
            continue
        losses = difference.lost_before(np.array(span, dtype=np.int64))
        idle_ns, busy_ns, waiting_ns = (int(loss[1] - loss[0]) for loss in losses)
        ranks = f", {_format_signed(waiting_ns)} waiting for ranks" if waiting_ns else ""
        first = runs[0].timeline.run
        lines.append(
            (
                f"{first} vs. {difference.run}",
                f"{_format_signed(idle_ns + busy_ns + waiting_ns)} lost: "
                f"{_format_signed(idle_ns)} GPU idle, "
                f"{_format_signed(busy_ns)} work{ranks}",
            )
        )
    return SpanSummary(lines)


def _summarize_run(choice: ChosenRun, span: tuple[int, int]) -> str:
    summary = summarize_window(choice, span)
    begin, stop = span[0] + choice.origin, span[1] + choice.origin
    device = choice.timeline.lanes.device
    gaps = [
        end - start
        for lane in range(len(device))
        for start, end in find_idle_periods(device, lane, begin, stop, 1)
    ]
    return f"{summary} · longest idle {format_ns(max(gaps))}" if gaps else summary


def _format_signed(ns: int) -> str:
    return f"{'-' if ns < 0 else '+'}{format_ns(abs(ns))}"
