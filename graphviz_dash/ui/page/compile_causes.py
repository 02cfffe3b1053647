"""What keeps a compiled step from being one replay: a card for each cause."""

from __future__ import annotations

import re

from graphviz_dash.analysis.compiled.causes import CompileCause
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import UserLine
from graphviz_dash.model.compile_rules import COMPILE_RULES
from graphviz_dash.narrative.compiled import cause_title, saving_text
from graphviz_dash.ui.page.markup import element, text
from graphviz_dash.units import format_count, format_ns


def cause_card(number: int, cause: CompileCause) -> str:
    """The card of the cause ``number``: its line, what it costs and what to write instead."""
    rule = COMPILE_RULES[cause.rule]
    saves = isinstance(cause.saves_ns, Missing)
    badge = element("span", text(f"saves {saving_text(cause)}") if not saves else "once", "badge")
    head = element(
        "header",
        element("span", text(number), "count")
        + element("h3", text(cause_title(cause)))
        + badge
        + element("code", text(rule.id.value), "rule-id"),
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
    right = (
        element("h4", "The rule")
        + element("p", _inline(rule.text))
        + element("h4", "What to write instead")
        + element("p", _inline(rule.advice))
        + element(
            "div",
            element("pre", _code(rule.wrong), "wrong", **{"aria-label": "Breaks the rule"})
            + element("pre", _code(rule.right), "right", **{"aria-label": "Keeps the rule"}),
            "example",
        )
        + "".join(element("p", element("b", "torch: ") + _inline(hint)) for hint in cause.hints[:2])
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


def _inline(words: str) -> str:
    """Text whose backticks mark code."""
    parts = re.split(r"`([^`]*)`", words)
    return "".join(
        element("code", text(part)) if index % 2 else text(part) for index, part in enumerate(parts)
    )


def _lines(code: str) -> str:
    return "<br>".join(text(line) for line in code.splitlines())


def _code(code: str) -> str:
    return "\n".join(text(line) for line in code.splitlines())
