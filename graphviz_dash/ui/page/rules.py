"""Format rules of the doctor and of torch.compile with their outcome."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from graphviz_dash.analysis.doctor import Diagnosis, RuleOutcome, UncheckedRules
from graphviz_dash.documentation import RULES, build_place
from graphviz_dash.model.compile_rules import CompileRule
from graphviz_dash.model.doctor import CheckStatus, Severity
from graphviz_dash.model.rules import Rule
from graphviz_dash.ui.page.help import format_docs_link
from graphviz_dash.ui.page.markup import escape_html, format_element, format_text

_STATUS: Final = {
    CheckStatus.FOUND: ("broken", "✕"),
    CheckStatus.PASSED: ("passed", "✓"),
    CheckStatus.NOT_CHECKED: ("not checked", "–"),
}


_EFFECTS: Final = {
    Severity.ILLEGAL: "capture fails",
    Severity.SILENT: "wrong without an error",
    Severity.COSTLY: "memory is lost",
}


def format_rule_row(
    rule: Rule | CompileRule, status: CheckStatus, note: str | None, kind: str
) -> str:
    """Format the row of a rule; ``note`` is its outcome, ``kind`` the effect of a violation."""
    summary = format_element(
        "summary",
        format_status_mark(status)
        + format_text("b", rule.title)
        + format_text("span", note or _STATUS[status][0], "note"),
    )
    details = (
        format_element("p", format_inline_code(rule.text))
        + format_element("p", format_inline_code(rule.advice))
        + format_element("p", f"{format_rule_id(rule)} {escape_html(kind)}", "muted")
    )
    return format_element("details", summary + details)


def format_rule_id(rule: Rule | CompileRule) -> str:
    """Format the id of a rule as a link to its section in the documentation."""
    code = format_text("code", rule.id.value, "rule-id")
    return format_docs_link(build_place(RULES, rule.heading), code)


def format_rule_advice(rule: Rule | CompileRule) -> str:
    """Format the fix of a rule with wrong and right code; the reason unfolds."""
    return (
        format_element("h4", "Fix")
        + format_element("p", format_inline_code(rule.advice))
        + format_element(
            "div",
            format_element(
                "pre", _format_code(rule.wrong), "wrong", **{"aria-label": "Violates the rule"}
            )
            + format_element(
                "pre", _format_code(rule.right), "right", **{"aria-label": "Follows the rule"}
            ),
            "example",
        )
        + format_finding_details("Why", format_element("p", format_inline_code(rule.text)))
    )


def format_finding_details(title: str, content: str) -> str:
    """Format content of a finding's card that unfolds."""
    return format_element("details", format_text("summary", title) + content)


def format_rules_section(title: str, statuses: Sequence[CheckStatus], rows: str) -> str:
    """Format the outcome of all rules; folded below findings."""
    counts = format_text("small", count_statuses(statuses))
    attributes = {} if CheckStatus.FOUND in statuses else {"open": "open"}
    return format_element(
        "details",
        format_element("summary", escape_html(title) + counts)
        + format_element("div", rows, "doctor-rules"),
        "more doctor-all-rules",
        **attributes,
    )


def _format_code(code: str) -> str:
    return "\n".join(escape_html(line) for line in code.splitlines())


def format_status_mark(status: CheckStatus) -> str:
    """Format the symbol of a status."""
    word, sign = _STATUS[status]
    return format_element("i", sign, word.replace(" ", "-"), title=word, **{"aria-label": word})


def count_statuses(statuses: Iterable[CheckStatus]) -> str:
    """Format the number of rules per status."""
    counts = Counter(statuses)
    return ", ".join(f"{counts[status]} {word}" for status, (word, _) in _STATUS.items())


def format_inline_code(words: str) -> str:
    """Format text between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape_html(words))


def format_doctor_rules(diagnosis: Diagnosis) -> str:
    """Format the outcome of each doctor rule."""
    rows = "".join(map(_format_rule, diagnosis.checked_rules)) + "".join(
        map(_format_unchecked_rules, diagnosis.unchecked_rules)
    )
    statuses = [outcome.status for outcome in diagnosis.rules]
    return format_rules_section("All rules", statuses, rows)


def _format_unchecked_rules(group: UncheckedRules) -> str:
    """Format rules unchecked for one reason, folded if there are several."""
    rules = "".join(map(_format_rule, group.outcomes))
    if len(group.outcomes) == 1:
        return rules
    mark = format_status_mark(CheckStatus.NOT_CHECKED)
    title = format_element("b", f"{len(group.outcomes)} rules")
    note = format_text("span", group.reason, "note")
    return format_element("details", format_element("summary", mark + title + note) + rules)


def _format_rule(outcome: RuleOutcome) -> str:
    kind = _EFFECTS[outcome.rule.severity]
    note = outcome.reason or (f"{outcome.findings} found" if outcome.findings else None)
    return format_rule_row(outcome.rule, outcome.status, note, kind)
