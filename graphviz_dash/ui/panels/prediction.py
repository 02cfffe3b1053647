"""What the trace of an eager run predicts for one graph of its step, and what stops a capture."""

from __future__ import annotations

import re

import streamlit as st

from graphviz_dash.analysis.prediction.capture_blockers import Blocker
from graphviz_dash.analysis.prediction.predict import Estimate, Prediction
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.doctor import Severity
from graphviz_dash.narrative.answer import Evidence
from graphviz_dash.narrative.prediction import (
    blocker_certainty,
    blocker_facts,
    not_checked_texts,
    one_off_text,
    prediction_reasons,
    warning_texts,
)
from graphviz_dash.ui.page.markup import element, plain, show, text
from graphviz_dash.ui.page.widgets import tiles
from graphviz_dash.units import format_count, format_ns, format_percent, format_ratio


def prediction_panel(name: str, prediction: Prediction) -> None:
    """What is predicted from the trace of the run ``name``: figures, blockers and reasons."""
    st.header(f"Predicted from the trace of {plain(name)}", anchor=Evidence.PREDICTED.value)
    show(tiles(_tiles(prediction)))
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
        body = "".join(map(_blocker, prediction.blockers))
    else:
        body = element("p", "Nothing that the trace shows.", "muted")
    unseen = "".join(
        element("p", f"Not available: {_inline(line)}.", "muted")
        for line in not_checked_texts(prediction)
    )
    return element("h3", "What would stop a capture") + body + unseen


def _tiles(prediction: Prediction) -> list[tuple[str, str, str]]:
    idle = prediction.idle_ns / prediction.eager_ns if prediction.eager_ns else 0.0
    break_even = prediction.break_even
    cells = [
        ("Speedup", format_ratio(prediction.speedup.value), _ratios(prediction.speedup)),
        ("Step as a graph", format_ns(prediction.graphed.value), _times(prediction.graphed)),
        ("Eager step", format_ns(prediction.eager_ns), prediction.eager_side.value),
        ("GPU idle", format_percent(idle), f"{format_ns(prediction.idle_ns)} of that step"),
    ]
    if not isinstance(break_even, Missing):
        most = "never" if break_even.high is None else format_count(break_even.high)
        interval = f"{format_count(break_even.low)} to {most}"
        cells.append(("Break-even replays", format_count(break_even.value), interval))
    return cells


def _ratios(value: Estimate) -> str:
    return f"{format_ratio(value.low)} to {format_ratio(value.high or value.value)}"


def _times(value: Estimate) -> str:
    return f"{format_ns(value.low)} to {format_ns(value.high or value.value)}"


def _blocker(blocker: Blocker) -> str:
    kind = "illegal" if blocker.rule.severity is Severity.ILLEGAL else "silent"
    head = element(
        "header",
        element("span", text(blocker_certainty(blocker)), f"badge {kind}")
        + element("b", text(blocker.rule.title))
        + element("code", text(blocker.source or blocker.op or ""), "rule-id"),
    )
    seen = element("p", text(blocker_facts(blocker)), "muted")
    advice = element("p", "<b>Instead:</b> " + _inline(blocker.rule.advice))
    return element("article", head + seen + advice, f"blocker {kind}")


def _listed(lines: list[str] | tuple[str, ...]) -> str:
    return element("ul", "".join(element("li", _inline(line)) for line in lines), "notes")


def _inline(words: str) -> str:
    """Text in which what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(words))
