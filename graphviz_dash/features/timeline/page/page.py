"""Timeline: the runs of an experiment in lanes, aligned at a step's start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import streamlit as st

from graphviz_dash.analysis.metrics.run_selection import select_baseline
from graphviz_dash.analysis.ranks.shared_steps import find_shared_steps
from graphviz_dash.analysis.replay_check import ReplayDiagnosis, list_replay_diagnoses
from graphviz_dash.analysis.trace.steps import StepMethod
from graphviz_dash.charts.shades import get_colour
from graphviz_dash.charts.static.replay_stops import STOP_SHADES, StopRow, list_stop_rows
from graphviz_dash.errors import InputError
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    measure_run_efficiency,
)
from graphviz_dash.features.efficiency.page.panel import show_efficiency_panel
from graphviz_dash.features.graph.diff_narrative import describe_order_effect
from graphviz_dash.features.graph.page.state.graphs import get_creation_orders
from graphviz_dash.features.perfetto.page.component import TracePart, render_perfetto_buttons
from graphviz_dash.features.timeline.page.component import render_timeline
from graphviz_dash.features.timeline.page.component.ready import load_timeline, prepare_timelines
from graphviz_dash.features.timeline.view.run import choose_step
from graphviz_dash.features.torch_compile.page.state import has_compiled_trace
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.replay_check import format_replay_verdict
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    SelectedExperiment,
    get_theme,
    load_selected_experiment,
    show_error_panel,
)
from graphviz_dash.ui.page.markup import (
    escape_html,
    format_element,
    format_text,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.page.navigation import carry_parameters, show_link
from graphviz_dash.ui.page.widgets import format_trace_gap
from graphviz_dash.ui.state.results import get_clean_times, get_traced_slowdowns, get_traced_steps
from graphviz_dash.ui.state.store import STORE
from graphviz_dash.units import format_ratio

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
        run_names = url_state.select_several(
            "runs", "Runs", names, _find_default_runs(chosen, runs)
        )[:_MAX_RUNS]
        prepare_timelines(chosen.key, run_names)
        max_steps = max(_count_steps(chosen, name) for name in run_names)
        step = url_state.select_number("step", "Step", max_steps, _TYPICAL, _STEP_HELP)
    selection = render_timeline(
        chosen.key,
        run_names,
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
    show_perfetto_steps(chosen, {name: _parse_step_number(step) for name in run_names})
    for name in run_names:
        if has_compiled_trace(chosen.key, name):
            query = {"experiment": chosen.entry.name, "run": name}
            show_link("compile", f"Time of the compiled step of {name}", query)
    show_step_limits(chosen, [run for run in runs if run.name in run_names])
    for effect in get_creation_orders(chosen.key):
        show_paragraph(describe_order_effect(effect))
    show_paragraph(format_traced_note(chosen.key), "muted")


def _parse_step_number(choice: str) -> int | None:
    return None if choice == _TYPICAL else int(choice)


def _select_slice(token: str | None) -> None:
    url_state.set_parameters({"select": token})


def _set_ruler(span: str | None) -> None:
    url_state.set_parameters({"ruler": span})


def _sort_baseline_first(selection: SelectedExperiment) -> list[Run]:
    experiment = selection.experiment
    usual = select_baseline(experiment.runs)
    baseline = experiment.baseline or (usual and usual.name)
    return sorted(experiment.runs, key=lambda run: run.name != baseline)


def _find_default_runs(selection: SelectedExperiment, runs: list[Run]) -> list[str]:
    """Choose baseline, fastest other run of its rank, and the run of the selected slice.

    Experiments on creation order show both orders. Uses only clean times, because comparing the
    runs is slow for large traces.
    """
    names = [run.name for run in runs]
    orders = {
        name
        for effect in get_creation_orders(selection.key)
        for name in (effect.slower, effect.faster)
    }
    if orders:
        return [name for name in names if name in orders]
    first = runs[0]
    times = get_clean_times(selection.key)
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
    with_steps = [run.name for run in runs if _count_steps(selection, run.name)]
    first_two = [*with_steps, *(name for name in names if name not in with_steps)][:2]
    return [name for name in names if name in first_two or name == selected]


def _count_steps(selection: SelectedExperiment, run_name: str) -> int:
    run_steps = get_traced_steps(selection.key, run_name)
    return sum(step.method is not StepMethod.WHOLE for step in run_steps)


def format_traced_note(key: str) -> str:
    """Describe the profiler's effect on traced times."""
    effects = [
        f"{name} {format_ratio(effect)}" for name, effect in get_traced_slowdowns(key).items()
    ]
    details = f" Traced step time relative to unprofiled: {', '.join(effects)}." if effects else ""
    if STORE.derive(key, "shared steps", find_shared_steps):
        details += (
            " Ranks of one mode show the same step on a shared clock, from its first start. "
            "Clocks are aligned at the ends of collectives."
        )
    return (
        "Times come from the traced pass, which the profiler slows down: gaps and launches "
        f"appear longer.{details}"
    )


