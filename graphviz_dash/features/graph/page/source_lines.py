"""Show the source lines that launched the nodes of a graph, above its drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.nodes.source_lines import LineShare, list_source_lines
from graphviz_dash.features.graph.narrative import explain_missing_code
from graphviz_dash.features.graph.page.graph_tables import FIND
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import show_fold
from graphviz_dash.ui.page.markup import (
    escape_html,
    format_element,
    format_table,
    format_text,
    show_markup,
)
from graphviz_dash.ui.page.navigation import link_markup
from graphviz_dash.units import format_count, format_ns, format_percent, pluralize

_FIRST_LINES: Final = 4
"""Lines that are not folded."""
_MAX_LISTED: Final = 200
_LOWER_DRAWING: Final = format_element(
    "style", ":root{--drawing-height:max(500px,calc(100vh - 24rem))}"
)
"""Style with which lines and the drawing below them fit on the first screen."""
_HEAD: Final = ("Source line", "Share", "GPU time", "Nodes", "Location")


def show_source_lines(table: NodeTable, run: Run, node: int | None, *, above_drawing: bool) -> None:
    """Show the lines with the most GPU time; a link highlights the nodes of a line.

    The line of the node ``node`` is first. A drawing below the lines gets lower. Nothing without
    source lines.
    """
    lines = list_source_lines(table, run.source_code)
    if not lines:
        return
    current = None if node is None else table.rows[node].origin.source
    lines = tuple(sorted(lines, key=lambda line: line.source != current))
    first_lines, other_lines = lines[:_FIRST_LINES], lines[_FIRST_LINES:_MAX_LISTED]
    reason = explain_missing_code(run, lines)
    note = format_text("p", reason, "muted") if reason else ""
    section = _format_lines(first_lines, current) + note
    show_markup(section, _LOWER_DRAWING if above_drawing else "")
    if other_lines:
        title = f"{pluralize(len(lines) - _FIRST_LINES, 'more source line')}"
        show_fold(title, "lines", lambda: show_markup(_format_lines(other_lines, current)))


def _format_lines(lines: Sequence[LineShare], current: str | None) -> str:
    rows = [_format_line(line, is_current=line.source == current) for line in lines]
    table = format_table(map(escape_html, _HEAD), [("", rows)], "source-lines")
    return format_element("section", table, "code-lines")


def _format_line(line: LineShare, *, is_current: bool) -> list[str]:
    is_search = url_state.get_value(FIND) == line.source
    parameters = {
        name: values for name, values in url_state.get_parameters().items() if name != FIND
    }
    link = link_markup(
        "graph",
        line.code or line.source,
        parameters if is_search else parameters | {FIND: [line.source]},
        icon=False,
        kind="line-code" if line.code else "",
        is_current=is_search or is_current,
    )
    share = "" if line.share is None else format_percent(line.share)
    bar = format_element("i", "", style=f"--share:{line.share or 0:.4f}") + escape_html(share)
    return [
        link,
        format_element("span", bar, "share-bar"),
        "" if line.work_ns is None else escape_html(format_ns(line.work_ns)),
        format_count(line.nodes),
        format_text("span", "/".join(line.source.split("/")[-2:]), title=line.source),
    ]
