"""Captured graph on the terminal: contents, matches and longest nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import click

from graphviz_dash.analysis.nodes.concurrency import Concurrency, get_p99_and_slack
from graphviz_dash.analysis.nodes.node_table import (
    LineShare,
    NodeRow,
    NodeTable,
    list_source_lines,
    sort_nodes_by_duration,
)
from graphviz_dash.cli.text.output import (
    ABSENT_TEXT,
    create_table,
    print_heading,
    print_table,
    print_text,
    shorten,
)
from graphviz_dash.features.graph.concurrency import describe_concurrency
from graphviz_dash.features.graph.diff.graph_pair import check_device_launch
from graphviz_dash.features.graph.diff_narrative import (
    describe_device_launch,
    format_device_launch_result,
)
from graphviz_dash.features.graph.narrative import explain_missing_code
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.features.prediction.stream_text import print_parallel
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Run
from graphviz_dash.units import format_count, format_ns, format_percent, pluralize

_NAME_LENGTH: Final = 56


def print_graph(
    run: Run,
    table: NodeTable,
    concurrency: Concurrency | Missing | None,
    parallel: ParallelPrediction | Missing | None,
    count: int,
) -> None:
    """Print a graph with the ``count`` longest nodes and source lines.

    ``concurrency`` and ``parallel`` are None for a nested graph.
    """
    graph = table.graph
    kinds = Counter(node.kind.value for node in graph.nodes)
    print_heading(
        f"{graph.id}: {pluralize(len(graph.nodes), 'node')}, "
        f"{pluralize(len(graph.edges), 'edge')} (read by {graph.source_api})"
    )
    click.echo("  " + ", ".join(f"{format_count(n)} {kind}" for kind, n in kinds.most_common()))
    click.echo(
        f"  {format_count(table.attributed_nodes)} of {format_count(len(table.rows))} nodes "
        "attributed "
        f"to an operator, from {format_count(table.capture_launches)} launches of the capture "
        f"({_format_methods(Counter(row.origin.method for row in table.rows))})"
    )
    if table.replays:
        click.echo(
            f"  {format_count(table.matched_kernels)} of {format_count(table.replay_kernels)} GPU "
            f"records matched to a node in {pluralize(table.replays, 'replay')} "
            f"of the {table.timed_in} "
            f"({_format_methods(Counter(row.times.method for row in table.rows))})"
        )
    disabled = [str(node.index) for node in graph.nodes if node.enabled is False]
    if disabled:
        click.echo(
            f"  disabled in the graph exec: node{'' if len(disabled) == 1 else 's'} "
            f"{', '.join(disabled)}"
        )
    if graph.parent is None:
        _print_device_launch(run, graph)
    if isinstance(concurrency, Missing):
        click.echo(f"  critical path: {concurrency.reason}")
    elif concurrency is not None:
        for sentence in describe_concurrency(concurrency):
            click.echo(f"  {sentence}")
        if parallel is not None:
            print_parallel(run, parallel)
    if longest := sort_nodes_by_duration(table)[:count]:
        click.echo()
        _print_nodes(table, longest, concurrency)
    if lines := list_source_lines(table, run.source_code)[:count]:
        click.echo()
        _print_source_lines(lines)
        if reason := explain_missing_code(run, lines):
            print_text(f"  {reason}")


def _print_nodes(
    table: NodeTable, longest: Sequence[NodeRow], concurrency: Concurrency | Missing | None
) -> None:
    headings = ("node", "kernel, memcpy or memset", "median", "p99", "slack")
    nodes = create_table(*headings, "operator", "module", "source", right=(0, 2, 3, 4))
    for row in longest:
        p99, slack = get_p99_and_slack(concurrency, table, row)
        nodes.add_row(
            row.node.index,
            shorten(row.node.label, _NAME_LENGTH),
            format_ns(row.times.median_ns),
            format_ns(p99),
            format_ns(slack),
            row.origin.op or ABSENT_TEXT,
            row.origin.module or ABSENT_TEXT,
            row.origin.source or ABSENT_TEXT,
        )
    print_table(nodes)


def _print_source_lines(lines: Sequence[LineShare]) -> None:
    table = create_table("source line", "code", "GPU time", "share", "nodes", right=(2, 3, 4))
    for line in lines:
        table.add_row(
            line.source,
            shorten(line.code, _NAME_LENGTH) if line.code else ABSENT_TEXT,
            format_ns(line.work_ns),
            ABSENT_TEXT if line.share is None else format_percent(line.share),
            line.nodes,
        )
    print_table(table)


def _print_device_launch(run: Run, graph: CapturedGraph) -> None:
    driver_result = graph.device_launch
    driver = (
        "" if driver_result is None else f" (driver: {format_device_launch_result(driver_result)})"
    )
    check = describe_device_launch(check_device_launch(run, graph.id))
    print_text(f"  device-side launch: {check}{driver}")


def _format_methods(counts: Counter[str]) -> str:
    return ", ".join(f"{n:,} by {method}" for method, n in counts.most_common()) or "no nodes"
