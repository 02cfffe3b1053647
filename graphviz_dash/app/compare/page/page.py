"""Compare: the runs of one experiment side by side, figure by figure and kernel by kernel."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.app.compare.page.comparison_charts import comparison_charts
from graphviz_dash.app.compare.page.equation import answer_markup, equation_panel, shown_evidence
from graphviz_dash.app.compare.page.kernel_table import kernels_section
from graphviz_dash.app.compare.page.metrics_table import metrics_section
from graphviz_dash.app.compare.page.notes import (
    low_confidence_panel,
    parallel_plans,
    predictions,
    tracebacks,
)
from graphviz_dash.app.compare.page.recorded import recorded_panel, remedies_panel
from graphviz_dash.narrative.answer import Evidence, answer, run_answer
from graphviz_dash.narrative.summary import summary_tiles
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import chosen_experiment
from graphviz_dash.ui.page.help import page_heading
from graphviz_dash.ui.page.markup import element, plain, show, text
from graphviz_dash.ui.page.navigation import link
from graphviz_dash.ui.page.widgets import doctor_notes, failure_notes, tiles
from graphviz_dash.ui.state.results import comparison, kernels


def render() -> None:
    """The page."""
    chosen = chosen_experiment(warned=True)
    result = comparison(chosen.key)
    with st.container(horizontal=True, vertical_alignment="bottom", key="compare-head"):
        title = st.container()
        run = _run(result)
    with title:
        show(
            page_heading("compare", text(chosen.entry.name)),
            answer_markup(run_answer(run) if run else answer(result), shown_evidence(result, run)),
        )
    if notes := failure_notes(result) + doctor_notes(result):
        show(element("div", notes, id=Evidence.FAILURES.value))
    runs = chosen.experiment.runs
    examined = [each for each in runs if each.doctor and each.doctor.findings]
    for examined_run in examined:
        which = f" in {examined_run.name}" if len(examined) > 1 else ""
        query = {url_state.EXPERIMENT: chosen.entry.name, "run": examined_run.name}
        link("doctor", f"What the doctor reports{which}, and what to write instead", query)
    tracebacks(result)
    if run is not None:
        heads = summary_tiles(result, run)
        cells = [(tile.label, tile.value, tile.note) for tile in heads]
        show(tiles(cells, {tile.label for tile in heads if tile.doubted}))
        link(
            "memory",
            "Memory breakdown",
            {url_state.EXPERIMENT: chosen.entry.name, "run": run.name},
        )
        equation_panel(chosen.key, result, run)
    predictions(result, run)
    if run is None:
        # What there is to do stands before what there is to read.
        remedies_panel(runs)
    parallel_plans(result)
    comparison_charts(chosen.key, result, run)
    low_confidence_panel(result)
    metrics_section(result)
    recorded_panel(result)
    if run is not None:
        remedies_panel(runs)
    st.header("Kernels per traced step", anchor=False)
    kernels_section(kernels(chosen.key), run)


def _run(result: Comparison) -> RunComparison | None:
    """The run that is held against the baseline: of those that could be, the chosen one."""
    best = result.best
    if best is None:
        return None
    names = [run.name for run in result.runs if run.speedup.value is not None]
    if len(names) == 1:
        return best
    # Each of several ranks is held against the baseline of its own.
    baselines = {result[name].baseline for name in names}
    label = f"Against {plain(best.baseline)}" if len(baselines) == 1 else "Against its own rank"
    return result[url_state.choose("run", label, names, default=best.name)]
