"""Timeline: the runs of an experiment in lanes, aligned at a step's start."""

from __future__ import annotations

from typing import Final

import streamlit as st

from graphviz_dash.analysis.metrics.run_selection import select_baseline
from graphviz_dash.analysis.trace.steps import StepMethod
from graphviz_dash.features.graph.diff_narrative import describe_order_effect
from graphviz_dash.features.graph.page.state.creation_orders import get_creation_orders
from graphviz_dash.features.timeline.page.component import render_timeline
from graphviz_dash.features.timeline.page.component.ready import prepare_timelines
from graphviz_dash.features.timeline.page.perfetto_steps import show_perfetto_steps
from graphviz_dash.features.timeline.page.replay_stops import show_replay_stops
from graphviz_dash.features.timeline.page.step_limits import show_step_limits
from graphviz_dash.features.timeline.page.traced_note import format_traced_note
from graphviz_dash.features.torch_compile.page.state import has_compiled_trace
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import SelectedExperiment, load_selected_experiment
from graphviz_dash.ui.page.gaps import format_trace_gap
from graphviz_dash.ui.page.markup import escape_html, format_element, show_markup
from graphviz_dash.ui.page.navigation import carry_parameters, show_link
from graphviz_dash.ui.state.results import get_clean_times, get_traced_steps

_MAX_RUNS: Final = 8
_TYPICAL: Final = "typical"
_STEP_HELP: Final = "Typical selects the traced step of median length in each run"


def render() -> None:
    """Render the page."""
    chosen = load_selected_experiment()
    runs = [run for run in _sort_baseline_first(chosen) if run.replay_trace is not None]
    show_replay_stops(chosen)
    if not runs:
        show_markup(format_trace_gap(chosen.experiment.runs))
        return
    names = [run.name for run in runs]
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        shown = url_state.select_several("runs", "Runs", names, _find_default_runs(chosen, runs))[
            :_MAX_RUNS
        ]
        prepare_timelines(chosen.key, shown)
        max_steps = max(_count_steps(chosen, name) for name in shown)
        step = url_state.select_number("step", "Step", max_steps, _TYPICAL, _STEP_HELP)
    selection = render_timeline(
        chosen.key,
        shown,
        step=_parse_step_number(step),
        selected=url_state.get_value("select"),
        on_select=url_state.only_on_this_page(_select_slice),
        ruler=url_state.get_value("ruler"),
        on_ruler=url_state.only_on_this_page(_set_ruler),
        key=f"timeline-{chosen.key}",
        height=640,
    )
    _select_slice(selection.token if selection else None)
    if selection is not None and selection.node is not None and selection.graph is not None:
        query = {"run": selection.run, "graph": selection.graph, "node": str(selection.node)}
        # Navigation to the graph also shows this node.
        carry_parameters("graph", query)
        show_link(
            "graph",
            f"Show node {selection.node} in the graph",
            {"experiment": chosen.entry.name, **query},
        )
    show_perfetto_steps(chosen, {name: _parse_step_number(step) for name in shown})
    for name in shown:
        if has_compiled_trace(chosen.key, name):
            query = {"experiment": chosen.entry.name, "run": name}
            show_link("compile", f"Time of the compiled step of {name}", query)
    show_step_limits(chosen, [run for run in runs if run.name in shown])
    for effect in get_creation_orders(chosen.key):
        show_markup(format_element("p", escape_html(describe_order_effect(effect))))
    show_markup(format_element("p", escape_html(format_traced_note(chosen.key)), "muted"))


def _parse_step_number(choice: str) -> int | None:
    return None if choice == _TYPICAL else int(choice)


def _select_slice(token: str | None) -> None:
    url_state.set_parameters({"select": token})


def _set_ruler(span: str | None) -> None:
    url_state.set_parameters({"ruler": span})


def _sort_baseline_first(chosen: SelectedExperiment) -> list[Run]:
    experiment = chosen.experiment
    usual = select_baseline(experiment.runs)
    baseline = experiment.baseline or (usual and usual.name)
    return sorted(experiment.runs, key=lambda run: run.name != baseline)


def _find_default_runs(chosen: SelectedExperiment, runs: list[Run]) -> list[str]:
    """Return the default runs: baseline, fastest other run of its rank, run of the selected slice.

    Experiments on creation order show both orders. Uses only clean times, because comparing the
    runs is slow for large traces.
    """
    names = [run.name for run in runs]
    orders = {
        name
        for effect in get_creation_orders(chosen.key)
        for name in (effect.slower, effect.faster)
    }
    if orders:
        return [name for name in names if name in orders]
    first = runs[0]
    times = get_clean_times(chosen.key)
    others = [
        run.name
        for run in runs
        if run is not first and run.manifest.rank == first.manifest.rank and run.name in times
    ]
    fastest = min(others, key=lambda name: times[name], default=None)
    selected = (url_state.get_value("select") or "").partition("/")[0]
    default_names = {first.name, fastest, selected}
    if fastest is not None:
        return [name for name in names if name in default_names]
    # Without clean times, prefer runs with step markers; traces of captures have none.
    with_steps = [run.name for run in runs if _count_steps(chosen, run.name)]
    first_two = [*with_steps, *(name for name in names if name not in with_steps)][:2]
    return [name for name in names if name in first_two or name == selected]


def _count_steps(chosen: SelectedExperiment, run_name: str) -> int:
    run_steps = get_traced_steps(chosen.key, run_name)
    return sum(step.method is not StepMethod.WHOLE for step in run_steps)
