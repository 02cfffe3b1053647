"""Results of a fleet on the terminal."""

from __future__ import annotations

import click

from graphviz_dash.cli.text.output import (
    create_table,
    print_heading,
    print_more,
    print_table,
    print_text,
    shorten,
)
from graphviz_dash.features.ranks.fleet import FleetFindings
from graphviz_dash.units import format_count, format_ns, format_percent, pluralize

_MAX_SHOWN = 20
_NAME_LENGTH = 60


def print_fleet_answer(findings: FleetFindings) -> None:
    """Print the results for the ranks of one mode."""
    subject = ", ".join(filter(None, (findings.mode, findings.job)))
    is_full_trace = findings.ranks_without_steps == findings.ranks
    period = "trace" if is_full_trace else "step"
    noun = "rank" if findings.can_compare else "trace"
    print_text(
        f"{subject}{': ' if subject else ''}{pluralize(findings.ranks, noun)} read, "
        f"{format_ns(findings.step_ns)} per {'trace' if is_full_trace else 'traced step'} "
        "(median)"
    )
    if findings.ranks_without_steps:
        click.echo(
            f"  {pluralize(findings.ranks_without_steps, noun)}: the trace marks no steps, so the "
            "full trace counts as one"
        )
    if findings.incomplete_ranks:
        click.echo(
            f"  {pluralize(findings.incomplete_ranks, noun)}: the trace is truncated or damaged "
            "and was read partially"
        )
    if findings.ranks_without_gpu_work:
        reasons = "; ".join(findings.gpu_work_reasons) or "the trace has no GPU work"
        text = f"  {pluralize(findings.ranks_without_gpu_work, noun)}: unknown GPU work: {reasons}"
        print_text(text)
    if findings.launch_bound is not None:
        least, median, maximum, worst = map(format_percent, findings.launch_bound)
        name = findings.launch_bound_worst
        spread = (
            f" (median), {least} minimum, {maximum} at the 95th percentile, {worst} maximum "
            f"({name})"
        )
        print_text(f"  launch-bound: {median} of a {period}{spread if findings.ranks > 1 else ''}")
    if findings.straggler is not None:
        awaited = findings.straggler
        print_text(
            f"  other ranks wait for {awaited.name}: it communicates alone for "
            f"{format_ns(awaited.communication_ns)} per {period}, the median rank for "
            f"{format_ns(awaited.median_ns)}"
        )
    if findings.slow:
        print_heading("Slow ranks")
        table = create_table(
            "run", "rank", "exclusive work", "median", "mainly in", right=(1, 2, 3)
        )
        for row in findings.slow[:_MAX_SHOWN]:
            name = shorten(row.kernel or "", _NAME_LENGTH)
            more = f"{name} (+{format_ns(row.kernel_ns)})" if name else ""
            table.add_row(
                row.name,
                "" if row.rank is None else str(row.rank),
                format_ns(row.compute_ns),
                format_ns(row.median_ns),
                more,
            )
        print_table(table)
        print_more(len(findings.slow), _MAX_SHOWN)
    elif findings.ranks > 1 and not findings.can_compare:
        click.echo("  not compared: the traces do not name different ranks of one job")
    elif findings.ranks > 1:
        click.echo("  no rank's exclusive work is slower than that of others")
    if findings.divergent:
        print_heading("Graphs replayed by some ranks only")
        table = create_table("graph", "first kernel", "rows", "ranks", "names", right=(2, 3))
        for divergent_graph in findings.divergent[:_MAX_SHOWN]:
            listed = "all but " if divergent_graph.lists_missing else ""
            listed += ", ".join(divergent_graph.ranks[:5]) + (
                ", …" if len(divergent_graph.ranks) > 5 else ""
            )
            table.add_row(
                divergent_graph.graph,
                shorten(divergent_graph.first_name, _NAME_LENGTH),
                format_count(divergent_graph.kernels),
                format_count(divergent_graph.owner_count),
                listed,
            )
        print_table(table)
        print_more(len(findings.divergent), _MAX_SHOWN)
    elif findings.graph_count and findings.can_compare:
        graphs = (
            "graph" if findings.graph_count == 1 else f"{format_count(findings.graph_count)} graphs"
        )
        click.echo(f"  all ranks replay the same {graphs}")
