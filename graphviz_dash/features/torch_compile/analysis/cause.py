"""A cause that keeps a compiled step from being one replay."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from graphviz_dash.features.torch_compile.analysis.saving_range import GainRange
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import UserLine
from graphviz_dash.model.compile_rules import CompileRuleId


class CompileCause(Struct, frozen=True):
    """A place in the program that keeps a compiled step from being one replay."""

    rule: CompileRuleId
    """Violated rule; the rule describes the fix."""
    reason: str
    """torch's message."""
    lines: tuple[UserLine, ...]
    """Lines of the program, innermost first; empty if unknown."""
    frames: tuple[str, ...]
    """Affected compilations."""
    count: int
    gain_ns: float | Missing
    """Predicted gain per clean step from a fix, in ns."""
    one_time_ns: int | None
    """One-time cost of the resulting compilations; None if unknown."""
    gain_range: GainRange | None = None
    """Interval of ``gain_ns``; None if unknown."""
    details: tuple[str, ...] = ()
    """Failed guards, operators, or inputs with their sizes."""
    hints: tuple[str, ...] = ()
    """Suggestions from torch."""
    link: str | None = None
    """Link to torch's documentation."""


def find_first_rule(
    text: str, rules: Iterable[tuple[re.Pattern[str], CompileRuleId]], default: CompileRuleId
) -> CompileRuleId:
    """Return the first rule whose pattern matches ``text``."""
    return next((rule for pattern, rule in rules if pattern.search(text)), default)
