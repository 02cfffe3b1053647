"""``graphviz-dash fleet``: questions to the traces of many ranks at once."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from graphviz_dash.analysis.ranks.fleet import FleetAnswer
from graphviz_dash.cli.loading import executor_options
from graphviz_dash.cli.text.output import cell, plain_table, print_heading, print_json, print_table
from graphviz_dash.errors import printable
from graphviz_dash.exports.documents.fleet import fleet_document
from graphviz_dash.importers.fleet import (
    answers,
    collect_fleet,
    is_fleet,
    read_fleet,
    write_fleet,
)
from graphviz_dash.importers.locations import find_locations, is_address
from graphviz_dash.importers.tasks import executor_for
from graphviz_dash.units import counted, format_count, format_ns, format_percent

_SHOWN = 20


@click.command("fleet")
@click.argument("places", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep the tables in DIR, as Parquet; giving DIR later asks them again.",
)
@executor_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def fleet_command(
    places: tuple[str, ...],
    output: Path | None,
    scheduler: str | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Ask the traces of many ranks which are slow and differ, and how far launches bound them.

    PLACES are traces, run bundles, folders of them, or addresses such as s3://bucket/traces; or
    one folder that -o wrote.
    """
    first = places[0]
    if len(places) == 1 and not is_address(first) and is_fleet(Path(first)):
        fleet = read_fleet(Path(first))
    else:
        found = find_locations(places)
        fleet = collect_fleet(found, lambda: executor_for(scheduler, workers), announce=_tell)
    if output is not None:
        write_fleet(fleet, output)
    said = answers(fleet)
    if as_json:
        failures = [(failed.source, failed.reason) for failed in fleet.failed]
        print_json("fleet", fleet_document(said, failures))
        return
    for place, one in enumerate(said):
        if place:
            click.echo()
        _print(one)
    for failed in fleet.failed[:_SHOWN]:
        click.echo(printable(f"not read: {failed.reason}"), err=True)
    if fleet.failed:
        click.echo(f"{format_count(len(fleet.failed))} files could not be read", err=True)


def _tell(done: int, of: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{done:,} of {of:,} read", nl=done == of, err=True)


def _print(said: FleetAnswer) -> None:
    mode = f"{said.mode}: " if said.mode else ""
    click.echo(
        f"{mode}{counted(said.ranks, 'rank')}, {format_ns(said.step_ns)} a traced step in the "
        "median"
    )
    if said.unmarked:
        click.echo(f"  {format_count(said.unmarked)} mark no steps: their step is the whole trace")
    if said.incomplete:
        click.echo(f"  {format_count(said.incomplete)} are cut or damaged, read as far as they go")
    if said.launch_bound is not None:
        least, half, most, worst = map(format_percent, said.launch_bound)
        name = said.launch_bound_worst
        click.echo(
            printable(
                f"  launch-bound: {half} of a step in the median, {least} at the least, {most} at "
                f"the 95th percentile, {worst} at the worst ({name})"
            )
        )
    if said.slow:
        print_heading("Slow ranks")
        table = plain_table("run", "rank", "own work", "median", "most of it in", right=(1, 2, 3))
        for row in said.slow[:_SHOWN]:
            more = f"{row.kernel} (+{format_ns(row.kernel_ns)})" if row.kernel else ""
            table.add_row(
                cell(row.name),
                cell("" if row.rank is None else str(row.rank)),
                cell(format_ns(row.compute_ns)),
                cell(format_ns(row.median_ns)),
                cell(more),
            )
        print_table(table)
        _more(len(said.slow))
    elif said.ranks > 1:
        click.echo("  no rank's own work is slower than that of the others")
    if said.odd:
        print_heading("Graphs that not all ranks replay")
        table = plain_table("graph", "begins with", "rows", "ranks", "which", right=(2, 3))
        for odd in said.odd[:_SHOWN]:
            listed = "all but " if odd.lacking else ""
            listed += ", ".join(odd.ranks[:5]) + (", …" if len(odd.ranks) > 5 else "")
            table.add_row(
                cell(odd.graph),
                cell(odd.first[:60]),
                cell(format_count(odd.kernels)),
                cell(format_count(odd.owners)),
                cell(listed),
            )
        print_table(table)
        _more(len(said.odd))
    elif said.graphs and said.ranks > 1:
        graphs = "graph" if said.graphs == 1 else f"{format_count(said.graphs)} graphs"
        click.echo(f"  all ranks replay the same {graphs}")


def _more(count: int) -> None:
    if count > _SHOWN:
        click.echo(f"and {count - _SHOWN:,} more; --json has all")
