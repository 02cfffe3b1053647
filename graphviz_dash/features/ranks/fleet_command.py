"""``graphviz-dash fleet``: comparison of the traces of many ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from graphviz_dash.cli.loading import add_executor_options
from graphviz_dash.cli.options import JSON_OPTION
from graphviz_dash.cli.text.output import print_json, print_text
from graphviz_dash.features.ranks.fleet_document import build_fleet_document
from graphviz_dash.features.ranks.fleet_import import (
    Fleet,
    collect_fleet,
    compute_answers,
    is_fleet,
    read_fleet,
    write_fleet,
)
from graphviz_dash.features.ranks.fleet_text import print_fleet_answer
from graphviz_dash.importers.locations import find_locations, is_address
from graphviz_dash.importers.tasks import create_executor
from graphviz_dash.units import pluralize

_MAX_SHOWN = 20


@click.command("fleet")
@click.argument("places", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Store the tables in DIR as Parquet; passing DIR later re-queries them.",
)
@add_executor_options
@JSON_OPTION
def fleet_command(
    places: tuple[str, ...],
    output: Path | None,
    scheduler: str | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Find slow or divergent ranks in many traces, and the share of launch-bound time.

    PLACES are traces, run bundles, folders of them, addresses such as s3://bucket/traces, or one
    folder written by -o.
    """
    first = places[0]
    if len(places) == 1 and not is_address(first) and is_fleet(Path(first)):
        fleet = read_fleet(Path(first))
    else:
        locations = find_locations(places)
        fleet = collect_fleet(
            locations, lambda: create_executor(scheduler, workers), announce=_show_progress
        )
    if output is not None:
        write_fleet(fleet, output)
    all_findings = compute_answers(fleet)
    if as_json:
        failures = [(failed.source, failed.reason) for failed in fleet.failed]
        print_json("fleet", build_fleet_document(all_findings, failures))
        _exit_if_unread(fleet)
        return
    for index, findings in enumerate(all_findings):
        if index:
            click.echo()
        print_fleet_answer(findings)
    for failed in fleet.failed[:_MAX_SHOWN]:
        reason = failed.reason
        if not reason.startswith(failed.source):
            reason = f"{failed.source}: {reason}"
        print_text(f"could not read: {reason}", err=True)
    if fleet.failed:
        click.echo(f"{pluralize(len(fleet.failed), 'file')} could not be read", err=True)
    _exit_if_unread(fleet)


def _exit_if_unread(fleet: Fleet) -> None:
    if fleet.tables["ranks"].is_empty():
        raise click.exceptions.Exit(2)


def _show_progress(completed: int, of: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{completed:,} of {of:,} read", nl=completed == of, err=True)
