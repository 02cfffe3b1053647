"""``graphviz-dash cache``: caches of parsed traces and of the catalogue."""

from __future__ import annotations

from datetime import datetime

import click

from graphviz_dash.cli.text.output import build_cell, create_table, print_table
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.exports.documents.values import display_path
from graphviz_dash.ingest.cache import get_default_cache
from graphviz_dash.ingest.summaries import get_default_summaries
from graphviz_dash.units import format_bytes, format_count


@click.command("cache")
@click.option("--clear", is_flag=True, help="Clear the cache.")
def cache_command(clear: bool) -> None:
    """Show or clear the cache of parsed traces.

    Tables of larger traces are stored outside the bundles, so that they open without parsing. The
    folder also contains the catalogue of experiments. GRAPHVIZ_DASH_CACHE sets another folder, or
    "off".
    """
    cache, catalogue = get_default_cache(), get_default_summaries()
    if cache is None or catalogue is None:
        click.echo("The cache is off")
        return
    if clear:
        size = cache.clear() + catalogue.clear()
        click.echo(
            escape_control_characters(
                f"{format_bytes(size)} removed from {display_path(cache.folder)}"
            )
        )
        return
    entries = cache.list_entries()
    if entries:
        table = create_table("trace", "events", "size", "last used", right=(1, 2))
        for entry in entries:
            table.add_row(
                build_cell(display_path(entry.path)),
                build_cell(format_count(entry.events)),
                build_cell(format_bytes(entry.size)),
                build_cell(_format_time(entry.last_used)),
            )
        print_table(table)
    total = format_bytes(sum(entry.size for entry in entries))
    limit = format_bytes(cache.max_bytes)
    click.echo(
        escape_control_characters(f"{total} of at most {limit} in {display_path(cache.folder)}")
    )
    click.echo(f"{format_bytes(catalogue.measure_size())} in the catalogue of experiments")


def _format_time(time: float) -> str:
    return f"{datetime.fromtimestamp(time):%Y-%m-%d %H:%M}"
