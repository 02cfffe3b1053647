"""List the graphs of a family in a table that links to their drawings."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

from graphviz_dash.analysis.loop.family_report import (
    FamilyReport,
    LoopReport,
    MemberReport,
)
from graphviz_dash.analysis.loop.keys import format_key
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.ladder.narrative import (
    KEY_METHODS,
    format_member_title,
    format_node_bytes,
)
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.markup import escape_html, format_element, show_markup
from graphviz_dash.ui.page.navigation import carry_parameters, show_link
from graphviz_dash.ui.page.picked_row import build_selection_callback
from graphviz_dash.ui.state.catalogue import Entry

_MIB: Final = 1 << 20
_MEMBER: Final = "member"
"""URL parameter of the selected row."""


@st.fragment
def show_members_table(entry: Entry, report: LoopReport, family: FamilyReport) -> None:
    """Show the cost of each member of ``family``; the selected row links to its graph.

    A fragment: selecting a row redraws only its links.
    """
    members = family.members
    selected = _read_selected_row(members)
    columns = _build_columns(family)
    key = f"members-{entry.key}-{report.run}-{family.index}"
    st.dataframe(
        columns,
        column_config={
            name: st.column_config.NumberColumn(format="%.2f")
            for name in columns
            if name.endswith(("(µs)", "(ms)", "(MiB)"))
        },
        hide_index=True,
        height="content" if len(members) <= 12 else 420,
        key=key,
        on_select=build_selection_callback(key, _select_row),
        selection_mode="single-cell",
        placeholder="–",
        alt="Graphs of the family; selecting a row links to its drawing",
    )
    methods = {member.member.method for member in members if member.member.method}
    sources = "; ".join(KEY_METHODS[method] for method in methods)
    method = f"Keys come from {sources}. " if sources else "Keys are unknown. "
    show_markup(
        format_element(
            "p",
            escape_html(
                f"{method}Select a row for its graph. GPU time is the median of sampled "
                "replays between CUDA events. Own memory is the pool memory left allocated by "
                f"the capture, plus {format_node_bytes(family.node_bytes)}."
            ),
            "muted",
        )
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


def _build_columns(family: FamilyReport) -> dict[str, list[Any]]:
    members = family.members
    memory_cells = [
        None
        if member.exclusive_bytes is None and member.executable_bytes is None
        else ((member.exclusive_bytes or 0) + (member.executable_bytes or 0)) / _MIB
        for member in members
    ]
    return {
        "Key": [
            escape_control_characters(format_key(family.family, member.member))
            for member in members
        ],
        "Steps": [member.steps for member in members],
        "GPU time (µs)": [member.gpu.median / 1e3 if member.gpu else None for member in members],
        "Samples": [len(member.gpu_ns) for member in members],
        "Launch (µs)": [
            member.launch.median / 1e3 if member.launch else None for member in members
        ],
        "Step interval (µs)": [
            member.period.median / 1e3 if member.period else None for member in members
        ],
        "Capture (ms)": [member.capture_ns / 1e6 for member in members],
        "First launch (µs)": [
            None if member.first_launch_ns is None else member.first_launch_ns / 1e3
            for member in members
        ],
        "Own memory (MiB)": memory_cells,
        "Pool growth (MiB)": [
            None if member.pool_growth_bytes is None else member.pool_growth_bytes / _MIB
            for member in members
        ],
        "Nodes": [member.nodes for member in members],
        "Graphs": [len(set(member.member.graphs)) for member in members],
    }


def _read_selected_row(members: tuple[MemberReport, ...]) -> int | None:
    value = url_state.get_value(_MEMBER) or ""
    row = int(value) if value.isdecimal() and len(value) < 9 else None
    return row if row is not None and row < len(members) else None


def _select_row(row: int | None) -> None:
    url_state.set_parameters({_MEMBER: None if row is None else str(row)})


def _show_links(entry: Entry, report: LoopReport, graphs: list[str], title: str) -> None:
    """Show links to the graphs of the selected row, at most eight segments."""
    with st.container(horizontal=True, key="member-links"):
        for number, graph in enumerate(graphs[:8], 1):
            query = {"run": report.run, "graph": graph}
            label = f"Show {title}" if len(graphs) == 1 else f"Segment {number} of {title}"
            show_link("graph", label, {url_state.EXPERIMENT: entry.name, **query})
