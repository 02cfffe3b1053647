"""Print the rules chapter of docs/doctor.md.

``python -m scripts.doctor_rules``
"""

from __future__ import annotations

import sys

from graphviz_dash.model.doctor import Severity
from graphviz_dash.model.rules import RULES, Rule

_SEVERITY = {
    Severity.ILLEGAL: "Illegal: the capture fails.",
    Severity.SILENT: "Silent: the capture succeeds, but replays behave differently.",
}


def format_chapter() -> str:
    """Format the rules in Markdown, with the chapter's heading."""
    return "## The rules\n\n" + "\n".join(_format_rule(rule) for rule in RULES.values())


def _format_rule(rule: Rule) -> str:
    return (
        f"### {rule.id.value}\n\n**{rule.title}.** {_SEVERITY[rule.severity]}\n\n{rule.text}\n\n"
        f"{rule.advice}\n\n```python\n# Wrong\n{rule.wrong}\n\n# Right\n{rule.right}\n```\n"
    )


if __name__ == "__main__":
    sys.stdout.write(format_chapter())
