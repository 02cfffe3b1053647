"""Times, requests and losses over the sizes of a family, and what its graphs cost."""

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
"""Changes of kernels that are listed."""
_REPLACEMENTS: Final = 12
"""Replacements listed of each."""
_BETWEEN: Final = 0.4
"""Seconds between two looks at whether the graphs are read."""


class Slots(Struct, frozen=True):
    """Places on the page that are filled once the graphs are read."""

    picture: DeltaGenerator
    """Of the picture over size, which then has marks."""
    words: DeltaGenerator
    """Below it, of what is said of kernels."""


def size_panel(key: str, number: int, family_index: int, family: FamilyReport) -> Slots | None:
    """Replay time, requests and losses over size of the family at the place ``family_index`` of the
    report at the place ``number``; None where nothing is left to be marked."""
    st.header("Replay time, requests and what they lose, by size", anchor=False)
    said = " ".join(filter(None, (loss_sentence(family), sizes_sentence(family))))
    show(element("p", text(said), "said"))
    slots = Slots(st.empty(), st.container())
    known = changes_known(key, number, family_index)
    marks = changes(key, number, family_index) if known else ()
    with slots.picture:
        _picture(key, number, family, marks)
    if known:
        _say(slots, marks)
    show(element("p", text(step_sentence(family)), "muted"))
    return None if known else slots


def _picture(key: str, number: int, family: FamilyReport, marks: tuple[KernelChange, ...]) -> None:
    what = ("family", number, family.index, len(marks))
    drawn = loop_figure(key, what, lambda seen: family_chart(family, marks, seen))
    if drawn is None:
        show(element("p", "No replay of a known size was timed on the GPU.", "muted"))
    else:
        draw(drawn, f"family-{key}-{family.index}-{len(marks)}")


def mark_other_kernels(
    key: str, number: int, family_index: int, family: FamilyReport, slots: Slots
) -> None:
    """Marks where other kernels are chosen: at once, or where the graphs are large when they were
    read beside the page, which answers meanwhile."""
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
    """Draws the page anew when the graphs are read."""
    if job.ended:
        st.rerun()
    show(element("p", "Comparing kernels: the graphs are being read.", "muted"))


def _say(slots: Slots, marks: tuple[KernelChange, ...]) -> None:
    with slots.words:
        show(element("p", text(changes_sentence(marks)), "said"))
        if marks:
            with st.expander("Which kernel replaces which", icon=":material/swap_horiz:"):
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
    return table(["places", "smaller size", "larger size"], rows, "figures kernels")


def _kernel(name: str | None) -> str:
    if name is None:
        return element("span", "nothing", "absent", title="this size has no kernel there")
    return element("abbr", text(short_name(name)), title=name, tabindex="0")


def costs_panel(key: str, number: int, family: FamilyReport) -> None:
    """Memory and start-up as stairs."""
    st.header("What the graphs cost", anchor=False)
    show(element("p", text(costs_sentence(family)), "said"))
    what = ("stairs", number, family.index)
    chart = loop_figure(key, what, lambda seen: stairs_chart(family, seen))
    if chart is not None:
        draw(chart, f"stairs-{key}-{family.index}")
