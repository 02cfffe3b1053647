"""Tables in terminals that are narrower than they are.

A table that is folded in every column to the width of a terminal reads as a column of syllables.
Numbers are never broken here and words keep a room in which they can be read: where that does not
suffice, columns that a reader can spare are left out, or the table is printed in parts below each
other, each with its first columns again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.table import Column, Table

_LEAST: Final = 20
"""Characters of a column of words that can still be read."""
_GAP: Final = 2
"""Between two columns."""


def fitting(
    table: Table, width: int, lead: int, spare: Sequence[int]
) -> tuple[list[Table], list[str]]:
    """The parts of ``table`` to be printed in a terminal of ``width`` characters, and the headings
    of what was left out: of the columns ``spare``, in their order, as many as must be. Each part
    begins with the ``lead`` first columns."""
    kept, left_out = list(range(len(table.columns))), []
    for column in spare:
        if _fits(table, kept, width, whole=True):
            break
        kept.remove(column)
        left_out.append(str(table.columns[column].header))
    if spare or _fits(table, kept, width):
        return [_part(table, kept)], left_out
    return [_part(table, columns) for columns in _parts(table, width, lead)], left_out


def _parts(table: Table, width: int, lead: int) -> Iterator[list[int]]:
    first = list(range(lead))
    part = first
    for unit in _units(table, lead):
        if len(part) > lead and not _fits(table, [*part, *unit], width):
            yield part
            part = first
        part = [*part, *unit]
    yield part


def _units(table: Table, lead: int) -> Iterator[list[int]]:
    """Columns behind the first ones; a spread stays beside its value."""
    unit: list[int] = []
    for column in range(lead, len(table.columns)):
        if unit and str(table.columns[column].header) != "spread":
            yield unit
            unit = []
        unit.append(column)
    if unit:
        yield unit


def _fits(table: Table, columns: Sequence[int], width: int, *, whole: bool = False) -> bool:
    """Whether ``columns`` fit side by side; words folded as far as may be unless ``whole``."""
    widths = [_width(table.columns[column]) for column in columns]
    if not whole:
        widths = [
            own if table.columns[column].justify == "right" else min(own, _LEAST)
            for column, own in zip(columns, widths, strict=True)
        ]
    return sum(widths) + _GAP * (len(widths) - 1) <= width


def _width(column: Column) -> int:
    texts = (str(text) for text in (column.header, *column.cells))
    return max(len(line) for text in texts for line in (text.splitlines() or [""]))


def _part(table: Table, columns: Sequence[int]) -> Table:
    part = Table(
        box=table.box,
        padding=table.padding,
        pad_edge=table.pad_edge,
        header_style=table.header_style,
        show_edge=table.show_edge,
    )
    for column in columns:
        own = table.columns[column]
        number = own.justify == "right"
        part.add_column(
            own.header,
            justify=own.justify,
            overflow="fold",
            no_wrap=number,
            min_width=_width(own) if number else min(_width(own), _LEAST),
        )
    cells = [list(table.columns[column].cells) for column in columns]
    for index, row in enumerate(table.rows):
        part.add_row(*(own[index] for own in cells), end_section=row.end_section)
    return part
