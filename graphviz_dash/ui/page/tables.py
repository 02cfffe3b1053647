"""Draw rows under declared columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import streamlit as st

from graphviz_dash.errors import escape_control_characters
from graphviz_dash.narrative.columns import Column
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.markup import escape_html, format_element, format_table, format_text

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
    visible = {
        escape_control_characters(f"{column.title}{column.unit.suffix}"): column
        for column in _list_shown(columns)
    }
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


def format_row_table(
    columns: Sequence[Column[_Row]],
    groups: Iterable[tuple[str, Sequence[_Row]]],
    kind: str = "figures runs",
) -> str:
    """Format groups of rows, with titles, as a table of markup that scrolls sideways."""
    visible = _list_shown(columns)
    cells = [
        (escape_html(title), [[_format_cell(column, row) for column in visible] for row in rows])
        for title, rows in groups
    ]
    table = format_table([escape_html(column.title) for column in visible], cells, kind)
    return format_element("div", table, "scroll")


def _list_shown(columns: Sequence[Column[_Row]]) -> list[Column[_Row]]:
    return [column for column in columns if column.title is not None]


def _convert(value: Any, scale: float) -> Any:
    if isinstance(value, str):
        return escape_control_characters(value)
    return value if value is None or scale == 1 else value / scale


def _format_cell(column: Column[_Row], row: _Row) -> str:
    text = escape_html(column.format(row))
    if column.unit.is_number:
        text = format_element("span", text, "num")
    if column.explain is not None and (explanation := column.explain(row)):
        text = format_element("abbr", text, title=explanation, tabindex="0")
    if column.note is not None and (note := column.note(row)):
        text += format_text("span", note, "spread")
    return text


def build_selection_callback(key: str, pick: Callable[[int | None], None]) -> Callable[[], None]:
    """Return a callback that passes the selected row of the table ``key``, or None, to ``pick``."""

    def handle_selection() -> None:
        state: Any = st.session_state.get(key)
        cells = state["selection"]["cells"] if state else []
        pick(cells[0][0] if cells else None)

    return url_state.only_on_this_page(handle_selection)
