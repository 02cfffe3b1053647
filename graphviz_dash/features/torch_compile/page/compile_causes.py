"""Show causes that keep a compiled step from being a single replay, one card each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import streamlit as st

from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.report import CompileReport
from graphviz_dash.features.torch_compile.analysis.rule_outcomes import CompileRuleOutcome
from graphviz_dash.features.torch_compile.chart import draw_step_parts
from graphviz_dash.features.torch_compile.narrative import (
    SAVING_METHOD,
    STEP_TIME_METHOD,
    format_saving,
    format_saving_badge,
    get_cause_title,
    summarize_compilation,
)
from graphviz_dash.features.torch_compile.page.state import get_compile_report
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import UserLine
from graphviz_dash.model.compile_rules import COMPILE_RULES
from graphviz_dash.ui.page.frame import SelectedExperiment, draw_figure, get_figure
from graphviz_dash.ui.page.markup import (
    escape_html,
    format_element,
    format_text,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.page.navigation import show_link
from graphviz_dash.ui.page.rules import (
    format_finding_details,
    format_inline_code,
    format_rule_advice,
    format_rule_id,
    format_rule_row,
    format_rules_section,
)
from graphviz_dash.units import format_count, format_ns, pluralize

_UNFOLDED_CARDS: Final = 5
_CAPTION_HEIGHT: Final = "4rem"
"""Height below the chart in a wide window."""
_MAX_CARDS: Final = 50


def show_compile_diagnosis(selection: SelectedExperiment, run_name: str) -> None:
    """Show the causes and the outcome of each rule."""
    report = get_compile_report(selection.key, run_name)
    if isinstance(report, Missing):
        return
    show_markup(format_compile_verdict(report))
    query = {"experiment": selection.entry.name, "run": run_name}
    show_link("compile", "Step time and program", query)
    show_markup(*generate_cause_cards(report.causes), format_compile_rules(report.rules))


def format_compile_verdict(report: CompileReport) -> str:
    """Format the verdict on the compiled step as a box."""
    kind = "silent" if report.causes else "sound"
    badge = pluralize(len(report.causes), "cause") if report.causes else "Healthy"
    return format_element(
        "section",
        format_text("span", f"torch.compile: {badge}", f"badge {kind}")
        + format_text("p", summarize_compilation(report), "doctor-verdict"),
        f"doctor-hero {kind}",
    )


def reserve_height(selection: SelectedExperiment, report: CompileReport, key: str) -> None:
    """Reserve the chart's height in the container ``key`` until it is drawn."""
    chart = _build_step_parts_figure(selection, report)
    if chart is not None:
        height = f"calc({chart.layout.height}px + {_CAPTION_HEIGHT})"
        show_markup(format_element("style", f".st-key-{key} {{ min-height: {height} }}"))


def render_step_parts(selection: SelectedExperiment, report: CompileReport) -> None:
    """Draw the time breakdown, one part after the other."""
    chart = _build_step_parts_figure(selection, report)
    if chart is None:
        reason = report.time.reason if isinstance(report.time, Missing) else ""
        show_paragraph(f"Not available: {reason}.", "muted")
        return
    draw_figure(chart, "compiled-step")
    if isinstance(report.step_ns, Missing):
        st.caption(f"Profiled time; unprofiled step time not available: {report.step_ns.reason}.")
    else:
        st.caption(f"{STEP_TIME_METHOD}.")


def _build_step_parts_figure(selection: SelectedExperiment, report: CompileReport) -> Any:
    return get_figure(
        selection.key, ("compiled step", report.run), lambda theme: draw_step_parts(report, theme)
    )


def generate_cause_cards(causes: Sequence[CompileCause]) -> Iterable[str]:
    """Generate a card per cause; fold later ones and only count the smallest savings."""
    cards = [
        format_cause_card(number, cause) for number, cause in enumerate(causes[:_MAX_CARDS], 1)
    ]
    if any(cause.gain_range is not None for cause in causes):
        yield format_text("p", f"{SAVING_METHOD}.", "muted")
    yield from cards[:_UNFOLDED_CARDS]
    if len(causes) <= _UNFOLDED_CARDS:
        return
    folded = format_text("summary", f"{format_count(len(causes) - _UNFOLDED_CARDS)} more")
    folded += "".join(cards[_UNFOLDED_CARDS:])
    if len(causes) > _MAX_CARDS:
        remainder = f"{format_count(len(causes) - _MAX_CARDS)} smaller savings: "
        folded += format_element(
            "p", escape_html(remainder) + "<code>graphviz-dash compile RUN --json</code>", "muted"
        )
    yield format_element("details", folded)


def format_compile_rules(outcomes: Sequence[CompileRuleOutcome]) -> str:
    """Format the outcome of each torch.compile rule."""
    rows = (
        format_rule_row(
            outcome.rule,
            outcome.status,
            outcome.reason or (pluralize(outcome.causes, "cause") if outcome.causes else None),
            "torch.compile rule",
        )
        for outcome in outcomes
    )
    statuses = [outcome.status for outcome in outcomes]
    return format_rules_section("torch.compile rules", statuses, "".join(rows))


def format_cause_card(number: int, cause: CompileCause) -> str:
    """Format a card with line, cost and fix."""
    rule = COMPILE_RULES[cause.rule]
    badge = format_text("span", format_saving_badge(cause), "badge")
    head = format_element(
        "header",
        format_text("span", number, "count")
        + format_text("h3", get_cause_title(cause))
        + badge
        + format_rule_id(rule),
    )
    finding = "".join(_format_line(line) for line in cause.lines[:1])
    callers = [f"{line.text} in {line.function or 'the program'}" for line in cause.lines[1:4]]
    finding += format_text("p", cause.reason, "doctor-error")
    finding += _format_facts(
        ("Fix saves", format_saving(cause)),
        ("One-time cost", None if cause.one_time_ns is None else format_ns(cause.one_time_ns)),
    )
    details = _format_facts(
        ("Called from", "\n".join(callers)),
        ("Occurrences", format_count(cause.count)),
        ("Compilations", ", ".join(cause.frames[:8])),
        ("Details", "\n".join(text for text in cause.details[:6] if text != cause.reason)),
    )
    finding += format_finding_details("Details", details)
    advice = format_rule_advice(rule) + "".join(
        format_element("p", format_element("b", "torch: ") + format_inline_code(hint))
        for hint in cause.hints[:2]
    )
    body = format_element("div", finding, "found") + format_element("div", advice, "advice")
    return format_element(
        "article", head + format_element("div", body, "columns"), "doctor-card silent"
    )


def _format_facts(*rows: tuple[str, str | None]) -> str:
    cells = "".join(
        format_text("dt", name) + format_element("dd", _format_lines(value))
        for name, value in rows
        if value
    )
    return format_element("dl", cells)


def _format_line(line: UserLine) -> str:
    location = format_text("b", line.text)
    if line.function:
        location += format_element("span", f" in {escape_html(line.function)}")
    location_markup = format_element("div", location, "where")
    if not line.code:
        return location_markup
    hit = format_element("span", format_text("i", line.line) + escape_html(line.code), "hit")
    label = {"aria-label": f"Code at {line.text}"}
    return location_markup + format_element(
        "pre", hit, "code", tabindex="0", role="region", **label
    )


def _format_lines(code: str) -> str:
    return "<br>".join(escape_html(line) for line in code.splitlines())
