"""Format rules of the doctor and of torch.compile with their outcome, as rows that unfold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from graphviz_dash.analysis.doctor import Diagnosis, RuleOutcome, UncheckedRules
from graphviz_dash.model.compile_rules import CompileRule
from graphviz_dash.model.doctor import CheckStatus, Severity
from graphviz_dash.model.rules import Rule
from graphviz_dash.ui.page.markup import element, text

_STATUS: Final = {
    CheckStatus.FOUND: ("broken", "✕"),
    CheckStatus.PASSED: ("passed", "✓"),
    CheckStatus.NOT_CHECKED: ("not checked", "–"),
}


def rule_row(rule: Rule | CompileRule, status: CheckStatus, note: str | None, kind: str) -> str:
    """Format the row of a rule; ``note`` is its outcome, ``kind`` the effect of a violation."""
    summary = element(
        "summary",
        status_mark(status)
        + element("b", text(rule.title))
        + element("span", text(note or _STATUS[status][0]), "note"),
    )
    details = (
        element("p", inline_code(rule.text))
        + element("p", inline_code(rule.advice))
        + element("p", element("code", text(rule.id.value)) + f" {text(kind)}", "muted")
    )
    return element("details", summary + details)


def rule_advice(rule: Rule | CompileRule, heading: str) -> str:
    """Format a rule, the advice under ``heading``, and wrong and right code."""
    return (
        element("h4", "Rule")
        + element("p", inline_code(rule.text))
        + element("h4", text(heading))
        + element("p", inline_code(rule.advice))
        + element(
            "div",
            element("pre", _code(rule.wrong), "wrong", **{"aria-label": "Violates the rule"})
            + element("pre", _code(rule.right), "right", **{"aria-label": "Follows the rule"}),
            "example",
        )
    )


def _code(code: str) -> str:
    return "\n".join(text(line) for line in code.splitlines())


def status_mark(status: CheckStatus) -> str:
    """Format the symbol of a status."""
    word, sign = _STATUS[status]
    return element("i", sign, word.replace(" ", "-"), title=word, **{"aria-label": word})


def status_counts(statuses: Iterable[CheckStatus]) -> str:
    """Format the number of rules per status."""
    counts = Counter(statuses)
    return ", ".join(f"{counts[status]} {word}" for status, (word, _) in _STATUS.items())


def inline_code(words: str) -> str:
    """Format text between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(words))


def doctor_rules(diagnosis: Diagnosis) -> str:
    """Format the outcome of each doctor rule."""
    counts = status_counts(outcome.status for outcome in diagnosis.rules)
    return (
        element("h2", "All rules", "doctor-part")
        + element("p", text(counts), "muted")
        + element(
            "div",
            "".join(map(_rule, diagnosis.checked)) + "".join(map(_unchecked, diagnosis.unchecked)),
            "doctor-rules",
        )
    )


def _unchecked(group: UncheckedRules) -> str:
    """Format rules that share a reason for not being checked, folded if there are several."""
    rules = "".join(map(_rule, group.outcomes))
    if len(group.outcomes) == 1:
        return rules
    mark = status_mark(CheckStatus.NOT_CHECKED)
    title = element("b", f"{len(group.outcomes)} rules")
    note = element("span", text(group.reason), "note")
    return element("details", element("summary", mark + title + note) + rules)


def _rule(outcome: RuleOutcome) -> str:
    kind = (
        "capture fails" if outcome.rule.severity is Severity.ILLEGAL else "wrong without an error"
    )
    note = outcome.reason or (f"{outcome.findings} found" if outcome.findings else None)
    return rule_row(outcome.rule, outcome.status, note, kind)
