"""The memory of an experiment's runs on the terminal."""

from __future__ import annotations

import click

from graphviz_dash.analysis.memory.pools import PoolBreakdown
from graphviz_dash.analysis.memory.report import MemoryPart, MemoryReport
from graphviz_dash.cli.text.output import cell, plain_table, print_heading, print_table
from graphviz_dash.errors import printable
from graphviz_dash.features.memory.comparison import MemoryComparison
from graphviz_dash.features.memory.narrative import PUBLISHED_OVERHEAD, memory_sentence
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import counted, format_bytes, format_count, format_signed_bytes


def print_memory(result: MemoryComparison, count: int) -> None:
    """Prints the memory of each run in parts, and its pools with ``count`` graphs of each run."""
    click.echo(memory_sentence(result))
    by_layer = {report.run for report in result.reports if report.mode.captures_layers}
    if any(
        change.run in by_layer and not isinstance(change.activation_overhead, Missing)
        for change in result.differences
    ):
        click.echo(f"{PUBLISHED_OVERHEAD}.")
    if result.reports:
        _print_parts(result)
        _print_stages(result)
    for report in result.reports:
        for pool in report.pools:
            _print_pool(report, pool)
        if report.graphs and count:
            _print_graphs(report, count)
    if result.without:
        print_heading("Absent")
        for name, missing in result.without.items():
            click.echo(printable(f"  {name}: {missing.reason}"))


def _print_parts(result: MemoryComparison) -> None:
    click.echo()
    headings = [""]
    for report in result.reports:
        headings.append(report.run)
        if result.difference(report.run):
            headings.append("change")
    table = plain_table(*headings, right=range(1, len(headings)))
    for part in MemoryPart:
        if not any(report.parts[part] for report in result.reports):
            continue
        cells = [cell(part.value)]
        for report in result.reports:
            cells.append(cell(format_bytes(report.parts[part])))
            if change := result.difference(report.run):
                cells.append(cell(format_signed_bytes(change.parts[part]), "dim"))
        table.add_row(*cells)
    table.add_section()
    for title in ("reserved", "device memory"):
        cells = [cell(title, "bold")]
        for report in result.reports:
            size = report.reserved if title == "reserved" else report.total
            cells.append(cell(format_bytes(size), "bold"))
            if change := result.difference(report.run):
                grown = change.reserved if title == "reserved" else change.total
                cells.append(cell(format_signed_bytes(grown), "bold"))
        table.add_row(*cells)
    print_table(table)
    click.echo()
    click.echo(
        "At the peak of a step, from the memory pass: docs/explanation/memory-of-graphs.md defines "
        "each part."
    )
    if not all(report.alone for report in result.reports):
        click.echo(
            "The driver did not list the processes: other processes may be in what lies outside "
            "the allocator."
        )


def _print_stages(result: MemoryComparison) -> None:
    print_heading("Peak reserved by the allocator, by stage")
    names = [report.run for report in result.reports]
    table = plain_table("", *names, right=range(1, len(names) + 1))
    stages = result.reports[0].stages
    for index, stage in enumerate(stages):
        peaks = [report.stages[index].peak_reserved_bytes for report in result.reports]
        table.add_row(cell(stage.stage.value), *(cell(format_bytes(peak)) for peak in peaks))
    print_table(table)


def _print_pool(report: MemoryReport, pool: PoolBreakdown) -> None:
    print_heading(
        f"{report.run}, pool {pool.id[0]}-{pool.id[1]}: {format_bytes(pool.reserved)} in "
        f"{counted(pool.segments, 'segment')} for {counted(len(pool.graphs), 'graph')}"
    )
    parts = {
        "one graph": pool.exclusive,
        "shared": pool.shared,
        "unused": pool.unused,
        "library workspaces": pool.workspaces,
        **{owner.value: size for owner, size in pool.owned.items()},
    }
    listed = ", ".join(f"{name} {format_bytes(size)}" for name, size in parts.items() if size)
    click.echo(printable(f"  {listed}"))


def _print_graphs(report: MemoryReport, count: int) -> None:
    largest = sorted(report.graphs, key=lambda graph: -graph.footprint)[:count]
    table = plain_table(
        "graph", "uses", "alone", "shared", "kept", "peak", "allocations", right=range(1, 7)
    )
    for graph in largest:
        sizes = (graph.footprint, graph.exclusive, graph.shared, graph.kept, graph.peak)
        table.add_row(
            cell(graph.graph),
            *(cell(format_bytes(size)) for size in sizes),
            cell(format_count(graph.allocations)),
        )
    click.echo()
    print_table(table)
    if len(largest) < len(report.graphs):
        click.echo(f"  {len(largest)} of {len(report.graphs)} graphs, the largest first")