def show_perfetto_steps(selection: SelectedExperiment, steps: Mapping[str, int | None]) -> None:
    """Show a button per run; None selects the typical step."""
    picked = [(name, _get_step_index(selection, name, step)) for name, step in steps.items()]
    try:
        render_perfetto_buttons(
            selection.key,
            TracePart(tuple(picked)),
            label="Open these steps in Perfetto",
            small=True,
            key=f"perfetto-{selection.key}-{'-'.join(f'{name}.{at}' for name, at in picked)}",
        )
    except InputError as error:
        show_error_panel("These steps cannot be opened in Perfetto", str(error))


def _get_step_index(selection: SelectedExperiment, run_name: str, step: int | None) -> int | None:
    picked = choose_step(load_timeline(selection.key, run_name), step).step
    return picked.index if picked else None


def show_step_limits(selection: SelectedExperiment, runs: Sequence[Run]) -> None:
    """Show a folded panel for the first imported trace without graphs.

    The Graph page has that of a graph. Eager passes of collectors record no shapes.
    """
    run = next((run for run in runs if run.manifest.sources and not run.graphs), None)
    if run is None:
        return

    def get_report() -> EfficiencyReport | Missing:
        return STORE.derive(
            selection.key, ("step limits", run.name), lambda _: measure_run_efficiency(run)
        )

    show_efficiency_panel(
        f"step-{run.name}", get_report, None, get_theme(), run, f"Hardware limits of {run.name}"
    )


def show_replay_stops(selection: SelectedExperiment) -> None:
    """Show the progress of each stopped replay."""
    for name, diagnosis in list_replay_diagnoses(selection.experiment.runs):
        if diagnosis.stops:
            _show_run(selection, name, diagnosis)


def _show_run(selection: SelectedExperiment, name: str, diagnosis: ReplayDiagnosis) -> None:
    text = f"{name}: {format_replay_verdict(diagnosis)}"
    show_markup(
        format_text("div", text, "failed", role="note"),
        _format_rows(list_stop_rows(diagnosis.stops)),
    )
    experiment = {"experiment": selection.entry.name}
    suspects = diagnosis.stops[0].stop.suspects
    run = next(run for run in selection.experiment.runs if run.name == name)
    if suspects and suspects[0].graph in {graph.id for graph in run.graphs}:
        node = suspects[0]
        query = {"run": name, "graph": node.graph, "node": str(node.index)}
        show_link("graph", f"Show node {node.index} in the graph", experiment | query)
    show_link("doctor", "Evidence and fix", {**experiment, "run": name})


def _format_rows(rows: Sequence[StopRow]) -> str:
    theme = get_theme()
    end_colour, stop_colour, rest_colour = (
        get_colour(shade, theme) for shade in STOP_SHADES.values()
    )
    bars = []
    for row in rows:
        marks = "".join(
            format_element("u", "", style=f"left:{mark:.2%};background:{stop_colour}")
            for mark in row.marks
        )
        end_bar = format_element("i", "", style=f"width:{row.share:.2%};background:{end_colour}")
        bars.append(
            format_text("span", row.label)
            + format_element(
                "div", end_bar + marks, "bar", style=f"background:{rest_colour}", title=row.tip
            )
        )
    key = "".join(
        f'<i style="background:{get_colour(shade, theme)}"></i>{escape_html(label)}'
        for label, shade in STOP_SHADES.items()
    )
    return format_element(
        "div", format_element("div", key, "stop-key") + "".join(bars), "replay-stops"
    )
