"""Show the predicted gain for an eager run and its capture blockers."""

from __future__ import annotations

import re

import streamlit as st

from graphviz_dash.analysis.prediction.capture_blockers import Blocker
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.analysis.prediction.uncertainty import Estimate
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.doctor import Severity
from graphviz_dash.narrative.answer import Evidence
from graphviz_dash.narrative.prediction import (
    IDLE_HEADINGS,
    blocker_certainty,
    blocker_facts,
    idle_method,
    idle_rows,
    idle_text,
    not_checked_texts,
    one_off_text,
    prediction_reasons,
    warning_texts,
)
from graphviz_dash.ui.page.markup import element, plain, show, table, text
from graphviz_dash.ui.page.widgets import tiles
from graphviz_dash.units import format_count, format_ns, format_percent, format_ratio


def prediction_panel(name: str, prediction: Prediction) -> None:
    """Show the prediction from the trace of the run ``name``: values, blockers and reasons."""
    st.header(f"Predicted from the trace of {plain(name)}", anchor=Evidence.PREDICTED.value)
    show(tiles(prediction_tiles(prediction)))
    show(idle_markup(prediction))
    show(blockers_markup(prediction))
    with st.expander("Breakdown", icon=":material/calculate:"):
        lines = [*prediction_reasons(prediction), f"one-time cost: {one_off_text(prediction)}"]
        show(_listed(lines))
    if caveats := warning_texts(prediction):
        with st.expander(f"Caveats ({len(caveats)})", icon=":material/warning:"):
            show(_listed(caveats))


def blockers_markup(prediction: Prediction) -> str:
    """Format the capture blockers in the trace with fixes, and the omitted checks."""
    if prediction.blockers:
        body = "".join(_blocker(blocker, prediction) for blocker in prediction.blockers)
    else:
        body = element("p", "None found in the trace", "muted")
    unavailable = "".join(
        element("p", f"Not available: {_inline(line)}.", "muted")
        for line in not_checked_texts(prediction)
    )
    return element("h3", "Capture blockers") + body + unavailable


def idle_markup(prediction: Prediction) -> str:
    """Format CPU activity during GPU idle time, and the part that a graph removes."""
    if not prediction.idle.parts:
        return ""
    rows = [[text(value) for value in row] for row in idle_rows(prediction.idle)]
    title = idle_text(prediction)
    return (
        element("h3", "GPU idle time")
        + element("div", table(IDLE_HEADINGS, [(title, rows)], "figures idle-time"), "scroll")
        + element("p", text(idle_method(prediction)), "muted")
    )


def prediction_tiles(prediction: Prediction) -> list[tuple[str, str, str]]:
    """List the values of a prediction: label, value, note."""
    idle = prediction.idle_ns / prediction.eager_ns if prediction.eager_ns else 0.0
    break_even, speedup = prediction.break_even, prediction.speedup
    cells = [
        ("Step with a graph", format_ns(prediction.graphed.value), _times(prediction.graphed)),
        ("Eager step", format_ns(prediction.eager_ns), prediction.eager_side.value),
        ("GPU idle", format_percent(idle), f"{format_ns(prediction.idle_ns)} of the step"),
    ]
    if isinstance(speedup, Missing):
        # Without step markers the values cover the whole trace.
        titles = ("All work in graphs", "Whole trace", "GPU idle")
        cells[-1] = (*cells[-1][:2], f"{format_ns(prediction.idle_ns)} of the trace")
        cells = [(title, *cell[1:]) for title, cell in zip(titles, cells, strict=True)]
    else:
        cells.insert(0, ("Speedup", format_ratio(speedup.value), _ratios(speedup)))
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


def _ratios(value: Estimate) -> str:
    return "" if value.low is None else f"{format_ratio(value.low)} to {format_ratio(value.high)}"


def _times(value: Estimate) -> str:
    return "" if value.low is None else f"{format_ns(value.low)} to {format_ns(value.high)}"


def _blocker(blocker: Blocker, prediction: Prediction) -> str:
    kind = "illegal" if blocker.rule.severity is Severity.ILLEGAL else "silent"
    head = element(
        "header",
        element("span", text(blocker_certainty(blocker)), f"badge {kind}")
        + element("b", text(blocker.rule.title))
        + element("code", text(blocker.source or blocker.op or ""), "rule-id"),
    )
    seen = element("p", text(blocker_facts(blocker, prediction)), "muted")
    advice = element("p", "<b>Fix:</b> " + _inline(blocker.rule.advice))
    return element("article", head + seen + advice, f"blocker {kind}")


def _listed(lines: list[str] | tuple[str, ...]) -> str:
    return element("ul", "".join(element("li", _inline(line)) for line in lines), "notes")


def _inline(words: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(words))
