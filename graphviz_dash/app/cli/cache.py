"""``graphviz-dash cache``: cache of parsed traces."""

from __future__ import annotations

from datetime import datetime

import click

from graphviz_dash.cli.text.output import cell, plain_table, print_table
from graphviz_dash.errors import printable
from graphviz_dash.exports.documents.values import shown
from graphviz_dash.ingest.cache import default_cache
from graphviz_dash.units import format_bytes, format_count


@click.command("cache")
@click.option("--clear", is_flag=True, help="Clear the cache.")
def cache_command(clear: bool) -> None:
    """Show or clear the cache of parsed traces.

    Tables of larger traces are stored outside the bundles, so that they open without parsing.
    GRAPHVIZ_DASH_CACHE sets another folder, or "off".
    """
    cache = default_cache()
    if cache is None:
        click.echo("The cache is off")
        return
    if clear:
        click.echo(printable(f"{format_bytes(cache.clear())} removed from {shown(cache.folder)}"))
        return
    entries = cache.entries()
    if entries:
        table = plain_table("trace", "events", "size", "last used", right=(1, 2))
        for entry in entries:
            table.add_row(
                cell(shown(entry.path)),
                cell(format_count(entry.events)),
                cell(format_bytes(entry.size)),
                cell(_day(entry.used)),
            )
        print_table(table)
    total = format_bytes(sum(entry.size for entry in entries))
    limit = format_bytes(cache.most_bytes)
    click.echo(printable(f"{total} of at most {limit} in {shown(cache.folder)}"))


def _day(time: float) -> str:
    return f"{datetime.fromtimestamp(time):%Y-%m-%d %H:%M}"
