"""Tables in terminals narrower than the table.

Numbers are never broken, and words keep a readable width. If space is short, expendable columns are
omitted, or the table is printed in parts that repeat the first columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.table import Column, Table

_MIN_WORD_WIDTH: Final = 20
"""Minimum readable width of a word column, in characters."""
_GAP: Final = 2
"""Characters between two columns."""


def fit_table(
    table: Table, width: int, lead: int, spare: Sequence[int]
) -> tuple[list[Table], list[str]]:
    """Split ``table`` into parts for ``width`` characters, each with the first ``lead`` columns.
    Omits columns of ``spare``, in order, if needed. Returns the parts and the omitted headings."""
    kept, omitted = list(range(len(table.columns))), []
    for column in spare:
        if _has_room(table, kept, width, unfolded=True):
            break
        kept.remove(column)
        omitted.append(str(table.columns[column].header))
    if spare or _has_room(table, kept, width):
        return [_build_part(table, kept)], omitted
    return [_build_part(table, columns) for columns in _split_columns(table, width, lead)], omitted


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
    """Return whether ``columns`` fit side by side. Words may fold unless ``whole``."""
    widths = [_measure_width(table.columns[column]) for column in columns]
    if not unfolded:
        widths = [
            column_width
            if table.columns[column].justify == "right"
            else min(column_width, _MIN_WORD_WIDTH)
            for column, column_width in zip(columns, widths, strict=True)
        ]
    return sum(widths) + _GAP * (len(widths) - 1) <= width


def _measure_width(column: Column) -> int:
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
