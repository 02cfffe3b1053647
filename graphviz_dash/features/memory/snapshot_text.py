"""Live memory of an allocator snapshot on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click

from graphviz_dash.cli.text.output import build_cell, create_table, print_heading, print_table
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.ingest.formats.snapshot_blocks import MemoryShare, SnapshotBlocks
from graphviz_dash.units import format_bytes, format_count, pluralize


def print_snapshot(blocks: SnapshotBlocks, count: int) -> None:
    """Print the live memory of a snapshot, with ``count`` sizes and lines."""
    live = sum(share.live_bytes for share in blocks.pools)
    segment_bytes = sum(share.reserved_bytes or 0 for share in blocks.pools)
    number = sum(share.blocks for share in blocks.pools)
    click.echo(
        f"{format_bytes(live)} in {pluralize(number, 'live block')} of "
        f"{format_bytes(segment_bytes)} reserved, at the time of the snapshot."
    )
    _print_shares("By stream", blocks.streams, len(blocks.streams))
    _print_shares("By pool", blocks.pools, len(blocks.pools))
    _print_shares("By block size", blocks.sizes, count)
    _print_shares("By allocating line", blocks.lines, count)


def _print_shares(title: str, shares: Sequence[MemoryShare], count: int) -> None:
    if not shares or not count:
        return
    print_heading(title)
    has_segments = shares[0].reserved_bytes is not None
    headings = ["", "blocks", "live", *(["reserved"] if has_segments else [])]
    table = create_table(*headings, right=range(1, len(headings)))
    for share in shares[:count]:
        cells = [share.label, format_count(share.blocks), format_bytes(share.live_bytes)]
        if share.reserved_bytes is not None:
            cells.append(format_bytes(share.reserved_bytes))
        table.add_row(*(build_cell(escape_control_characters(cell)) for cell in cells))
    print_table(table)
    if len(shares) > count:
        click.echo(f"  {count} of {len(shares)}, the largest first")
