"""One reason why a compiled step is not one replay, and which rule a text of torch's breaks."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from graphviz_dash.features.torch_compile.analysis.saving_range import SavingRange
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import UserLine
from graphviz_dash.model.compile_rules import CompileRuleId


class CompileCause(Struct, frozen=True):
    """One place that keeps a compiled step from being one replay."""

    rule: CompileRuleId
    """What it breaks, which says what to write instead."""
    reason: str
    """What torch says of it."""
    lines: tuple[UserLine, ...]
    """The program's lines, innermost first; empty where none is known."""
    frames: tuple[str, ...]
    """The compilations that it concerns."""
    times: int
    """How often it came."""
    saves_ns: float | Missing
    """What mending it would save in each step, in ns of a clean step."""
    once_ns: int | None
    """What it cost once, in ns: compilations that it made; None where that is not told."""
    saves_range: SavingRange | None = None
    """How sure ``saves_ns`` is; None where it is not known."""
    details: tuple[str, ...] = ()
    """Guards that failed, operators, inputs with their sizes."""
    hints: tuple[str, ...] = ()
    """What torch suggests."""
    link: str | None = None
    """Where torch's documentation has more."""


def first_rule(
    text: str, rules: Iterable[tuple[re.Pattern[str], CompileRuleId]], otherwise: CompileRuleId
) -> CompileRuleId:
    """The first rule whose pattern ``text`` has, or ``otherwise``."""
    return next((rule for pattern, rule in rules if pattern.search(text)), otherwise)
