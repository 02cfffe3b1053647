"""The rules of capture and of torch.compile, from their registries."""

from __future__ import annotations

from typing import Final

from graphviz_dash.model.compile_rules import COMPILE_RULES, CompileRule
from graphviz_dash.model.doctor import Severity
from graphviz_dash.model.rules import RULES, Rule

_SEVERITY: Final = {
    Severity.ILLEGAL: "Illegal.",
    Severity.SILENT: "Silent.",
    Severity.COSTLY: "Costly.",
}


def format_body() -> str:
    """A section for each rule: first those of capture, then those of torch.compile."""
    capture = (_format_rule(rule, f" {_SEVERITY[rule.severity]}") for rule in RULES.values())
    compile_sections = (_format_rule(rule, "") for rule in COMPILE_RULES.values())
    return "\n".join(("## Capture rules\n", *capture, "## Compile rules\n", *compile_sections))


def _format_rule(rule: Rule | CompileRule, severity: str) -> str:
    return (
        f"### {rule.heading}\n\n**{rule.title}.**{severity}\n\n{rule.text}\n\n{rule.advice}\n\n"
        f"```python\n# Before\n{rule.wrong}\n\n# After\n{rule.right}\n```\n"
    )
