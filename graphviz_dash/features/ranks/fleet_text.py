"""The answers of a fleet on the terminal."""

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
    """Prints what the ranks of one mode answer."""
    whose = ", ".join(filter(None, (answer.mode, answer.job)))
    whole = answer.unmarked == answer.ranks
    period = "trace" if whole else "step"
    click.echo(
        printable(
            f"{whose}{': ' if whose else ''}{counted(answer.ranks, 'rank')} read, "
            f"{format_ns(answer.step_ns)} a {'trace' if whole else 'traced step'} in the median"
        )
    )
    if answer.unmarked:
        click.echo(
            f"  of {counted(answer.unmarked, 'rank')} the trace marks no steps: the whole trace "
            "counts as one"
        )
    if answer.incomplete:
        click.echo(
            f"  of {counted(answer.incomplete, 'rank')} the trace is cut or damaged, and read as "
            "far as it goes"
        )
    if answer.without_gpu_work:
        click.echo(
            f"  of {counted(answer.without_gpu_work, 'rank')} the trace holds no work of a GPU, as "
            "one recorded without ProfilerActivity.CUDA"
        )
    if answer.launch_bound is not None:
        least, half, most, worst = map(format_percent, answer.launch_bound)
        name = answer.launch_bound_worst
        click.echo(
            printable(
                f"  launch-bound: {half} of a {period} in the median, {least} at the least, {most} "
                f"at the 95th percentile, {worst} at the worst ({name})"
            )
        )
    if answer.awaited is not None:
        awaited = answer.awaited
        click.echo(
            printable(
                f"  the others wait for {awaited.name}: it communicates alone for "
                f"{format_ns(awaited.communication_ns)} of a {period}, the median rank for "
                f"{format_ns(awaited.median_ns)}"
            )
        )
    if answer.slow:
        print_heading("Slow ranks")
        table = plain_table("run", "rank", "own work", "median", "most of it in", right=(1, 2, 3))
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
        click.echo("  no rank's own work is slower than that of the others")
    if answer.odd:
        print_heading("Graphs that not all ranks replay")
        table = plain_table("graph", "begins with", "rows", "ranks", "which", right=(2, 3))
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
