"""Show failures, caveats and predictions next to the metrics of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.failures import format_failed_stage, is_refusal
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.prediction.analysis.measured import sort_attempts
from graphviz_dash.features.prediction.charts.plan_memory import draw_plan_memory
from graphviz_dash.features.prediction.page.panel import show_prediction_panel
from graphviz_dash.features.prediction.stream_narrative import (
    ATTEMPT_HEADINGS,
    build_attempt_row,
    describe_plan,
    describe_plan_origin,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.low_confidence import Note, describe_low_confidence
from graphviz_dash.narrative.prediction import format_prediction_score, is_within_interval
from graphviz_dash.ui.page.frame import draw_figure, get_theme, show_fold
from graphviz_dash.ui.page.markup import (
    escape_markdown,
    format_details,
    format_element,
    format_text,
    show_caption,
    show_markup,
)
from graphviz_dash.units import pluralize


def show_tracebacks(result: Comparison) -> None:
    """Show the traceback of each failure that has one, except refused captures."""
    for run in result.runs:
        for number, failure in enumerate(run.failures):
            if failure.traceback and not is_refusal(failure):
                label = f"Traceback of {escape_markdown(run.name)}, {format_failed_stage(failure)}"
                lines = [escape_control_characters(line) for line in failure.traceback.splitlines()]
                show_fold(
                    label,
                    f"traceback-{run.name}-{number}",
                    partial(st.code, "\n".join(lines), language=None, wrap_lines=True),
                    icon=":material/bug_report:",
                )


def show_low_confidence(result: Comparison) -> None:
    """Show low-confidence metrics, one folded line per cause."""
    by_code: dict[str, list[tuple[str, Note]]] = {}
    for run in result.runs:
        for note in describe_low_confidence(run.low_confidence):
            by_code.setdefault(note.code, []).append((run.name, note))
    if not by_code:
        return
    lines = [format_text("li", line) for notes in by_code.values() for line in _list_notes(notes)]
    count = pluralize(len(by_code), "cause")
    note_list = format_element("ul", "".join(lines), "notes")
    show_markup(format_details(f"Low-confidence metrics: {count}", note_list))


def _list_notes(notes: Sequence[tuple[str, Note]]) -> list[str]:
    """List notes of one cause, with the advice once."""
    if len(notes) == 1:
        return [f"{notes[0][0]}: {notes[0][1].sentence}"]
    texts = "; ".join(f"{name}: {note.text}" for name, note in notes)
    return [f"{texts}. {notes[0][1].advice}".strip()]


def show_parallel_plans(result: Comparison) -> None:
    """Show verdict, check and plans of each run captured on several streams."""
    for run in result.runs:
        plan = run.run.parallel
        if plan is None:
            continue
        st.header(f"{escape_markdown(run.name)}: the step on several streams", anchor=False)
        show_markup(*(format_text("p", line) for line in describe_plan(run.name, plan)))
        curve = draw_plan_memory(plan, get_theme())
        draw_figure(curve, f"{run.name}-plan-memory")
        rows = [build_attempt_row(plan, attempt) for attempt in sort_attempts(plan)]
        st.dataframe(
            {
                heading.capitalize(): [row[column] for row in rows]
                for column, heading in enumerate(ATTEMPT_HEADINGS)
            },
            hide_index=True,
            height="content",
            alt="Plans by streams: predicted and measured time, and memory",
        )
        show_caption(describe_plan_origin(plan))


def show_predictions(result: Comparison, run: RunComparison | None) -> None:
    """Show the prediction for an eager run, or that for ``run`` next to its measurement."""
    predicted = result.predicted_run
    if predicted is not None and not isinstance(predicted.graph_prediction, Missing):
        show_prediction_panel(predicted.name, predicted.graph_prediction)
    if run is None:
        return
    if isinstance(run.prediction, Missing):
        if run.prediction.fact is Fact.SAME_WORK:
            show_caption(f"No prediction for {run.name}: {run.prediction.reason}.")
        return
    measured_ns = run["step_time"].value
    if is_within_interval(run.prediction, measured_ns):
        # Its metrics are in the table.
        return
    score = format_prediction_score(run.prediction, measured_ns)
    title = f"{run.name}: prediction from the eager trace"
    show_markup(format_details(title, format_text("p", score)))
