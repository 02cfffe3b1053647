"""``graphviz-dash cache``: caches of parsed traces and of the catalogue."""

from __future__ import annotations

from datetime import datetime

import click

from graphviz_dash.cli.text.output import create_table, print_table, print_text
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
        print_text(f"{format_bytes(size)} removed from {display_path(cache.folder)}")
        return
    entries = cache.list_entries()
    if entries:
        table = create_table("trace", "events", "size", "last used", right=(1, 2))
        for entry in entries:
            table.add_row(
                display_path(entry.path),
                format_count(entry.events),
                format_bytes(entry.size),
                f"{datetime.fromtimestamp(entry.last_used):%Y-%m-%d %H:%M}",
            )
        print_table(table)
    total = format_bytes(sum(entry.size for entry in entries))
    limit = format_bytes(cache.max_bytes)
    print_text(f"{total} of at most {limit} in {display_path(cache.folder)}")
    click.echo(f"{format_bytes(catalogue.measure_size())} in the catalogue of experiments")
