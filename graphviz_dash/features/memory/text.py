"""Memory of an experiment's runs on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click

from graphviz_dash.analysis.memory.report import MemoryPart, MemoryReport, PoolBreakdown
from graphviz_dash.cli.text.output import (
    build_cell,
    create_table,
    print_heading,
    print_rows,
    print_table,
)
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.memory.comparison import MemoryComparison
from graphviz_dash.features.memory.narrative import (
    GRAPH_COLUMNS,
    PUBLISHED_OVERHEAD,
    describe_memory_cost,
    describe_snapshot,
)
from graphviz_dash.features.memory.snapshots import SNAPSHOT_GROUPS
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import MemoryShare, MemoryUse
from graphviz_dash.units import format_bytes, format_count, format_signed_bytes, pluralize


def print_memory(result: MemoryComparison, count: int) -> None:
    """Print each run's breakdown and pools, with ``count`` graphs."""
    click.echo(describe_memory_cost(result))
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
    if result.missing:
        print_heading("Missing data")
        for name, missing in result.missing.items():
            click.echo(escape_control_characters(f"  {name}: {missing.reason}"))


def _print_parts(result: MemoryComparison) -> None:
    click.echo()
    headings = [""]
    for report in result.reports:
        headings.append(report.run)
        if result.get_difference(report.run):
            headings.append("change")
    table = create_table(*headings, right=range(1, len(headings)))
    for part in MemoryPart:
        if not any(report.parts[part] for report in result.reports):
            continue
        cells = [build_cell(part.value)]
        for report in result.reports:
            cells.append(build_cell(format_bytes(report.parts[part])))
            if change := result.get_difference(report.run):
                cells.append(build_cell(format_signed_bytes(change.parts[part]), "dim"))
        table.add_row(*cells)
    table.add_section()
    for title in ("reserved", "device memory"):
        cells = [build_cell(title, "bold")]
        for report in result.reports:
            size = report.reserved if title == "reserved" else report.total
            cells.append(build_cell(format_bytes(size), "bold"))
            if change := result.get_difference(report.run):
                growth = change.reserved if title == "reserved" else change.total
                cells.append(build_cell(format_signed_bytes(growth), "bold"))
        table.add_row(*cells)
    print_table(table)
    click.echo()
    click.echo(
        "At the peak of a step, from the memory pass: docs/explanation/memory-of-graphs.md defines "
        "each part."
    )
    if not all(report.is_process_only for report in result.reports):
        click.echo(
            "The driver did not list the processes: memory outside the allocator may belong to "
            "other processes."
        )


def _print_stages(result: MemoryComparison) -> None:
    print_heading("Peak reserved by the allocator, by stage")
    names = [report.run for report in result.reports]
    table = create_table("", *names, right=range(1, len(names) + 1))
    stages = result.reports[0].stages
    for index, stage in enumerate(stages):
        peaks = [report.stages[index].peak_reserved_bytes for report in result.reports]
        table.add_row(
            build_cell(stage.stage.value), *(build_cell(format_bytes(peak)) for peak in peaks)
        )
    print_table(table)


def _print_pool(report: MemoryReport, pool: PoolBreakdown) -> None:
    print_heading(
        f"{report.run}, pool {pool.id[0]}-{pool.id[1]}: {format_bytes(pool.reserved)} in "
        f"{pluralize(pool.segments, 'segment')} for {pluralize(len(pool.graphs), 'graph')}"
    )
    parts = {
        "one graph": pool.exclusive,
        "shared": pool.shared,
        "unused": pool.unused,
        "library workspaces": pool.workspaces,
        **{owner.value: size for owner, size in pool.owned.items()},
    }
    listed = ", ".join(f"{name} {format_bytes(size)}" for name, size in parts.items() if size)
    click.echo(escape_control_characters(f"  {listed}"))


def _print_graphs(report: MemoryReport, count: int) -> None:
    largest = sorted(report.graphs, key=lambda graph: -graph.footprint)[:count]
    click.echo()
    print_rows(GRAPH_COLUMNS, largest)
    if len(largest) < len(report.graphs):
        click.echo(f"  {len(largest)} of {len(report.graphs)} graphs, the largest first")


def print_snapshot(use: MemoryUse, count: int, name: str | None = None) -> None:
    """Print a snapshot with ``count`` sizes and lines.

    ``name`` is its run; None for a single snapshot.
    """
    sentence = describe_snapshot(use)
    click.echo(escape_control_characters(sentence if name is None else f"{name}: {sentence}"))
    if use.live is None:
        return
    for title, attribute in SNAPSHOT_GROUPS:
        shares: Sequence[MemoryShare] = getattr(use.live, attribute)
        has_segments = any(share.reserved_bytes is not None for share in shares)
        _print_shares(title, shares, len(shares) if has_segments else count)


def _print_shares(title: str, shares: Sequence[MemoryShare], count: int) -> None:
    if not shares or not count:
        return
    print_heading(title)
    has_segments = shares[0].reserved_bytes is not None
    headings = ["", "blocks", "live", *(["reserved"] if has_segments else [])]
    table = create_table(*headings, right=range(1, len(headings)))
    for share in shares[:count]:
        cells = [share.label, format_count(share.blocks), format_bytes(share.live_bytes)]
        if share.reserved_bytes is not None:
            cells.append(format_bytes(share.reserved_bytes))
        table.add_row(*(build_cell(escape_control_characters(cell)) for cell in cells))
    print_table(table)
    if len(shares) > count:
        click.echo(f"  {count} of {len(shares)}, the largest first")
