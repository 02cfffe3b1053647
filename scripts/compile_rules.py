"""The chapter of docs/compile.md that lists the rules.

``python -m scripts.compile_rules`` prints it.
"""

from __future__ import annotations

import sys

from graphviz_dash.model.compile_rules import COMPILE_RULES, CompileRule


def rules_chapter() -> str:
    """The rules in Markdown, with the heading of the chapter."""
    return "## The rules\n\n" + "\n".join(_rule(rule) for rule in COMPILE_RULES.values())


def _rule(rule: CompileRule) -> str:
    return (
        f"### {rule.id.value}\n\n**{rule.title}.** {rule.text}\n\n"
        f"{rule.advice}\n\n```python\n# not so\n{rule.wrong}\n\n# but so\n{rule.right}\n```\n"
    )


if __name__ == "__main__":
    sys.stdout.write(rules_chapter())
