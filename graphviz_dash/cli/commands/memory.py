"""``graphviz-dash memory``: what the memory of an experiment's runs is made of."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.comparison.memory import MemoryComparison, compare_memory
from graphviz_dash.analysis.memory.pools import PoolBreakdown
from graphviz_dash.analysis.memory.report import MemoryPart, MemoryReport
from graphviz_dash.cli.loading import loaded_experiment
from graphviz_dash.cli.text.output import cell, plain_table, print_heading, print_json, print_table
from graphviz_dash.errors import printable
from graphviz_dash.exports.documents.memory import memory_document
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.memory import PUBLISHED_OVERHEAD
from graphviz_dash.units import counted, format_bytes, format_count, format_signed_bytes


@click.command("memory")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option(
    "--baseline",
    metavar="MODE",
    help="Mode or run that the others are compared with.  [default: eager]",
)
@click.option(
    "--graphs",
    "count",
    default=10,
    show_default=True,
    type=click.IntRange(0),
    help="Graphs to list of each run, the largest first; 0 for none.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document (docs/cli.md).")
def memory_command(experiment: Path, baseline: str | None, count: int, as_json: bool) -> None:
    """Show what CUDA graphs cost in memory in the runs of EXPERIMENT.

    The device memory of each run in parts that add up, the difference to the baseline, and which
    part of its private pool each graph has for itself and which it shares.
    """
    loaded = loaded_experiment(experiment)
    result = compare_memory(compare(loaded, baseline))
    if as_json:
        print_json("memory", memory_document(loaded, result, count))
    else:
        _print(result, count)


def _print(result: MemoryComparison, count: int) -> None:
    click.echo(result.sentence)
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
        for name, reason in result.without.items():
            click.echo(printable(f"  {name}: {reason}"))


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
        "At the peak of a step, from the memory pass: docs/memory.md says what each part is."
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
    for place, stage in enumerate(stages):
        peaks = [report.stages[place].peak_reserved_bytes for report in result.reports]
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
