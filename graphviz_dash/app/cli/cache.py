"""``graphviz-dash cache``: the traces that were read once and are kept to open unparsed."""

from __future__ import annotations

from datetime import datetime

import click

from graphviz_dash.cli.text.output import cell, plain_table, print_table
from graphviz_dash.errors import printable
from graphviz_dash.exports.documents.values import shown
from graphviz_dash.ingest.cache import default_cache
from graphviz_dash.units import format_bytes, format_count


@click.command("cache")
@click.option("--clear", is_flag=True, help="Remove all of it.")
def cache_command(clear: bool) -> None:
    """Show or clear the cache of traces that were read once.

    Larger traces of run bundles are kept as tables outside the bundles, so that they open without
    being parsed again. GRAPHVIZ_DASH_CACHE names another folder, or is "off".
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
        for kept in entries:
            table.add_row(
                cell(shown(kept.path)),
                cell(format_count(kept.events)),
                cell(format_bytes(kept.size)),
                cell(_day(kept.used)),
            )
        print_table(table)
    total = format_bytes(sum(kept.size for kept in entries))
    most = format_bytes(cache.most_bytes)
    click.echo(printable(f"{total} of at most {most} in {shown(cache.folder)}"))


def _day(time: float) -> str:
    return f"{datetime.fromtimestamp(time):%Y-%m-%d %H:%M}"
