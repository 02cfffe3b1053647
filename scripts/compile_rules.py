"""Print the rules chapter of docs/compile.md.

``python -m scripts.compile_rules``
"""

from __future__ import annotations

import sys

from graphviz_dash.model.compile_rules import COMPILE_RULES, CompileRule


def format_chapter() -> str:
    """Format the rules in Markdown, with the chapter's heading."""
    return "## The rules\n\n" + "\n".join(_format_rule(rule) for rule in COMPILE_RULES.values())


def _format_rule(rule: CompileRule) -> str:
    return (
        f"### {rule.id.value}\n\n**{rule.title}.** {rule.text}\n\n"
        f"{rule.advice}\n\n```python\n# Wrong\n{rule.wrong}\n\n# Right\n{rule.right}\n```\n"
    )


if __name__ == "__main__":
    sys.stdout.write(format_chapter())
