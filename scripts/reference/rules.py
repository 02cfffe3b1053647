"""The rules of capture and of torch.compile, from their registries."""

from __future__ import annotations

from typing import Final

from graphviz_dash.model.compile_rules import COMPILE_RULES, CompileRule
from graphviz_dash.model.doctor import Severity
from graphviz_dash.model.rules import RULES, Rule

_SEVERITY: Final = {
    Severity.ILLEGAL: "Illegal: the capture fails.",
    Severity.SILENT: "Silent: the capture succeeds, but replays do other work.",
}


def body() -> str:
    """A section for each rule: first those of capture, then those of torch.compile."""
    capture = (
        _rule(rule.id.value, rule, f" {_SEVERITY[rule.severity]}") for rule in RULES.values()
    )
    # Two rules of torch.compile have the id of a rule of capture.
    compiled = (_rule(f"{rule.id.value} (compile)", rule, "") for rule in COMPILE_RULES.values())
    return "\n".join(("## Capture rules\n", *capture, "## Compile rules\n", *compiled))


def _rule(heading: str, rule: Rule | CompileRule, severity: str) -> str:
    return (
        f"### {heading}\n\n**{rule.title}.**{severity}\n\n{rule.text}\n\n{rule.advice}\n\n"
        f"```python\n# Before\n{rule.wrong}\n\n# After\n{rule.right}\n```\n"
    )
