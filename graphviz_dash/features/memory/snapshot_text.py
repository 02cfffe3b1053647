"""Allocator snapshots on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click

from graphviz_dash.cli.text.output import build_cell, create_table, print_heading, print_table
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.memory.narrative import describe_snapshot
from graphviz_dash.features.memory.snapshots import SNAPSHOT_GROUPS
from graphviz_dash.model.run import MemoryShare, MemoryUse
from graphviz_dash.units import format_bytes, format_count


def print_snapshot(use: MemoryUse, count: int, name: str | None = None) -> None:
    """Print the memory of a snapshot, with ``count`` sizes and lines.

    ``name`` is its run; None for a single snapshot.
    """
    sentence = describe_snapshot(use)
    click.echo(escape_control_characters(sentence if name is None else f"{name}: {sentence}"))
    if use.live is None:
        return
    for title, attribute in SNAPSHOT_GROUPS:
        shares: Sequence[MemoryShare] = getattr(use.live, attribute)
        has_segments = any(share.reserved_bytes is not None for share in shares)
        _print_shares(title, shares, len(shares) if has_segments else count)


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
