"""Command output: tables and JSON documents, both free of escapes.

Every name from a file goes through :class:`TextTable` or :func:`print_text`, so it cannot control
the terminal and is never parsed as markup.

Numbers are never broken, and words keep a readable width.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeVar

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.style import StyleType
from rich.table import Column as RichColumn
from rich.table import Table
from rich.text import Text

from graphviz_dash.cli.text.brief import COLUMNS, is_brief
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.exports.documents.envelope import add_version
from graphviz_dash.narrative.columns import Column
from graphviz_dash.units import format_count

_Row = TypeVar("_Row")

ABSENT_TEXT: Final = format_count(None)

_UNBROKEN_WIDTH: Final = 10_000
"""Width of a table for a file or pipe, where nothing folds."""

_MAX_RICH_ROWS: Final = 500
"""Longer tables have neither folds nor colours."""


def print_text(text: str, *, err: bool = False) -> None:
    """Print ``text`` with visible control characters, on stderr if ``err``."""
    click.echo(escape_control_characters(text), err=err)


class TextTable(Table):
    """A table that shows each value as a cell of :func:`build_cell`."""

    def add_row(
        self, *cells: object, style: StyleType | None = None, end_section: bool = False
    ) -> None:
        """Add a row of values and of styled cells."""
        texts = (cell if isinstance(cell, Text) else build_cell(cell) for cell in cells)
        super().add_row(*texts, style=style, end_section=end_section)


def build_cell(text: object, style: str = "") -> RenderableType:
    """Convert ``text`` to a literal one-line cell without control characters."""
    literal = escape_control_characters(str(text))
    # The consoles below parse no markup. A Text costs ten times as much as a string.
    return Text(literal, style=style) if style else literal


def shorten(text: str, length: int) -> str:
    """Shorten ``text`` to ``length`` characters by cutting the middle: kernel names differ at both
    ends."""
    if len(text) <= length:
        return text
    tail = (length - 1) // 3
    return f"{text[: length - 1 - tail]}…{text[-tail:]}"


def create_table(*headings: str, right: Sequence[int] = ()) -> TextTable:
    """Create an empty table; the columns in ``right`` are right-aligned."""
    table = TextTable(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        header_style="bold",
        show_edge=False,
    )
    for column, heading in enumerate(headings):
        side: Literal["left", "right"] = "right" if column in right else "left"
        # Fold instead of truncating: an ellipsis would hide requested text.
        table.add_column(build_cell(heading), justify=side, overflow="fold")
    return table


def print_rows(
    columns: Sequence[Column[_Row]],
    rows: Sequence[_Row],
    *,
    lead: int = 1,
    spare: Sequence[int] = (),
) -> None:
    """Print ``rows`` under the columns shown on the terminal."""
    print_sections(columns, [rows], lead=lead, spare=spare)


def print_sections(
    columns: Sequence[Column[_Row]],
    sections: Sequence[Sequence[_Row]],
    *,
    lead: int = 1,
    spare: Sequence[int] = (),
) -> None:
    """Print several groups of rows as one table."""
    visible = [column for column in columns if column.terminal_heading is not None]
    numbers = [index for index, column in enumerate(visible) if column.unit.is_number]
    table = create_table(*(column.terminal_heading or "" for column in visible), right=numbers)
    for rows in sections:
        for row in rows:
            table.add_row(*(_build_row_cell(column, row) for column in visible))
        if len(sections) > 1:
            table.add_section()
    print_table(table, lead=lead, spare=spare)


def _build_row_cell(column: Column[_Row], row: _Row) -> RenderableType:
    text = column.format(row)
    if column.limit is not None:
        text = shorten(text, column.limit)
    return build_cell(text, "dim" if column.is_dim else "")


def print_table(table: Table, *, lead: int = 1, spare: Sequence[int] = ()) -> None:
    """Print a table on stdout. On a terminal, split it into parts that repeat the first ``lead``
    columns, or omit columns of ``spare`` that do not fit. Elsewhere, print it unbroken. Colour
    follows the terminal and NO_COLOR. Brief output has the first part only."""
    if is_brief():
        (table, *_), _ = fit_table(table, COLUMNS, lead, spare)
    elif sys.stdout.isatty():
        terminal = Console(markup=False, highlight=False, emoji=False)
        parts, omitted = fit_table(table, terminal.width, lead, spare)
        for number, part in enumerate(parts):
            if number:
                click.echo()
            if _has_many_rows(part):
                click.echo("\n".join(_format_lines(part)))
            else:
                terminal.print(part)
        if omitted:
            click.echo(f"Columns omitted to fit the window: {', '.join(omitted)}.")
        return
    elif _has_many_rows(table):
        click.echo("\n".join(_format_lines(table)))
        return
    target = io.StringIO()
    # color_system=None: FORCE_COLOR must not write escapes into a pipe.
    console = Console(
        file=target,
        width=COLUMNS if is_brief() else _UNBROKEN_WIDTH,
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


def _has_many_rows(table: Table) -> bool:
    return len(table.rows) > _MAX_RICH_ROWS and not any(row.end_section for row in table.rows)


def _format_lines(table: Table) -> Iterator[str]:
    """Format a table without folding, a hundred times as fast as rich (3 ms per row)."""
    columns = []
    for column in table.columns:
        texts = [str(column.header), *map(str, column.cells)]
        lengths = [len(text) if text.isascii() else cell_len(text) for text in texts]
        width = max(lengths)
        right = column.justify == "right"
        columns.append(
            [
                " " * (width - length) + text if right else text + " " * (width - length)
                for text, length in zip(texts, lengths, strict=True)
            ]
        )
    rows = zip(*columns, strict=True)
    head = "  ".join(next(rows))
    yield head.rstrip()
    yield "─" * cell_len(head)
    for row in rows:
        yield "  ".join(row).rstrip()


def print_more(count: int, visible_count: int, remedy: str = "--json has all") -> None:
    """Print the number of rows or parts beyond ``visible_count``, and how to see them; nothing if
    all are shown.
    """
    if count > visible_count:
        click.echo(f"and {format_count(count - visible_count)} more; {remedy}")


def print_heading(text: str) -> None:
    """Print a heading after an empty line; bold on a terminal."""
    click.echo()
    click.echo(click.style(escape_control_characters(text), bold=True))


def print_json(name: str, content: object) -> None:
    """Print a versioned document on stdout in ASCII, free of terminal escapes."""
    document = add_version(name, content)
    click.echo(json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False))


_MIN_WORD_WIDTH: Final = 20
_GAP: Final = 2


def fit_table(
    table: Table, width: int, lead: int, spare: Sequence[int]
) -> tuple[list[Table], list[str]]:
    """Split ``table`` into parts for ``width`` characters, each with the first ``lead`` columns.
    Omits columns of ``spare``, in order, if needed. Returns the parts and the omitted headings.
    Headings of numbers that leave no room for the first columns are shortened."""
    _shorten_headings(table, width, lead)
    kept, omitted = list(range(len(table.columns))), []
    for column in spare:
        if _has_room(table, kept, width, unfolded=True):
            break
        kept.remove(column)
        omitted.append(str(table.columns[column].header))
    if spare or _has_room(table, kept, width):
        return [_build_part(table, kept)], omitted
    return [_build_part(table, columns) for columns in _split_columns(table, width, lead)], omitted


def _shorten_headings(table: Table, width: int, lead: int) -> None:
    lead_width = sum(_measure_width(column) + _GAP for column in table.columns[:lead])
    for value, *others in _group_columns(table, lead):
        column = table.columns[value]
        if column.justify != "right":
            continue
        other_width = sum(_measure_width(table.columns[other]) + _GAP for other in others)
        cell_width = max((len(str(cell)) for cell in column.cells), default=0)
        # The first columns may fold, but only if the numbers need their width.
        room = max(width - lead_width - other_width, cell_width, _MIN_WORD_WIDTH)
        column.header = shorten(str(column.header), room)


def _split_columns(table: Table, width: int, lead: int) -> Iterator[list[int]]:
    first = list(range(lead))
    part = first
    for unit in _group_columns(table, lead):
        if len(part) > lead and not _has_room(table, [*part, *unit], width):
            yield part
            part = first
        part = [*part, *unit]
    yield part


def _group_columns(table: Table, lead: int) -> Iterator[list[int]]:
    """Group columns after the first ones; a spread stays next to its value."""
    unit: list[int] = []
    for column in range(lead, len(table.columns)):
        if unit and str(table.columns[column].header) != "spread":
            yield unit
            unit = []
        unit.append(column)
    if unit:
        yield unit


def _has_room(table: Table, columns: Sequence[int], width: int, *, unfolded: bool = False) -> bool:
    """Return whether ``columns`` fit side by side. Words may fold unless ``unfolded``."""
    widths = [_measure_width(table.columns[column]) for column in columns]
    if not unfolded:
        widths = [
            column_width
            if table.columns[column].justify == "right"
            else min(column_width, _MIN_WORD_WIDTH)
            for column, column_width in zip(columns, widths, strict=True)
        ]
    return sum(widths) + _GAP * (len(widths) - 1) <= width


def _measure_width(column: RichColumn) -> int:
    texts = (str(text) for text in (column.header, *column.cells))
    return max(len(line) for text in texts for line in (text.splitlines() or [""]))


def _build_part(table: Table, columns: Sequence[int]) -> Table:
    part = Table(
        box=table.box,
        padding=table.padding,
        pad_edge=table.pad_edge,
        header_style=table.header_style,
        show_edge=table.show_edge,
    )
    for column in columns:
        source = table.columns[column]
        number = source.justify == "right"
        part.add_column(
            source.header,
            justify=source.justify,
            overflow="fold",
            no_wrap=number,
            min_width=_measure_width(source)
            if number
            else min(_measure_width(source), _MIN_WORD_WIDTH),
        )
    cells = [list(table.columns[column].cells) for column in columns]
    for index, row in enumerate(table.rows):
        part.add_row(*(column_cells[index] for column_cells in cells), end_section=row.end_section)
    return part
