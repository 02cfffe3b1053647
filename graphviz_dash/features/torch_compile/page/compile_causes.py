"""Show causes that keep a compiled step from being a single replay, one card each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import streamlit as st

from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.report import CompileReport
from graphviz_dash.features.torch_compile.analysis.rule_outcomes import CompileRuleOutcome
from graphviz_dash.features.torch_compile.chart import step_parts_chart
from graphviz_dash.features.torch_compile.narrative import (
    METHOD,
    SAVING_METHOD,
    cause_title,
    compile_sentence,
    saving_badge,
    saving_text,
)
from graphviz_dash.features.torch_compile.page.state import compiled, has_compiled_trace
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import UserLine
from graphviz_dash.model.compile_rules import COMPILE_RULES
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.frame import Chosen, draw, figure
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.page.navigation import link
from graphviz_dash.ui.page.rules import inline_code, rule_advice, rule_row, status_counts
from graphviz_dash.units import counted, format_count, format_ns

_FIRST: Final = 5
_CAPTION: Final = "4rem"
"""Height of the caption below the chart in a wide window."""
_MOST: Final = 50


def compiled_diagnosis(chosen: Chosen, run_name: str) -> None:
    """Show the causes in a run's compiled step, and the outcome of each rule."""
    report = compiled(chosen.key, run_name)
    if isinstance(report, Missing):
        return
    show(compiled_verdict(report))
    query = {"experiment": chosen.entry.name, "run": run_name}
    link("compile", "Step time and program", query)
    show(*cause_cards(report.causes), compile_rules(report.rules))


def compiled_step_time(chosen: Chosen, shown: list[str]) -> None:
    """Show the time breakdown of the compiled step for one of the shown runs."""
    names = [name for name in shown if has_compiled_trace(chosen.key, name)]
    if not names:
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.header("Compiled step time breakdown", anchor=False)
        name = url_state.choose("divided", "Run", names) if len(names) > 1 else names[0]
    report = compiled(chosen.key, name)
    if isinstance(report, Missing):
        return
    show(element("p", text(compile_sentence(report))))
    step_parts(chosen, report)
    link("compile", "Top fixes", {"experiment": chosen.entry.name, "run": name})


def compiled_verdict(report: CompileReport) -> str:
    """Format the verdict on the compiled step as a box."""
    kind = "silent" if report.causes else "sound"
    badge = counted(len(report.causes), "cause") if report.causes else "Healthy"
    return element(
        "section",
        element("span", text(f"torch.compile: {badge}"), f"badge {kind}")
        + element("p", text(compile_sentence(report)), "doctor-verdict"),
        f"doctor-hero {kind}",
    )


def keep_room(chosen: Chosen, report: CompileReport, key: str) -> None:
    """Reserve the chart's height in the container ``key`` until :func:`step_parts` draws it."""
    chart = _step_parts_figure(chosen, report)
    if chart is not None:
        height = f"calc({chart.layout.height}px + {_CAPTION})"
        show(element("style", f".st-key-{key} {{ min-height: {height} }}"))


def step_parts(chosen: Chosen, report: CompileReport) -> None:
    """Draw the time breakdown of a compiled step, one part after the other."""
    chart = _step_parts_figure(chosen, report)
    if chart is None:
        reason = report.time.reason if isinstance(report.time, Missing) else ""
        show(element("p", text(f"Not available: {reason}."), "muted"))
        return
    draw(chart, "compiled-step")
    if isinstance(report.step_ns, Missing):
        st.caption(f"Profiled time; unprofiled step time not available: {report.step_ns.reason}.")
    else:
        st.caption(f"{METHOD}.")


def _step_parts_figure(chosen: Chosen, report: CompileReport) -> Any:
    return figure(
        chosen.key, ("compiled step", report.run), lambda theme: step_parts_chart(report, theme)
    )


def cause_cards(causes: Sequence[CompileCause]) -> Iterable[str]:
    """Generate a card per cause; fold the later ones and only count the smallest savings."""
    cards = [cause_card(number, cause) for number, cause in enumerate(causes[:_MOST], 1)]
    if any(cause.saves_range is not None for cause in causes):
        yield element("p", text(f"{SAVING_METHOD}."), "muted")
    yield from cards[:_FIRST]
    if len(causes) <= _FIRST:
        return
    folded = element("summary", text(f"{format_count(len(causes) - _FIRST)} more"))
    folded += "".join(cards[_FIRST:])
    if len(causes) > _MOST:
        remainder = f"{format_count(len(causes) - _MOST)} smaller savings: "
        folded += element(
            "p", text(remainder) + "<code>graphviz-dash compile RUN --json</code>", "muted"
        )
    yield element("details", folded)


def compile_rules(outcomes: Sequence[CompileRuleOutcome]) -> str:
    """Format the outcome of each torch.compile rule."""
    rows = (
        rule_row(
            outcome.rule,
            outcome.status,
            outcome.reason or (counted(outcome.causes, "cause") if outcome.causes else None),
            "torch.compile rule",
        )
        for outcome in outcomes
    )
    return (
        element("h2", "torch.compile rules", "doctor-part")
        + element("p", text(status_counts(outcome.status for outcome in outcomes)), "muted")
        + element("div", "".join(rows), "doctor-rules")
    )


def cause_card(number: int, cause: CompileCause) -> str:
    """Format the card of a cause: line, cost and fix."""
    rule = COMPILE_RULES[cause.rule]
    badge = element("span", text(saving_badge(cause)), "badge")
    head = element(
        "header",
        element("span", text(number), "count")
        + element("h3", text(cause_title(cause)))
        + badge
        + element("code", text(rule.id.value), "rule-id"),
    )
    finding = "".join(_line(line) for line in cause.lines[:1])
    callers = [f"{line.text} in {line.function or 'the program'}" for line in cause.lines[1:4]]
    finding += element("p", text(cause.reason), "doctor-error")
    rows = [
        ("Called from", "\n".join(callers) or None),
        ("Fix saves", saving_text(cause)),
        ("One-time cost", None if cause.once_ns is None else format_ns(cause.once_ns)),
        ("Occurrences", format_count(cause.times)),
        ("Compilations", ", ".join(cause.frames[:8]) or None),
        ("Details", "\n".join(cause.details[:6]) or None),
    ]
    finding += element(
        "dl",
        "".join(
            element("dt", text(name)) + element("dd", _lines(value))
            for name, value in rows
            if value
        ),
    )
    advice = rule_advice(rule, "Fix") + "".join(
        element("p", element("b", "torch: ") + inline_code(hint)) for hint in cause.hints[:2]
    )
    body = element("div", finding, "found") + element("div", advice, "advice")
    return element("article", head + element("div", body, "columns"), "doctor-card silent")


def _line(line: UserLine) -> str:
    location = element("b", text(line.text))
    if line.function:
        location += element("span", f" in {text(line.function)}")
    shown = element("div", location, "where")
    if not line.code:
        return shown
    hit = element("span", element("i", text(line.line)) + text(line.code), "hit")
    label = {"aria-label": f"Code at {line.text}"}
    return shown + element("pre", hit, "code", tabindex="0", role="region", **label)


def _lines(code: str) -> str:
    return "<br>".join(text(line) for line in code.splitlines())
