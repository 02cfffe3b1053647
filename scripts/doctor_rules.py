"""The chapter of docs/doctor.md that lists the rules.

``python -m scripts.doctor_rules`` prints it.
"""

from __future__ import annotations

import sys

from graphviz_dash.model.doctor import Severity
from graphviz_dash.model.rules import RULES, Rule

_SEVERITY = {
    Severity.ILLEGAL: "Illegal: the capture fails.",
    Severity.SILENT: "Silent: the capture succeeds, and replays do something else.",
}


def rules_chapter() -> str:
    """The rules in Markdown, with the heading of the chapter."""
    return "## The rules\n\n" + "\n".join(_rule(rule) for rule in RULES.values())


def _rule(rule: Rule) -> str:
    return (
        f"### {rule.id.value}\n\n**{rule.title}.** {_SEVERITY[rule.severity]}\n\n{rule.text}\n\n"
        f"{rule.advice}\n\n```python\n# not so\n{rule.wrong}\n\n# but so\n{rule.right}\n```\n"
    )


if __name__ == "__main__":
    sys.stdout.write(rules_chapter())
