"""Overview: every experiment with its outcome, and a place to upload one."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.analysis.compare import Comparison, RunComparison
from graphviz_dash.errors import InputError
from graphviz_dash.ui.catalogue import Entry, catalogue
from graphviz_dash.ui.frame import no_experiments, theme, trouble
from graphviz_dash.ui.markup import element, show, text
from graphviz_dash.ui.navigation import page
from graphviz_dash.ui.pieces import facts, failure_notes, time_bars, variables
from graphviz_dash.ui.results import comparison
from graphviz_dash.ui.uploads import UPLOADS

_COLUMNS = 2


def render() -> None:
    """The page."""
    show(variables(theme()))
    found = catalogue()
    if not found.entries:
        no_experiments(found)
    for problem in found.problems:
        trouble("A folder could not be searched", problem)
    columns = st.columns(_COLUMNS, gap="medium")
    for place, entry in enumerate(found.entries.values()):
        with columns[place % _COLUMNS], st.container(border=True):
            _card(entry)
    _upload()


def _card(entry: Entry) -> None:
    try:
        with st.spinner(f"Reading {entry.name}"):
            result = comparison(entry.key)
    except InputError as error:
        trouble(f"{entry.name} cannot be read", str(error))
        return
    best = _best(result)
    environment = result.runs[0].run.manifest.environment
    created = result.runs[0].run.manifest.created[:10]
    show(
        element(
            "div",
            element("h3", text(entry.name))
            + element("span", text(f"{environment.gpu.name} · {created}"), "where"),
            "card-title",
        ),
        _hero(best),
        time_bars(result, theme()),
        failure_notes(result),
        facts(_facts(best)) if best else "",
    )
    query = {"experiment": entry.name}
    with st.container(horizontal=True, gap="medium"):
        st.page_link(page("compare"), label="Compare", query_params=query)
        if any(run.run.graphs for run in result.runs):
            st.page_link(page("graph"), label="Graph", query_params=query)
        if any(run.run.replay_trace for run in result.runs):
            st.page_link(page("timeline"), label="Timeline", query_params=query)
        st.page_link(page("export"), label="Export", query_params=query)


def _best(result: Comparison) -> RunComparison | None:
    """The run that is fastest against its baseline; None when none was compared."""
    compared = [run for run in result.runs if run["speedup"].value is not None]
    return max(compared, key=lambda run: run["speedup"].value or 0.0, default=None)


def _hero(best: RunComparison | None) -> str:
    if best is None:
        return ""
    against = f"{best.name} against {best.baseline}, step time"
    return element(
        "div",
        element("span", text(best["speedup"].text), "big") + element("span", text(against), "what"),
        "hero",
    )


def _facts(best: RunComparison) -> list[tuple[str, str]]:
    shown = {
        "step_time": "Step time",
        "launch_cpu_time": "Launch CPU time",
        "break_even": "Break-even replays",
        "private_pool": "Private pools",
    }
    return [(label, best[metric].text) for metric, label in shown.items()]


def _upload() -> None:
    with st.expander("Open an experiment from this computer", icon=":material/upload:"):
        st.caption(
            "A zip file of the experiment's folder, as `zip -r mlp-train.zip mlp-train` makes it. "
            "It stays on this server until it ends; nothing in it is executed."
        )
        file = st.file_uploader("Experiment", type="zip", label_visibility="collapsed")
        if file is None:
            return
        done: dict[str, str] = st.session_state.setdefault("uploaded", {})
        if file.file_id not in done:
            try:
                with st.spinner("Unpacking and checking"):
                    done[file.file_id] = UPLOADS.add(file.name, file).name
            except InputError as error:
                trouble("This file cannot be opened", str(error))
                return
            st.rerun()
        st.success(f"Opened as {done[file.file_id]}", icon=":material/check:")
