"""What keeps a compiled step from being one replay: a card for each cause."""

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
from graphviz_dash.ui.page.rules import inline_code, rule_advice, rule_id, rule_row, status_counts
from graphviz_dash.units import counted, format_count, format_ns

_FIRST: Final = 5
_CAPTION: Final = "4rem"
"""What stands below a chart of a step's parts in a wide window."""
_MOST: Final = 50


def compiled_diagnosis(chosen: Chosen, run_name: str) -> None:
    """What keeps the compiled step of a run from being one replay, and what came of each rule."""
    report = compiled(chosen.key, run_name)
    if isinstance(report, Missing):
        return
    show(compiled_verdict(report))
    query = {"experiment": chosen.entry.name, "run": run_name}
    link("compile", "The step's time and program", query)
    show(*cause_cards(report.causes), compile_rules(report.rules))


def compiled_step_time(chosen: Chosen, shown: list[str]) -> None:
    """Where the time of a compiled step goes, of one of the shown runs."""
    names = [name for name in shown if has_compiled_trace(chosen.key, name)]
    if not names:
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.header("Where the compiled step's time goes", anchor=False)
        name = url_state.choose("divided", "Run", names) if len(names) > 1 else names[0]
    report = compiled(chosen.key, name)
    if isinstance(report, Missing):
        return
    show(element("p", text(compile_sentence(report))))
    step_parts(chosen, report)
    link("compile", "What to mend first", {"experiment": chosen.entry.name, "run": name})


def compiled_verdict(report: CompileReport) -> str:
    """What became of the compiled step, in a box."""
    kind = "silent" if report.causes else "sound"
    badge = counted(len(report.causes), "cause") if report.causes else "Healthy"
    return element(
        "section",
        element("span", text(f"torch.compile: {badge}"), f"badge {kind}")
        + element("p", text(compile_sentence(report)), "doctor-verdict"),
        f"doctor-hero {kind}",
    )


def keep_room(chosen: Chosen, report: CompileReport, key: str) -> None:
    """Lets what follows the container ``key`` stand where it stays, until :func:`step_parts` is
    drawn in it."""
    chart = _step_parts_figure(chosen, report)
    if chart is not None:
        room = f"calc({chart.layout.height}px + {_CAPTION})"
        show(element("style", f".st-key-{key} {{ min-height: {room} }}"))


def step_parts(chosen: Chosen, report: CompileReport) -> None:
    """Draws where the time of a compiled step goes, the parts one behind the other."""
    chart = _step_parts_figure(chosen, report)
    if chart is None:
        reason = report.time.reason if isinstance(report.time, Missing) else ""
        show(element("p", text(f"Not known: {reason}."), "muted"))
        return
    draw(chart, "compiled-step")
    if isinstance(report.step_ns, Missing):
        st.caption(f"Under the profiler; no clean step is known: {report.step_ns.reason}.")
    else:
        st.caption(f"{METHOD}.")


def _step_parts_figure(chosen: Chosen, report: CompileReport) -> Any:
    return figure(
        chosen.key, ("compiled step", report.run), lambda theme: step_parts_chart(report, theme)
    )


def cause_cards(causes: Sequence[CompileCause]) -> Iterable[str]:
    """A card for each cause, those behind the first few folded; what saves least is only counted
    where they are too many to be read."""
    cards = [cause_card(number, cause) for number, cause in enumerate(causes[:_MOST], 1)]
    if any(cause.saves_range is not None for cause in causes):
        yield element("p", text(f"{SAVING_METHOD}."), "muted")
    yield from cards[:_FIRST]
    if len(causes) <= _FIRST:
        return
    inside = element("summary", text(f"{format_count(len(causes) - _FIRST)} more"))
    inside += "".join(cards[_FIRST:])
    if len(causes) > _MOST:
        left = f"{format_count(len(causes) - _MOST)} more, which save less: "
        inside += element(
            "p", text(left) + "<code>graphviz-dash compile RUN --json</code>", "muted"
        )
    yield element("details", inside)


def compile_rules(outcomes: Sequence[CompileRuleOutcome]) -> str:
    """What came of each rule of torch.compile."""
    rows = (
        rule_row(
            outcome.rule,
            outcome.status,
            outcome.reason or (counted(outcome.causes, "cause") if outcome.causes else None),
            "of torch.compile",
        )
        for outcome in outcomes
    )
    return (
        element("h2", "Rules of torch.compile", "doctor-part")
        + element("p", text(status_counts(outcome.status for outcome in outcomes)), "muted")
        + element("div", "".join(rows), "doctor-rules")
    )


def cause_card(number: int, cause: CompileCause) -> str:
    """The card of the cause ``number``: its line, what it costs and what to write instead."""
    rule = COMPILE_RULES[cause.rule]
    badge = element("span", text(saving_badge(cause)), "badge")
    head = element(
        "header",
        element("span", text(number), "count")
        + element("h3", text(cause_title(cause)))
        + badge
        + rule_id(rule),
    )
    left = "".join(_line(line) for line in cause.lines[:1])
    callers = [f"{line.text} in {line.function or 'the program'}" for line in cause.lines[1:4]]
    left += element("p", text(cause.reason), "doctor-error")
    rows = [
        ("Called from", "\n".join(callers) or None),
        ("Mending saves", saving_text(cause)),
        ("Cost once", None if cause.once_ns is None else format_ns(cause.once_ns)),
        ("Times", format_count(cause.times)),
        ("Compilations", ", ".join(cause.frames[:8]) or None),
        ("Details", "\n".join(cause.details[:6]) or None),
    ]
    left += element(
        "dl",
        "".join(
            element("dt", text(name)) + element("dd", _lines(value))
            for name, value in rows
            if value
        ),
    )
    right = rule_advice(rule, "What to write instead") + "".join(
        element("p", element("b", "torch: ") + inline_code(hint)) for hint in cause.hints[:2]
    )
    body = element("div", left, "found") + element("div", right, "advice")
    return element("article", head + element("div", body, "columns"), "doctor-card silent")


def _line(line: UserLine) -> str:
    where = element("b", text(line.text))
    if line.function:
        where += element("span", f" in {text(line.function)}")
    shown = element("div", where, "where")
    if not line.code:
        return shown
    hit = element("span", element("i", text(line.line)) + text(line.code), "hit")
    label = {"aria-label": f"Code at {line.text}"}
    return shown + element("pre", hit, "code", tabindex="0", role="region", **label)


def _lines(code: str) -> str:
    return "<br>".join(text(line) for line in code.splitlines())
