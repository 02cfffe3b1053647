"""Timeline: the runs of an experiment in lanes, aligned at a step's start."""

from __future__ import annotations

from typing import Final

import streamlit as st

from graphviz_dash.analysis.metrics.run_selection import usual_baseline
from graphviz_dash.analysis.trace.steps import StepMethod
from graphviz_dash.features.graph.diff_narrative import order_sentence
from graphviz_dash.features.graph.page.state.creation_orders import creation_orders
from graphviz_dash.features.timeline.page.component import timeline_view
from graphviz_dash.features.timeline.page.component.ready import make_ready
from graphviz_dash.features.timeline.page.perfetto_steps import perfetto_steps
from graphviz_dash.features.timeline.page.traced_note import traced_note
from graphviz_dash.features.torch_compile.page.compile_causes import compiled_step_time
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import Chosen, chosen_experiment
from graphviz_dash.ui.page.gaps import trace_gap_markup
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.page.navigation import carry, link
from graphviz_dash.ui.state.results import clean_times, traced_steps

_MOST_RUNS: Final = 8
_TYPICAL: Final = "typical"
_STEP_HELP: Final = "Typical selects the traced step of median length in each run"


def render() -> None:
    """Render the page."""
    chosen = chosen_experiment()
    runs = [run for run in _baseline_first(chosen) if run.replay_trace is not None]
    if not runs:
        show(trace_gap_markup(chosen.experiment.runs))
        return
    names = [run.name for run in runs]
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        shown = url_state.choose_several("runs", "Runs", names, _usual(chosen, runs))[:_MOST_RUNS]
        make_ready(chosen.key, shown)
        max_steps = max(_step_count(chosen, name) for name in shown)
        step = url_state.choose_number("step", "Step", max_steps, _TYPICAL, _STEP_HELP)
    selection = timeline_view(
        chosen.key,
        shown,
        step=_step_number(step),
        selected=url_state.value("select"),
        on_select=url_state.while_here(_select),
        ruler=url_state.value("ruler"),
        on_ruler=url_state.while_here(_measure),
        key=f"timeline-{chosen.key}",
        height=640,
    )
    _select(selection.token if selection else None)
    if selection is not None and selection.node is not None and selection.graph is not None:
        query = {"run": selection.run, "graph": selection.graph, "node": str(selection.node)}
        # Navigation to the graph also shows this node.
        carry("graph", query)
        link(
            "graph",
            f"Show node {selection.node} in the graph",
            {"experiment": chosen.entry.name, **query},
        )
    perfetto_steps(chosen, {name: _step_number(step) for name in shown})
    compiled_step_time(chosen, shown)
    for effect in creation_orders(chosen.key):
        show(element("p", text(order_sentence(effect))))
    show(element("p", text(traced_note(chosen.key)), "muted"))


def _step_number(choice: str) -> int | None:
    return None if choice == _TYPICAL else int(choice)


def _select(token: str | None) -> None:
    url_state.change({"select": token})


def _measure(span: str | None) -> None:
    url_state.change({"ruler": span})


def _baseline_first(chosen: Chosen) -> list[Run]:
    experiment = chosen.experiment
    usual = usual_baseline(experiment.runs)
    baseline = experiment.baseline or (usual and usual.name)
    return sorted(experiment.runs, key=lambda run: run.name != baseline)


def _usual(chosen: Chosen, runs: list[Run]) -> list[str]:
    """Return the default runs: baseline, fastest other run of its rank, run of the selected slice.

    Experiments on creation order show both orders. Uses only clean times, because comparing the
    runs is slow for large traces.
    """
    names = [run.name for run in runs]
    orders = {
        name for effect in creation_orders(chosen.key) for name in (effect.slower, effect.faster)
    }
    if orders:
        return [name for name in names if name in orders]
    first = runs[0]
    times = clean_times(chosen.key)
    others = [
        run.name
        for run in runs
        if run is not first and run.manifest.rank == first.manifest.rank and run.name in times
    ]
    fastest = min(others, key=lambda name: times[name], default=None)
    selected = (url_state.value("select") or "").partition("/")[0]
    default_names = {first.name, fastest, selected}
    if fastest is not None:
        return [name for name in names if name in default_names]
    # Without clean times, prefer runs with step markers; traces of captures have none.
    with_steps = [run.name for run in runs if _step_count(chosen, run.name)]
    first_two = [*with_steps, *(name for name in names if name not in with_steps)][:2]
    return [name for name in names if name in first_two or name == selected]


def _step_count(chosen: Chosen, run_name: str) -> int:
    run_steps = traced_steps(chosen.key, run_name)
    return sum(step.method is not StepMethod.WHOLE for step in run_steps)
