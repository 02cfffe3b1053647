"""How commands print: tables for people, JSON documents for programs, both free of escapes.

Every name that comes from a file goes through :func:`cell`, so that it can drive no terminal and
is never taken for markup.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from graphviz_dash.cli.narrow import fitting
from graphviz_dash.errors import printable
from graphviz_dash.exports.documents.envelope import versioned
from graphviz_dash.units import format_count

ABSENT: Final = format_count(None)
"""How an absent value looks in a table."""

_UNBROKEN: Final = 10_000
"""Columns of a table that goes into a file or pipe, where nothing should be folded."""


def cell(text: object, style: str = "") -> Text:
    """``text`` for a table, on one line, without control characters, taken literally."""
    return Text(printable(str(text)), style=style)


def shorten(text: str, length: int) -> str:
    """``text`` cut in its middle to ``length`` characters: kernel names differ at their ends."""
    if len(text) <= length:
        return text
    tail = (length - 1) // 3
    return f"{text[: length - 1 - tail]}…{text[-tail:]}"


def plain_table(*headings: str, right: Sequence[int] = ()) -> Table:
    """An empty table; the columns in ``right`` are right-justified."""
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        header_style="bold",
        show_edge=False,
    )
    for column, heading in enumerate(headings):
        side: Literal["left", "right"] = "right" if column in right else "left"
        # Folded where it does not fit: an ellipsis would take away what was asked for.
        table.add_column(cell(heading), justify=side, overflow="fold")
    return table


def print_table(table: Table, *, lead: int = 1, spare: Sequence[int] = ()) -> None:
    """Prints a table on stdout; on a terminal in parts as wide as that, which each begin with the
    first ``lead`` columns, or without those of the columns ``spare`` that have no room; unbroken
    elsewhere. Without colour where the terminal or NO_COLOR does not want it."""
    if sys.stdout.isatty():
        terminal = Console(markup=False, highlight=False, emoji=False)
        parts, left_out = fitting(table, terminal.width, lead, spare)
        for number, part in enumerate(parts):
            if number:
                click.echo()
            terminal.print(part)
        if left_out:
            click.echo(f"Left out, for the window is narrow: {', '.join(left_out)}.")
        return
    target = io.StringIO()
    # color_system=None: FORCE_COLOR must not write escapes into a pipe.
    console = Console(
        file=target,
        width=_UNBROKEN,
        markup=False,
        highlight=False,
        emoji=False,
        color_system=None,
        force_terminal=False,
    )
    console.print(table)
    # rich pads every line to the width of the table.
    for line in target.getvalue().splitlines():
        click.echo(line.rstrip())


def print_more(count: int, shown: int) -> None:
    """Says how many of ``count`` rows or parts were not ``shown``; nothing where all were."""
    if count > shown:
        click.echo(f"and {format_count(count - shown)} more; --json has all")


def print_heading(text: str) -> None:
    """Prints a heading after an empty line; bold on a terminal."""
    click.echo()
    click.echo(click.style(printable(text), bold=True))


def print_json(name: str, content: Mapping[str, object]) -> None:
    """Prints a versioned document on stdout, in ASCII: escapes reach no terminal."""
    document = versioned(name, content)
    click.echo(json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False))
