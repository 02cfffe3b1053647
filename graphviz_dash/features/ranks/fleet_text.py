"""Results of a fleet on the terminal."""

from __future__ import annotations

import click

from graphviz_dash.cli.text.output import (
    cell,
    plain_table,
    print_heading,
    print_more,
    print_table,
    shorten,
)
from graphviz_dash.errors import printable
from graphviz_dash.features.ranks.fleet import FleetAnswer
from graphviz_dash.units import counted, format_count, format_ns, format_percent

_SHOWN = 20
_NAME_LENGTH = 60


def print_fleet_answer(answer: FleetAnswer) -> None:
    """Print the results for the ranks of one mode."""
    subject = ", ".join(filter(None, (answer.mode, answer.job)))
    is_full_trace = answer.unmarked == answer.ranks
    period = "trace" if is_full_trace else "step"
    click.echo(
        printable(
            f"{subject}{': ' if subject else ''}{counted(answer.ranks, 'rank')} read, "
            f"{format_ns(answer.step_ns)} per {'trace' if is_full_trace else 'traced step'} "
            "(median)"
        )
    )
    if answer.unmarked:
        click.echo(
            f"  {counted(answer.unmarked, 'rank')}: the trace marks no steps, so the full trace "
            "counts as one"
        )
    if answer.incomplete:
        click.echo(
            f"  {counted(answer.incomplete, 'rank')}: the trace is truncated or damaged and was "
            "read partially"
        )
    if answer.without_gpu_work:
        click.echo(
            f"  {counted(answer.without_gpu_work, 'rank')}: the trace has no GPU work; was it "
            "recorded without ProfilerActivity.CUDA?"
        )
    if answer.launch_bound is not None:
        least, median, most, worst = map(format_percent, answer.launch_bound)
        name = answer.launch_bound_worst
        click.echo(
            printable(
                f"  launch-bound: {median} of a {period} (median), {least} minimum, {most} "
                f"at the 95th percentile, {worst} maximum ({name})"
            )
        )
    if answer.awaited is not None:
        awaited = answer.awaited
        click.echo(
            printable(
                f"  other ranks wait for {awaited.name}: it communicates alone for "
                f"{format_ns(awaited.communication_ns)} per {period}, the median rank for "
                f"{format_ns(awaited.median_ns)}"
            )
        )
    if answer.slow:
        print_heading("Slow ranks")
        table = plain_table("run", "rank", "exclusive work", "median", "mainly in", right=(1, 2, 3))
        for row in answer.slow[:_SHOWN]:
            name = shorten(row.kernel or "", _NAME_LENGTH)
            more = f"{name} (+{format_ns(row.kernel_ns)})" if name else ""
            table.add_row(
                cell(row.name),
                cell("" if row.rank is None else str(row.rank)),
                cell(format_ns(row.compute_ns)),
                cell(format_ns(row.median_ns)),
                cell(more),
            )
        print_table(table)
        print_more(len(answer.slow), _SHOWN)
    elif answer.ranks > 1:
        click.echo("  no rank's exclusive work is slower than that of others")
    if answer.odd:
        print_heading("Graphs replayed by some ranks only")
        table = plain_table("graph", "first kernel", "rows", "ranks", "names", right=(2, 3))
        for odd in answer.odd[:_SHOWN]:
            listed = "all but " if odd.lacking else ""
            listed += ", ".join(odd.ranks[:5]) + (", …" if len(odd.ranks) > 5 else "")
            table.add_row(
                cell(odd.graph),
                cell(shorten(odd.first, _NAME_LENGTH)),
                cell(format_count(odd.kernels)),
                cell(format_count(odd.owners)),
                cell(listed),
            )
        print_table(table)
        print_more(len(answer.odd), _SHOWN)
    elif answer.graphs and answer.ranks > 1:
        graphs = "graph" if answer.graphs == 1 else f"{format_count(answer.graphs)} graphs"
        click.echo(f"  all ranks replay the same {graphs}")
