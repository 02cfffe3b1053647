"""Draw rows under declared columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import streamlit as st

from graphviz_dash.errors import escape_control_characters
from graphviz_dash.narrative.columns import Column
from graphviz_dash.ui.page.markup import escape_html, format_element

_Row = TypeVar("_Row")
_MAX_FULL_ROWS: Final = 12
"""Maximum number of rows of a table in full height."""
_HEIGHT: Final = 420
"""Height of a longer table in pixels."""


def show_rows(
    columns: Sequence[Column[_Row]],
    rows: Sequence[_Row],
    alt: str,
    **options: Any,
) -> None:
    """Show ``rows`` as a sortable table with plain numbers; their unit is in the heading.

    Longer tables scroll. ``options`` are those of ``st.dataframe``.
    """
    visible = {f"{column.title}{column.unit.suffix}": column for column in _list_shown(columns)}
    st.dataframe(
        {
            heading: [_convert(column.read(row), column.unit.scale) for row in rows]
            for heading, column in visible.items()
        },
        column_config={heading: _configure(column) for heading, column in visible.items()},
        hide_index=True,
        **{
            "height": "content" if len(rows) <= _MAX_FULL_ROWS else _HEIGHT,
            "placeholder": "–",
            **options,
        },
        alt=alt,
    )


def _configure(column: Column[Any]) -> Any:
    shared: dict[str, Any] = {
        "width": column.width,
        "help": column.help,
        "pinned": column.is_sticky or None,
    }
    if column.unit.pattern is not None:
        return st.column_config.NumberColumn(format=column.unit.pattern, **shared)
    return st.column_config.Column(**shared)


def list_headings(columns: Sequence[Column[_Row]]) -> list[str]:
    """List the headings of columns as markup."""
    return [escape_html(column.title) for column in _list_shown(columns)]


def format_rows(columns: Sequence[Column[_Row]], rows: Sequence[_Row]) -> list[list[str]]:
    """Format ``rows`` as cells of markup, with units."""
    visible = _list_shown(columns)
    return [[_format_cell(column, row) for column in visible] for row in rows]


def _list_shown(columns: Sequence[Column[_Row]]) -> list[Column[_Row]]:
    return [column for column in columns if column.title is not None]


def _convert(value: Any, scale: float) -> Any:
    if isinstance(value, str):
        return escape_control_characters(value)
    return value if value is None or scale == 1 else value / scale


def _format_cell(column: Column[_Row], row: _Row) -> str:
    text = escape_html(column.format(row))
    return format_element("span", text, "num") if column.unit.is_number else text
