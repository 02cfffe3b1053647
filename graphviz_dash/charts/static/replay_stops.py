"""Drawing of stopped replays: a bar per graph and rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.replay_check import StopFault
from graphviz_dash.charts.shades import BLUE, IDLE
from graphviz_dash.charts.static.svg import (
    RULE,
    build_drawing,
    build_legend,
    build_rectangle,
    build_text,
    css_colour,
)
from graphviz_dash.model.replay_check import ReplayStop
from graphviz_dash.narrative.replay_check import format_passed, format_progress, format_stop

_WIDTH: Final = 720.0
_ROW_PX: Final = 40.0
_BAR_PX: Final = 12.0
_MARK_PX: Final = 3.0


STOP_SHADES: Final = {"ended": BLUE, "stopped here": IDLE, "not reached": RULE}


class StopRow(Struct, frozen=True):
    """Progress of one graph or rank."""

    label: str
    share: float
    marks: tuple[float, ...]
    """Nodes that did not end, as shares of the graph."""
    tip: str


def draw_replay_stops(faults: Sequence[StopFault]) -> str | None:
    """Draw each stopped replay. None if no replay stopped."""
    rows = list_stop_rows(faults)
    if not rows:
        return None
    markup, top = build_legend(list(STOP_SHADES.items()), 4, 14, _WIDTH)
    for number, row in enumerate(rows):
        markup += _draw_row(row, top + number * _ROW_PX)
    title = " ".join(map(format_stop, faults))
    return build_drawing(_WIDTH, top + len(rows) * _ROW_PX, title, markup)


def list_stop_rows(faults: Sequence[StopFault]) -> list[StopRow]:
    """Return the rows of :func:`draw_replay_stops`."""
    return [row for fault in faults for row in _list_rows(fault)]


def _list_rows(fault: StopFault) -> list[StopRow]:
    stop = fault.stop
    if len(stop.ranks) < 2:
        return [_build_stop_row(stop, format_stop(fault))]
    return [
        StopRow(
            f"rank {item.rank}, {stop.graph}: {format_passed(item)} passed",
            item.collectives_passed / max(item.collectives, 1),
            (item.collectives_passed / item.collectives,)
            if item.is_busy and item.collectives_passed < item.collectives
            else (),
            format_stop(fault),
        )
        for item in stop.ranks
    ]


def _build_stop_row(stop: ReplayStop, tip: str) -> StopRow:
    nodes = max(stop.nodes, 1)
    return StopRow(
        format_progress(stop),
        stop.completions / nodes,
        tuple(node.index / nodes for node in stop.suspects),
        tip,
    )


def _draw_row(row: StopRow, top: float) -> str:
    bar = top + 16
    markup = build_text(4, top + 10, row.label, "small")
    markup += build_rectangle(4, bar, _WIDTH - 8, _BAR_PX, css_colour(RULE), tip=row.tip)
    markup += build_rectangle(4, bar, (_WIDTH - 8) * row.share, _BAR_PX, css_colour(BLUE))
    for mark in row.marks:
        left = 4 + (_WIDTH - 8 - _MARK_PX) * mark
        markup += build_rectangle(
            left, bar - 3, _MARK_PX, _BAR_PX + 6, css_colour(IDLE), tip=row.tip
        )
    return markup
