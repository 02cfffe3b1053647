"""What the trace of an eager run predicts for one graph of its step, and what stops a capture."""

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
    """What is predicted from the trace of the run ``name``: figures, blockers and reasons."""
    st.header(f"Predicted from the trace of {plain(name)}", anchor=Evidence.PREDICTED.value)
    show(tiles(prediction_tiles(prediction)))
    show(idle_markup(prediction))
    show(blockers_markup(prediction))
    with st.expander("Why, in numbers", icon=":material/calculate:"):
        lines = [*prediction_reasons(prediction), f"once it costs {one_off_text(prediction)}"]
        show(_listed(lines))
    if weak := warning_texts(prediction):
        with st.expander(f"What makes it weak ({len(weak)})", icon=":material/warning:"):
            show(_listed(weak))


def blockers_markup(prediction: Prediction) -> str:
    """What the trace shows that would stop a capture or spoil replays: where, and what to write
    instead; and what it cannot show."""
    if prediction.blockers:
        body = "".join(_blocker(blocker, prediction) for blocker in prediction.blockers)
    else:
        body = element("p", "Nothing that the trace shows.", "muted")
    unseen = "".join(
        element("p", f"Not available: {_inline(line)}.", "muted")
        for line in not_checked_texts(prediction)
    )
    return element("h3", "What would stop a capture") + body + unseen


def idle_markup(prediction: Prediction) -> str:
    """What the CPU did while the GPU was idle, and what of it a graph removes."""
    if not prediction.idle.parts:
        return ""
    rows = [[text(value) for value in row] for row in idle_rows(prediction.idle)]
    title = idle_text(prediction)
    return (
        element("h3", "Idle time of the GPU")
        + element("div", table(IDLE_HEADINGS, [(title, rows)], "figures idle-time"), "scroll")
        + element("p", text(idle_method(prediction)), "muted")
    )


def prediction_tiles(prediction: Prediction) -> list[tuple[str, str, str]]:
    """The figures of a prediction: label, value, note."""
    idle = prediction.idle_ns / prediction.eager_ns if prediction.eager_ns else 0.0
    break_even, speedup = prediction.break_even, prediction.speedup
    cells = [
        ("Step as a graph", format_ns(prediction.graphed.value), _times(prediction.graphed)),
        ("Eager step", format_ns(prediction.eager_ns), prediction.eager_side.value),
        ("GPU idle", format_percent(idle), f"{format_ns(prediction.idle_ns)} of the step"),
    ]
    if isinstance(speedup, Missing):
        # Without marked steps it is no step that was counted.
        titles = ("All work as graphs", "Whole trace", "GPU idle")
        cells[-1] = (*cells[-1][:2], f"{format_ns(prediction.idle_ns)} of the trace")
        cells = [(title, *cell[1:]) for title, cell in zip(titles, cells, strict=True)]
    else:
        cells.insert(0, ("Speedup", format_ratio(speedup.value), _ratios(speedup)))
    if not isinstance(break_even, Missing):
        value = format_count(break_even.value)
        interval = ""
        if break_even.low is not None:
            least = format_count(break_even.low)
            most = "never" if break_even.high is None else format_count(break_even.high)
            # A range from a number to itself would be read as a slip.
            interval = "" if least == value == most else f"{least} to {most}"
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
    advice = element("p", "<b>Instead:</b> " + _inline(blocker.rule.advice))
    return element("article", head + seen + advice, f"blocker {kind}")


def _listed(lines: list[str] | tuple[str, ...]) -> str:
    return element("ul", "".join(element("li", _inline(line)) for line in lines), "notes")


def _inline(words: str) -> str:
    """Text in which what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(words))
