"""Rules with what came of them, as rows that unfold: the doctor's and those of torch.compile."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from graphviz_dash.analysis.doctor import Diagnosis, RuleOutcome, UncheckedRules
from graphviz_dash.documentation import RULES, place
from graphviz_dash.model.compile_rules import CompileRule
from graphviz_dash.model.doctor import CheckStatus, Severity
from graphviz_dash.model.rules import Rule
from graphviz_dash.ui.page.help import docs_link
from graphviz_dash.ui.page.markup import element, text

_STATUS: Final = {
    CheckStatus.FOUND: ("broken", "✕"),
    CheckStatus.PASSED: ("passed", "✓"),
    CheckStatus.NOT_CHECKED: ("not checked", "–"),
}


def rule_row(rule: Rule | CompileRule, status: CheckStatus, note: str | None, kind: str) -> str:
    """The row of a rule: ``note`` is what came of it, ``kind`` what breaking it does."""
    summary = element(
        "summary",
        status_mark(status)
        + element("b", text(rule.title))
        + element("span", text(note or _STATUS[status][0]), "note"),
    )
    inside = (
        element("p", inline_code(rule.text))
        + element("p", inline_code(rule.advice))
        + element("p", f"{rule_id(rule)} {text(kind)}", "muted")
    )
    return element("details", summary + inside)


def rule_id(rule: Rule | CompileRule) -> str:
    """The id of a rule, which links to its section in the documentation."""
    return docs_link(place(RULES, rule.heading), element("code", text(rule.id.value), "rule-id"))


def rule_advice(rule: Rule | CompileRule, heading: str) -> str:
    """The rule, under ``heading`` what to do about it, and code that breaks and that keeps it."""
    return (
        element("h4", "The rule")
        + element("p", inline_code(rule.text))
        + element("h4", text(heading))
        + element("p", inline_code(rule.advice))
        + element(
            "div",
            element("pre", _code(rule.wrong), "wrong", **{"aria-label": "Breaks the rule"})
            + element("pre", _code(rule.right), "right", **{"aria-label": "Keeps the rule"}),
            "example",
        )
    )


def _code(code: str) -> str:
    return "\n".join(text(line) for line in code.splitlines())


def status_mark(status: CheckStatus) -> str:
    """The sign of a status."""
    word, sign = _STATUS[status]
    return element("i", sign, word.replace(" ", "-"), title=word, **{"aria-label": word})


def status_counts(statuses: Iterable[CheckStatus]) -> str:
    """How many rules have which status, in words."""
    counts = Counter(statuses)
    return ", ".join(f"{counts[status]} {word}" for status, (word, _) in _STATUS.items())


def inline_code(words: str) -> str:
    """Text of a registry: what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(words))


def doctor_rules(diagnosis: Diagnosis) -> str:
    """What came of each of the doctor's rules."""
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
    """Rules that one reason left unchecked, folded where they are several."""
    inside = "".join(map(_rule, group.outcomes))
    if len(group.outcomes) == 1:
        return inside
    mark = status_mark(CheckStatus.NOT_CHECKED)
    title = element("b", f"{len(group.outcomes)} rules")
    note = element("span", text(group.reason), "note")
    return element("details", element("summary", mark + title + note) + inside)


def _rule(outcome: RuleOutcome) -> str:
    kind = (
        "the capture fails" if outcome.rule.severity is Severity.ILLEGAL else "no error reports it"
    )
    note = outcome.reason or (f"{outcome.findings} found" if outcome.findings else None)
    return rule_row(outcome.rule, outcome.status, note, kind)
