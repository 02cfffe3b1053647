"""Compare: metrics and kernels of an experiment's runs side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.metrics.graph_coverage import StayedEager
from graphviz_dash.analysis.metrics.kernel_table import KernelTable
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.app.compare.columns import list_kernel_columns
from graphviz_dash.app.compare.page.comparison_charts import show_comparison_charts
from graphviz_dash.app.compare.page.equation import (
    find_shown_evidence,
    format_answer,
    show_difference_panel,
)
from graphviz_dash.app.compare.page.metrics_table import show_metrics_section
from graphviz_dash.app.compare.page.notes import (
    show_low_confidence,
    show_parallel_plans,
    show_predictions,
    show_tracebacks,
)
from graphviz_dash.app.compare.page.recorded import show_recorded_panel, show_remedies
from graphviz_dash.features.efficiency.analysis.ceilings_choice import choose_ceilings
from graphviz_dash.features.efficiency.narrative import describe_efficiency, is_mostly_unknown
from graphviz_dash.features.graph.page.state.efficiency import get_run_efficiency
from graphviz_dash.features.ladder.page.sizes import show_modes_of_runs
from graphviz_dash.features.ladder.page.state import get_loop_reports
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.answer import Evidence, build_answer, build_run_answer
from graphviz_dash.narrative.columns import COUNT, MICROSECONDS, SHARE, Column
from graphviz_dash.narrative.summary import build_summary_tiles, explain_rare_kernels
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import (
    SelectedExperiment,
    load_selected_experiment,
    show_empty_state,
    show_fold,
)
from graphviz_dash.ui.page.help import format_page_heading
from graphviz_dash.ui.page.markup import (
    escape_markdown,
    format_details,
    format_element,
    format_text,
    show_markup,
)
from graphviz_dash.ui.page.navigation import show_link
from graphviz_dash.ui.page.tables import format_row_table, show_rows
from graphviz_dash.ui.page.widgets import format_doctor_verdicts, format_failures, format_tiles
from graphviz_dash.ui.state.results import get_comparison, get_kernels
from graphviz_dash.units import format_percent

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator


def render() -> None:
    """Render the page."""
    selection = load_selected_experiment(warned=True)
    result = get_comparison(selection.key)
    with st.container(horizontal=True, vertical_alignment="bottom", key="compare-head"):
        title = st.container()
        run = _select_run(result)
    query = {url_state.EXPERIMENT: selection.entry.name, **({"run": run.name} if run else {})}
    with title:
        show_markup(
            format_page_heading("compare", selection.entry.name),
            format_answer(
                build_run_answer(run) if run else build_answer(result),
                find_shown_evidence(result, run),
                query,
            ),
        )
        graph_run = run or result.main_graph_run
        limit_slot = st.empty() if graph_run is None else reserve_hardware_limit(graph_run)
    if notes := format_failures(result) + format_doctor_verdicts(result):
        show_markup(format_element("div", notes, id=Evidence.FAILURES.value))
    runs = selection.experiment.runs
    faulty = {name for name, _ in result.replay_diagnoses}
    examined = [
        entry for entry in runs if (entry.doctor and entry.doctor.findings) or entry.name in faulty
    ]
    for examined_run in examined:
        suffix = f" in {examined_run.name}" if len(examined) > 1 else ""
        examined_query = {url_state.EXPERIMENT: selection.entry.name, "run": examined_run.name}
        show_link("doctor", f"Doctor findings{suffix}, and how to fix them", examined_query)
    show_tracebacks(result)
    if run is not None:
        summary = build_summary_tiles(result, run)
        cells = [(tile.label, tile.value, tile.note) for tile in summary]
        show_markup(format_tiles(cells, {tile.label for tile in summary if tile.is_invalid}))
        show_difference_panel(selection.key, result, run)
    show_modes_of_runs(get_loop_reports(selection.key))
    if run is None:
        show_predictions(result, run)
        # Actions before details.
        show_remedies(runs)
    show_parallel_plans(result)
    show_comparison_charts(selection.key, result, run)
    with st.container(gap=None):
        show_metrics_section(result, run)
        show_missing_shares(result)
        show_low_confidence(result)
        if run is not None:
            show_predictions(result, run)
            show_not_captured(run)
    show_recorded_panel(result)
    if run is None:
        st.header("Kernels per traced step", anchor=Evidence.KERNELS.value)
        show_kernels_panel(get_kernels(selection.key), run)
    else:
        show_markup(format_element("span", "", id=Evidence.KERNELS.value))
        show_fold(
            "Kernels per traced step",
            "kernels",
            lambda: show_kernels_panel(get_kernels(selection.key), run),
            icon=":material/table_rows:",
        )
        show_remedies(runs)
    if graph_run is not None:
        # Last, because it reads the graphs and their captures.
        show_hardware_limit(selection, graph_run, limit_slot)


def _select_run(result: Comparison) -> RunComparison | None:
    """Return the selected run; None if nothing is comparable."""
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


_KIND: Final = "muted hardware-limit"
"""CSS classes, for the height of two lines."""
_MAX_NODES: Final = 5_000
"""Number of nodes above which only the Graph page reads the graphs."""


def reserve_hardware_limit(run: RunComparison) -> DeltaGenerator:
    """Reserve the place of the sentence, so that the page below does not move."""
    slot = st.empty()
    if _is_read_here(run):
        slot.html(format_element("p", "", _KIND))
    return slot


def _is_read_here(run: RunComparison) -> bool:
    """Check that a run has limits, operators or arguments of nodes, and few nodes."""
    nodes = [node for graph in run.run.graphs for node in graph.nodes]
    if not 0 < len(nodes) <= _MAX_NODES or isinstance(choose_ceilings(run.run), Missing):
        return False
    return bool(run.run.capture_traces) or any(node.operands for node in nodes)


def show_hardware_limit(
    experiment: SelectedExperiment, run: RunComparison, slot: DeltaGenerator
) -> None:
    """Show the sentence in ``slot`` if the run has graphs with known limits."""
    if not _is_read_here(run):
        return
    report = get_run_efficiency(experiment.key, run.name)
    if isinstance(report, Missing) or is_mostly_unknown(report):
        return
    slot.html(format_text("p", describe_efficiency(report), _KIND))


def show_missing_shares(result: Comparison) -> None:
    """Show why the trace of a run says nothing about its graphs."""
    show_markup(
        *(
            format_text("p", f"{run.name}: no graph share, because {run.coverage.reason}.", "muted")
            for run in result.runs
            if isinstance(run.coverage, Missing) and run.coverage.fact is Fact.GRAPH_STEPS
        )
    )


def show_not_captured(run: RunComparison) -> None:
    """Show work that no graph launched, by reason, folded; nothing if there is none."""
    if isinstance(run.coverage, Missing) or not run.coverage.eager:
        return
    by_reason: dict[str, list[StayedEager]] = {}
    for group in run.coverage.eager:
        by_reason.setdefault(group.reason.value.capitalize(), []).append(group)
    columns: list[Column[StayedEager]] = [
        Column("Operator", lambda row: shorten_name(row.operator) if row.operator else None),
        Column("Work per step", lambda row: row.count, COUNT),
        Column("Time per step", lambda row: row.total_ns, MICROSECONDS),
        Column("Share of GPU time", lambda row: row.share, SHARE),
    ]
    note = (
        f"{run['graph_work_share'].text} of the kernels, memcpy and memset and "
        f"{run['graph_time_share'].text} of their time ran from graphs. Reasons come from the "
        "operators and ranges around each launch in the traced pass."
    )
    outside = format_percent(1 - run.coverage.work_share)
    show_markup(
        format_details(
            f"Not captured in {run.name}: {outside} of the work",
            format_row_table(columns, by_reason.items()),
            format_text("p", note, "muted"),
            id=Evidence.COVERAGE.value,
        )
    )


def show_kernels_panel(kernel_rows: KernelTable, run: RunComparison | None) -> None:
    """Show the kernels of the baseline and ``run``, or of all runs."""
    if not kernel_rows.rows:
        reasons = [f"{name}: {reason}" for name, reason in kernel_rows.missing_reasons.items()]
        show_empty_state("No kernels to show", *(reasons or ["No kernel ran in the traced steps."]))
        return
    query = url_state.show_search_field("kernel", "Search kernels", "Search by name or category")
    columns = _list_columns(kernel_rows, run)
    rows = [
        row
        for row in kernel_rows.rows
        if any(row.uses[column] for column in columns)
        and (query in row.name.lower() or query == row.category.value)
    ]
    changing = [column for column in columns if kernel_rows.has_changes(column)]
    if changing:
        # The table is ordered by all runs, but only two are shown.
        rows.sort(key=lambda row: -abs(row.changes[changing[-1]] or 0.0))
    show_rows(
        [
            Column("Kernel", lambda row: shorten_name(row.name), width=290),
            *list_kernel_columns(kernel_rows, columns),
            Column("Full name", lambda row: row.name),
        ],
        rows,
        "Kernels of the baseline and of the run per traced step",
        height="content" if len(rows) < 16 else 560,
    )
    order = "largest change" if changing else "longest"
    seldom = explain_rare_kernels(kernel_rows)
    st.caption(
        f"{len(rows)} of {len(kernel_rows.rows)} kernels, memcpy and memset, {order} first. "
        "Counts and times are medians over the traced steps; times of overlapping work add up "
        f"to more than the busy time. {seldom}{seldom and ' '}Click a heading to sort."
    )


def _list_columns(kernel_rows: KernelTable, run: RunComparison | None) -> list[int]:
    names = {run.baseline, run.name} if run else set(kernel_rows.runs)
    return [
        column
        for column, name in enumerate(kernel_rows.runs)
        if name in names and name not in kernel_rows.missing_reasons
    ]
