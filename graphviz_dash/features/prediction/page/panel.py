"""Show the predicted gain for an eager run and its capture blockers."""

from __future__ import annotations

import streamlit as st

from graphviz_dash.analysis.prediction.capture_blockers import Blocker
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.prediction.uncertainty import Estimate
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.doctor import Severity
from graphviz_dash.narrative.answer import Evidence
from graphviz_dash.narrative.prediction import (
    IDLE_HEADINGS,
    build_idle_rows,
    describe_idle_method,
    format_blocker_certainty,
    format_blocker_facts,
    format_idle_time,
    format_one_off_cost,
    list_prediction_reasons,
    list_unchecked,
    list_warnings,
)
from graphviz_dash.ui.page.markup import (
    escape_html,
    escape_markdown,
    format_element,
    format_table,
    format_text,
    show_markup,
)
from graphviz_dash.ui.page.rules import format_inline_code
from graphviz_dash.ui.page.widgets import format_tiles
from graphviz_dash.units import format_count, format_ns, format_percent, format_ratio


def show_prediction_panel(name: str, prediction: Prediction) -> None:
    """Show values, blockers and reasons."""
    st.header(
        f"Predicted from the trace of {escape_markdown(name)}", anchor=Evidence.PREDICTED.value
    )
    show_markup(format_tiles(list_prediction_tiles(prediction)))
    show_markup(build_idle_markup(prediction))
    show_markup(format_blockers(prediction))
    with st.expander("Breakdown", icon=":material/calculate:"):
        lines = [
            *list_prediction_reasons(prediction),
            f"one-time cost: {format_one_off_cost(prediction)}",
        ]
        show_markup(_format_list(lines))
    if caveats := list_warnings(prediction):
        with st.expander(f"Caveats ({len(caveats)})", icon=":material/warning:"):
            show_markup(_format_list(caveats))


def format_blockers(prediction: Prediction) -> str:
    """Format capture blockers with fixes, and the omitted checks."""
    if prediction.blockers:
        body = "".join(_format_blocker(blocker, prediction) for blocker in prediction.blockers)
    else:
        body = format_element("p", "None found in the trace", "muted")
    unavailable = "".join(
        format_element("p", f"Not available: {format_inline_code(line)}.", "muted")
        for line in list_unchecked(prediction)
    )
    return format_element("h3", "Capture blockers") + body + unavailable


def build_idle_markup(prediction: Prediction) -> str:
    """Format CPU activity while the GPU is idle, and the part that a graph removes."""
    if not prediction.idle.parts:
        return ""
    rows = [[escape_html(value) for value in row] for row in build_idle_rows(prediction.idle)]
    title = format_idle_time(prediction)
    return (
        format_element("h3", "GPU idle time")
        + format_element(
            "div", format_table(IDLE_HEADINGS, [(title, rows)], "figures idle-time"), "scroll"
        )
        + format_text("p", describe_idle_method(prediction), "muted")
    )


def list_prediction_tiles(prediction: Prediction) -> list[tuple[str, str, str]]:
    """List label, value, note."""
    idle = prediction.idle_ns / prediction.eager_ns if prediction.eager_ns else 0.0
    break_even, speedup = prediction.break_even, prediction.speedup
    cells = [
        (
            "Step with a graph",
            format_ns(prediction.graphed.value),
            _format_time_interval(prediction.graphed),
        ),
        ("Eager step", format_ns(prediction.eager_ns), prediction.eager_side.value),
        ("GPU idle", format_percent(idle), f"{format_ns(prediction.idle_ns)} of the step"),
    ]
    if isinstance(speedup, Missing):
        # Without step markers the values cover the whole trace.
        titles = ("All work in graphs", "Whole trace", "GPU idle")
        cells[-1] = (*cells[-1][:2], f"{format_ns(prediction.idle_ns)} of the trace")
        cells = [(title, *cell[1:]) for title, cell in zip(titles, cells, strict=True)]
    else:
        cells.insert(0, ("Speedup", format_ratio(speedup.value), _format_ratio_interval(speedup)))
    if not isinstance(break_even, Missing):
        value = format_count(break_even.value)
        interval = ""
        if break_even.low is not None:
            minimum = format_count(break_even.low)
            maximum = "never" if break_even.high is None else format_count(break_even.high)
            # Omit a range from a number to itself.
            interval = "" if minimum == value == maximum else f"{minimum} to {maximum}"
        cells.append(("Break-even replays", value, interval))
    return cells


def _format_ratio_interval(value: Estimate) -> str:
    return "" if value.low is None else f"{format_ratio(value.low)} to {format_ratio(value.high)}"


def _format_time_interval(value: Estimate) -> str:
    return "" if value.low is None else f"{format_ns(value.low)} to {format_ns(value.high)}"


def _format_blocker(blocker: Blocker, prediction: Prediction) -> str:
    kind = "illegal" if blocker.rule.severity is Severity.ILLEGAL else "silent"
    head = format_element(
        "header",
        format_text("span", format_blocker_certainty(blocker), f"badge {kind}")
        + format_text("b", blocker.rule.title)
        + format_text("code", blocker.source or blocker.op or "", "rule-id"),
    )
    facts = format_text("p", format_blocker_facts(blocker, prediction), "muted")
    advice = format_element("p", "<b>Fix:</b> " + format_inline_code(blocker.rule.advice))
    return format_element("article", head + facts + advice, f"blocker {kind}")


def _format_list(lines: list[str] | tuple[str, ...]) -> str:
    return format_element(
        "ul", "".join(format_element("li", format_inline_code(line)) for line in lines), "notes"
    )
