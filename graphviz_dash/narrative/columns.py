"""Columns of tables for pages, reports and the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Literal, TypeVar

from msgspec import Struct

from graphviz_dash.units import (
    format_bytes,
    format_count,
    format_ns,
    format_percent,
    format_ratio,
    format_signed_bytes,
)

Row = TypeVar("Row")


class Unit(Struct, frozen=True):
    """Format of the values of a column."""

    format: Callable[[Any], str]
    suffix: str = ""
    """Unit in the heading of plain numbers."""
    scale: float = 1
    """Divisor of a plain number."""
    pattern: str | None = None
    """Format of a plain number, as Streamlit names it. None: as it is."""
    is_number: bool = True
    """Numbers are right-aligned."""


def _format_text(value: str | None) -> str:
    return "–" if value is None else str(value)


TEXT: Final = Unit(_format_text, is_number=False)
NUMBER_TEXT: Final = Unit(_format_text)
COUNT: Final = Unit(format_count)
SHARE: Final = Unit(format_percent, pattern="percent")
RATIO: Final = Unit(format_ratio, pattern="%.2fx")
MICROSECONDS: Final = Unit(format_ns, " (µs)", 1e3, "%.2f")
"""Values in ns."""
MILLISECONDS: Final = Unit(format_ns, " (ms)", 1e6, "%.2f")
"""Values in ns."""
MEBIBYTES: Final = Unit(format_bytes, " (MiB)", 1 << 20, "%.2f")
"""Values in bytes."""
SIGNED_MEBIBYTES: Final = Unit(format_signed_bytes, " (MiB)", 1 << 20, "%+.2f")
"""Differences in bytes."""


class Column(Struct, Generic[Row], frozen=True):
    """A column of a table."""

    title: str | None
    """Heading on pages and in reports. None: terminal only."""
    read: Callable[[Row], Any]
    """Reads the value of a row. None if unknown."""
    unit: Unit = TEXT
    terminal_title: str | None = ""
    """Empty: the title in lower case; None: pages only."""
    help: str | None = None
    """Explanation of the heading on pages."""
    width: int | Literal["medium", "large"] | None = None
    """Width on pages, numbers in pixels. None: as the content needs."""
    is_sticky: bool = False
    """The column stays visible while a page scrolls."""
    is_dim: bool = False
    """Dim on the terminal."""
    explain: Callable[[Row], str] | None = None
    """Explanation of a value on pages, empty for none."""
    note: Callable[[Row], str] | None = None
    """Text below a value on pages, empty for none."""
    limit: int | None = None
    """Characters on the terminal. None: as many as the content has."""

    @property
    def terminal_heading(self) -> str | None:
        """Heading on the terminal, None if the column is not shown there."""
        if self.terminal_title != "" or self.title is None:
            return self.terminal_title
        return lower_first_letter(self.title)

    def format(self, row: Row) -> str:
        """Format the value of ``row`` with its unit."""
        return self.unit.format(self.read(row))


def omit_empty_columns(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> list[Column[Row]]:
    """Omit the columns without a known value."""
    return [column for column in columns if any(column.read(row) is not None for row in rows)]


def lower_first_letter(title: str) -> str:
    """Lower the first letter, unless it starts an acronym."""
    return title if title[:2].isupper() else title[:1].lower() + title[1:]
