"""Memory of an experiment's runs on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click

from graphviz_dash.analysis.memory.report import MemoryReport, PoolBreakdown
from graphviz_dash.cli.text.output import print_heading, print_rows, print_sections, print_text
from graphviz_dash.features.memory.comparison import MemoryComparison
from graphviz_dash.features.memory.narrative import (
    GRAPH_COLUMNS,
    PUBLISHED_OVERHEAD,
    SHARE_COLUMNS,
    STAGE_LABELS,
    TOTAL_ROWS,
    describe_memory_cost,
    describe_snapshot,
    list_part_rows,
    list_size_columns,
    list_stage_columns,
)
from graphviz_dash.features.memory.snapshots import SNAPSHOT_GROUPS
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import MemoryShare, MemoryUse
from graphviz_dash.narrative.columns import omit_empty_columns
from graphviz_dash.units import format_bytes, pluralize


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
            print_text(f"  {name}: {missing.reason}")


def _print_parts(result: MemoryComparison) -> None:
    click.echo()
    print_sections(
        list_size_columns(result, result.reports), [list_part_rows(result.reports), TOTAL_ROWS]
    )
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
    print_rows(list_stage_columns(result.reports), list(STAGE_LABELS))


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
    print_text(f"  {listed}")


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
    print_text(sentence if name is None else f"{name}: {sentence}")
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
    print_rows(omit_empty_columns(SHARE_COLUMNS, shares), shares[:count])
    if len(shares) > count:
        click.echo(f"  {count} of {len(shares)}, the largest first")
