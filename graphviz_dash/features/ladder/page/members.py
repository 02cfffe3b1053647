"""List the graphs of a family in a table that links to their drawings."""

from __future__ import annotations

from typing import Final

import streamlit as st

from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport, MemberReport
from graphviz_dash.features.ladder.narrative import (
    KEY_METHODS,
    format_member_title,
    format_node_bytes,
    list_member_columns,
)
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.markup import show_paragraph
from graphviz_dash.ui.page.navigation import carry_parameters, show_link
from graphviz_dash.ui.page.tables import build_selection_callback, show_rows
from graphviz_dash.ui.state.catalogue import Entry

_MEMBER: Final = "member"


@st.fragment
def show_members_table(entry: Entry, report: LoopReport, family: FamilyReport) -> None:
    """Show the cost of each member; the selected row links to its graph.

    A fragment: selecting a row redraws only its links.
    """
    members = family.members
    selected = _read_selected_row(members)
    key = f"members-{entry.key}-{report.run}-{family.index}"
    show_rows(
        list_member_columns(family.family),
        members,
        "Graphs of the family; selecting a row links to its drawing",
        key=key,
        on_select=build_selection_callback(key, _select_row),
        selection_mode="single-cell",
    )
    methods = {member.member.method for member in members if member.member.method}
    sources = "; ".join(KEY_METHODS[method] for method in methods)
    method = f"Keys come from {sources}. " if sources else "Keys are unknown. "
    show_paragraph(
        f"{method}Select a row for its graph. GPU time is the median of sampled "
        "replays between CUDA events. Own memory is the pool memory left allocated by "
        f"the capture, plus {format_node_bytes(family.node_bytes)}.",
        "muted",
    )
    graphs = [] if selected is None else list(dict.fromkeys(members[selected].member.graphs))
    # Also without a row: a fragment can only redraw elements that the full run created.
    carry_parameters("graph", {"run": report.run, "graph": graphs[0]} if graphs else {})
    if selected is not None:
        _show_links(
            entry, report, graphs, format_member_title(family.family, members[selected].member)
        )
    # The end of the page script, which stores the address, does not run after a fragment.
    url_state.remember_address("graphs")


def _read_selected_row(members: tuple[MemberReport, ...]) -> int | None:
    value = url_state.get_value(_MEMBER) or ""
    row = int(value) if value.isdecimal() and len(value) < 9 else None
    return row if row is not None and row < len(members) else None


def _select_row(row: int | None) -> None:
    url_state.set_parameters({_MEMBER: None if row is None else str(row)})


def _show_links(entry: Entry, report: LoopReport, graphs: list[str], title: str) -> None:
    """Show links to at most eight segments."""
    with st.container(horizontal=True, key="member-links"):
        for number, graph in enumerate(graphs[:8], 1):
            query = {"run": report.run, "graph": graph}
            label = f"Show {title}" if len(graphs) == 1 else f"Segment {number} of {title}"
            show_link("graph", label, {url_state.EXPERIMENT: entry.name, **query})
