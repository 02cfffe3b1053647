"""Work outside graphs, on the terminal."""

from __future__ import annotations

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.cli.text.output import build_cell, create_table, print_heading, print_table
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import format_count, format_ns, format_percent


def print_uncaptured_work(result: Comparison) -> None:
    """Print the work that runs with graphs launch one by one; nothing if there is none."""
    rows = [
        (run.name, group)
        for run in result.runs
        if not isinstance(run.coverage, Missing)
        for group in run.coverage.eager
    ]
    if not rows:
        return
    print_heading("Not captured, per traced step")
    table = create_table(
        "run", "operator", "reason", "work", "time", "share of GPU time", right=(3, 4, 5)
    )
    for run, group in rows:
        table.add_row(
            build_cell(run),
            build_cell(group.operator or "–"),
            build_cell(group.reason.value),
            build_cell(format_count(group.count)),
            build_cell(format_ns(group.total_ns)),
            build_cell(format_percent(group.share)),
        )
    print_table(table)
