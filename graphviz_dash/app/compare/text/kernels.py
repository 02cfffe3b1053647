"""Kernels of a comparison's runs on the terminal."""

from __future__ import annotations

from typing import Final

import click

from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.cli.text.output import (
    build_cell,
    create_table,
    print_heading,
    print_table,
    shorten,
)
from graphviz_dash.narrative.summary import explain_unlisted_kernels
from graphviz_dash.units import format_count, format_ns

_NAME_LENGTH: Final = 72


def print_kernels(kernels: KernelTable, count: int) -> None:
    """Print ``count`` kernels per traced step, largest change first."""
    if not kernels.rows:
        return
    shown = kernels.usual_rows[:count]
    print_heading(
        f"Kernels per traced step, {len(shown)} of {len(kernels.rows)}, largest change first"
    )
    headings = ["kernel", "category"]
    for column, run in enumerate(kernels.runs):
        headings += [f"{run}: count", "time"]
        if kernels.has_changes(column):
            headings.append("change")
    table = create_table(*headings, right=range(2, len(headings)))
    for row in shown:
        cells = [build_cell(shorten(row.name, _NAME_LENGTH)), build_cell(row.category.value)]
        for column, (use, change) in enumerate(zip(row.uses, row.changes, strict=True)):
            cells.append(build_cell(format_count(use.count if use else None)))
            cells.append(build_cell(format_ns(use.total_ns if use else None)))
            if kernels.has_changes(column):
                sign = "+" if change is not None and change > 0 else ""
                cells.append(build_cell(sign + format_ns(change)))
        table.add_row(*cells)
    print_table(table)
    if sentence := explain_unlisted_kernels(kernels):
        click.echo(f"  {sentence}")
