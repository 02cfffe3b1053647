"""Show times, requests and losses by size, and the graph costs of a family."""

from __future__ import annotations

from typing import Final

import streamlit as st
from msgspec import Struct
from streamlit.delta_generator import DeltaGenerator

from graphviz_dash.analysis.loop.family_report import FamilyReport
from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.errors import InputError
from graphviz_dash.features.ladder.analysis.kernel_changes import KernelChange
from graphviz_dash.features.ladder.charts.families import family_chart, stairs_chart
from graphviz_dash.features.ladder.narrative import (
    changes_sentence,
    costs_sentence,
    loss_sentence,
    sizes_sentence,
    step_sentence,
)
from graphviz_dash.features.ladder.page.state import changes, changes_job, changes_known
from graphviz_dash.ui.page.frame import draw, loop_figure
from graphviz_dash.ui.page.markup import element, show, table, text
from graphviz_dash.ui.state.jobs import Job
from graphviz_dash.units import format_count

_SHOWN: Final = 30
"""Maximum number of listed kernel changes."""
_REPLACEMENTS: Final = 12
"""Maximum number of replacements listed per change."""
_BETWEEN: Final = 0.4
"""Seconds between checks whether the graphs are loaded."""


class Slots(Struct, frozen=True):
    """Placeholders filled once the graphs are loaded."""

    picture: DeltaGenerator
    """Chart over size, which then gets marks."""
    words: DeltaGenerator
    """Text about kernels below the chart."""


def size_panel(key: str, number: int, family_index: int, family: FamilyReport) -> Slots | None:
    """Show replay time, requests and losses by size.

    The indices select a report and a family in it. Returns None if there is nothing left to mark.
    """
    st.header("Replay time, requests and overhead by size", anchor=False)
    sentences = " ".join(filter(None, (loss_sentence(family), sizes_sentence(family))))
    show(element("p", text(sentences), "said"))
    slots = Slots(st.empty(), st.container())
    is_ready = changes_known(key, number, family_index)
    marks = changes(key, number, family_index) if is_ready else ()
    with slots.picture:
        _picture(key, number, family, marks)
    if is_ready:
        _say(slots, marks)
    show(element("p", text(step_sentence(family)), "muted"))
    return None if is_ready else slots


def _picture(key: str, number: int, family: FamilyReport, marks: tuple[KernelChange, ...]) -> None:
    chart_key = ("family", number, family.index, len(marks))
    chart = loop_figure(key, chart_key, lambda seen: family_chart(family, marks, seen))
    if chart is None:
        show(element("p", "No replay of a known size was timed on the GPU", "muted"))
    else:
        draw(chart, f"family-{key}-{family.index}-{len(marks)}")


def mark_other_kernels(
    key: str, number: int, family_index: int, family: FamilyReport, slots: Slots
) -> None:
    """Mark sizes where the kernel selection changes.

    Large graphs are loaded in the background while the page stays responsive.
    """
    with slots.words:
        try:
            job = changes_job(key, number, family_index)
            if job is not None and not job.ended:
                st.fragment(_await_changes, run_every=_BETWEEN)(job)
                return
            marks = changes(key, number, family_index)
        except InputError as error:
            show(element("p", text(f"The graphs cannot be read: {error}"), "trouble-text"))
            return
    _say(slots, marks)
    if marks:
        with slots.picture:
            _picture(key, number, family, marks)


def _await_changes(job: Job) -> None:
    if job.ended:
        st.rerun()
    show(element("p", "Loading the graphs to compare kernels…", "muted"))


def _say(slots: Slots, marks: tuple[KernelChange, ...]) -> None:
    with slots.words:
        show(element("p", text(changes_sentence(marks)), "said"))
        if marks:
            with st.expander("Kernel changes", icon=":material/swap_horiz:"):
                show(element("div", _changes_table(marks), "scroll"))


def _changes_table(marks: tuple[KernelChange, ...]) -> str:
    rows = [
        (
            f"{change.before.size:,} to {change.after.size:,}",
            [
                [
                    text(format_count(replacement.count)),
                    _kernel(replacement.before),
                    _kernel(replacement.after),
                ]
                for replacement in change.replacements[:_REPLACEMENTS]
            ],
        )
        for change in marks[:_SHOWN]
    ]
    return table(["nodes", "smaller size", "larger size"], rows, "figures kernels")


def _kernel(name: str | None) -> str:
    if name is None:
        return element("span", "none", "absent", title="no kernel at this position")
    return element("abbr", text(short_name(name)), title=name, tabindex="0")


def costs_panel(key: str, number: int, family: FamilyReport) -> None:
    """Show memory and startup time as step charts."""
    st.header("Graph costs", anchor=False)
    show(element("p", text(costs_sentence(family)), "said"))
    chart_key = ("stairs", number, family.index)
    chart = loop_figure(key, chart_key, lambda seen: stairs_chart(family, seen))
    if chart is not None:
        draw(chart, f"stairs-{key}-{family.index}")
