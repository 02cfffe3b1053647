"""Compare: metrics and kernels of an experiment's runs side by side."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.app.compare.page.comparison_charts import show_comparison_charts
from graphviz_dash.app.compare.page.equation import (
    find_shown_evidence,
    format_answer,
    show_difference_panel,
)
from graphviz_dash.app.compare.page.hardware_limit import (
    reserve_hardware_limit,
    show_hardware_limit,
)
from graphviz_dash.app.compare.page.kernel_table import show_kernels_panel
from graphviz_dash.app.compare.page.metrics_table import show_metrics_section
from graphviz_dash.app.compare.page.not_captured import show_missing_shares, show_not_captured
from graphviz_dash.app.compare.page.notes import (
    show_low_confidence,
    show_parallel_plans,
    show_predictions,
    show_tracebacks,
)
from graphviz_dash.app.compare.page.recorded import show_recorded_panel, show_remedies
from graphviz_dash.features.ladder.page.modes import show_modes_of_runs
from graphviz_dash.features.ladder.page.state import get_loop_reports
from graphviz_dash.narrative.answer import Evidence, build_answer, build_run_answer
from graphviz_dash.narrative.summary import build_summary_tiles
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import load_selected_experiment
from graphviz_dash.ui.page.help import format_page_heading
from graphviz_dash.ui.page.markup import escape_html, escape_markdown, format_element, show_markup
from graphviz_dash.ui.page.navigation import show_link
from graphviz_dash.ui.page.widgets import format_doctor_verdicts, format_failures, format_tiles
from graphviz_dash.ui.state.results import get_comparison, get_kernels


def render() -> None:
    """Render the page."""
    chosen = load_selected_experiment(warned=True)
    result = get_comparison(chosen.key)
    with st.container(horizontal=True, vertical_alignment="bottom", key="compare-head"):
        title = st.container()
        run = _select_run(result)
    query = {url_state.EXPERIMENT: chosen.entry.name, **({"run": run.name} if run else {})}
    with title:
        show_markup(
            format_page_heading("compare", escape_html(chosen.entry.name)),
            format_answer(
                build_run_answer(run) if run else build_answer(result),
                find_shown_evidence(result, run),
                query,
            ),
        )
        limit_place = st.empty() if run is None else reserve_hardware_limit(run)
    if notes := format_failures(result) + format_doctor_verdicts(result):
        show_markup(format_element("div", notes, id=Evidence.FAILURES.value))
    runs = chosen.experiment.runs
    faulty = {name for name, _ in result.replay_diagnoses}
    examined = [
        entry for entry in runs if (entry.doctor and entry.doctor.findings) or entry.name in faulty
    ]
    for examined_run in examined:
        suffix = f" in {examined_run.name}" if len(examined) > 1 else ""
        examined_query = {url_state.EXPERIMENT: chosen.entry.name, "run": examined_run.name}
        show_link("doctor", f"Doctor findings{suffix}, and how to fix them", examined_query)
    show_tracebacks(result)
    if run is not None:
        summary = build_summary_tiles(result, run)
        cells = [(tile.label, tile.value, tile.note) for tile in summary]
        show_markup(format_tiles(cells, {tile.label for tile in summary if tile.is_invalid}))
        show_difference_panel(chosen.key, result, run)
    show_modes_of_runs(get_loop_reports(chosen.key))
    if run is None:
        show_predictions(result, run)
        # Actions before details.
        show_remedies(runs)
    show_parallel_plans(result)
    show_comparison_charts(chosen.key, result, run)
    with st.container(gap=None):
        show_metrics_section(result, run)
        show_missing_shares(result)
        show_low_confidence(result)
        if run is not None:
            show_predictions(result, run)
            show_not_captured(run)
    show_recorded_panel(result)
    kernels = get_kernels(chosen.key)
    if run is None:
        st.header("Kernels per traced step", anchor=Evidence.KERNELS.value)
        show_kernels_panel(kernels, run)
    else:
        show_markup(format_element("span", "", id=Evidence.KERNELS.value))
        with st.expander("Kernels per traced step", icon=":material/table_rows:"):
            show_kernels_panel(kernels, run)
        show_remedies(runs)
        # Last, because it reads the graph and its capture.
        show_hardware_limit(chosen, run, limit_place)


def _select_run(result: Comparison) -> RunComparison | None:
    """Return the selected comparable run; None if nothing is comparable."""
    best = result.best
    if best is None:
        return None
    names = [run.name for run in result.runs if run.speedup.value is not None]
    if len(names) == 1:
        return best
    # Ranks are compared with the baseline of the same rank.
    baselines = {result[name].baseline for name in names}
    label = (
        f"Compared with {escape_markdown(best.baseline)}"
        if len(baselines) == 1
        else "Compared with the same rank"
    )
    return result[url_state.select_option("run", label, names, default=best.name)]
