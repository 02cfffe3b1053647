"""Show failures, caveats and predictions next to the metrics of a comparison."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.analysis.comparison.result import Comparison, RunComparison
from graphviz_dash.analysis.failures import refused, when
from graphviz_dash.errors import printable
from graphviz_dash.features.prediction.analysis.measured import attempts_by_streams
from graphviz_dash.features.prediction.charts.plan_memory import plan_memory_chart
from graphviz_dash.features.prediction.page.panel import prediction_panel
from graphviz_dash.features.prediction.stream_narrative import (
    ATTEMPT_HEADINGS,
    attempt_row,
    plan_caption,
    plan_sentences,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.low_confidence import low_confidence_notes
from graphviz_dash.narrative.prediction import scored_text
from graphviz_dash.ui.page.frame import draw, theme
from graphviz_dash.ui.page.markup import element, plain, show, text


def tracebacks(result: Comparison) -> None:
    """Show the traceback of each failure that has one, except refused captures."""
    for run in result.runs:
        for number, failure in enumerate(run.failures):
            if failure.traceback and not refused(failure):
                label = f"Traceback of {plain(run.name)}, {when(failure)}"
                lines = [printable(line) for line in failure.traceback.splitlines()]
                with st.expander(label, icon=":material/bug_report:", key=f"{run.name}-{number}"):
                    st.code("\n".join(lines), language=None, wrap_lines=True)


def low_confidence_panel(result: Comparison) -> None:
    """Show low-confidence metrics with advice."""
    notes = [
        element("li", text(f"{run.name}: {note.sentence}"))
        for run in result.runs
        for note in low_confidence_notes(run.low_confidence)
    ]
    if notes:
        with st.expander(f"Low-confidence metrics ({len(notes)})", icon=":material/warning:"):
            show(element("ul", "".join(notes), "notes"))


def parallel_plans(result: Comparison) -> None:
    """Show verdict, check and plans of each run captured on several streams."""
    for run in result.runs:
        plan = run.run.parallel
        if plan is None:
            continue
        st.header(f"{plain(run.name)}: the step on several streams", anchor=False)
        show(*(element("p", text(line)) for line in plan_sentences(run.name, plan)))
        curve = plan_memory_chart(plan, theme())
        if curve is not None:
            draw(curve, f"{run.name}-plan-memory")
        rows = [attempt_row(plan, attempt) for attempt in attempts_by_streams(plan)]
        st.dataframe(
            {
                heading.capitalize(): [row[column] for row in rows]
                for column, heading in enumerate(ATTEMPT_HEADINGS)
            },
            hide_index=True,
            height="content",
            alt="Plans by streams: predicted and measured time, and memory",
        )
        st.caption(plain(plan_caption(plan)))


def predictions(result: Comparison, run: RunComparison | None) -> None:
    """Show the prediction for an eager run, or that for ``run`` next to its measurement."""
    predicted = result.predicted
    if predicted is not None and not isinstance(predicted.outlook, Missing):
        prediction_panel(predicted.name, predicted.outlook)
    if run is None:
        return
    if isinstance(run.prediction, Missing):
        if run.prediction.fact is Fact.SAME_WORK:
            st.caption(plain(f"No prediction for {run.name}: {run.prediction.reason}."))
        return
    st.subheader(f"{plain(run.name)}: prediction from the eager trace", anchor="scored")
    show(element("p", text(scored_text(run.prediction, run["step_time"].value))))
    st.caption(
        "Based on the kernels and stream order of the eager trace and a calibration of the "
        "GPU; uses the eager trace only. `graphviz-dash predict` prints the breakdown."
    )
