"""Spans of a compiled step with their purpose and cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.analysis.trace.steps import Step
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.step_time import StepDivider, StepSpan
from graphviz_dash.model.compile_rules import CompileRuleId

_BREAK_RULES: Final = (
    CompileRuleId.VALUE_READ,
    CompileRuleId.PYTHON_SIDE_EFFECT,
    CompileRuleId.DISABLED_FUNCTION,
    CompileRuleId.SIZE_FROM_DATA,
    CompileRuleId.GRAPH_BREAK,
    CompileRuleId.RECOMPILE_LIMIT,
)
_SPLIT_RULES: Final = (
    CompileRuleId.CPU_WORK,
    CompileRuleId.COPY_BETWEEN_DEVICES,
    CompileRuleId.UNSAFE_OPERATOR,
    CompileRuleId.SIZE_FROM_DATA,
    CompileRuleId.UNEXPLAINED_SPLIT,
    CompileRuleId.MUTATED_INPUT,
    CompileRuleId.PENDING_BACKWARD,
    CompileRuleId.NOT_RECORDED,
)
_RULES_BY_PART: Final = {
    StepPart.EAGER: _BREAK_RULES,
    StepPart.WAIT: (CompileRuleId.VALUE_READ, *_SPLIT_RULES),
    StepPart.COMPILED: _SPLIT_RULES,
    StepPart.COPIES: (CompileRuleId.COPIED_INPUTS,),
}
"""Rules whose violation causes each part."""


class StepRegion(Struct, frozen=True):
    """A span of a step with its cause."""

    span: StepSpan
    cause: CompileCause | None
    """Cause of the span; None if unknown."""


def divide_into_regions(
    divider: StepDivider, step: Step, causes: Sequence[CompileCause]
) -> tuple[StepRegion, ...]:
    """Divide without gaps; ``causes`` are sorted by gain."""
    by_key: dict[tuple[StepPart, str | None], CompileCause | None] = {}
    regions = []
    for stretch in divider.divide(step):
        key = stretch.part, stretch.frame
        if key not in by_key:
            by_key[key] = _find_cause(*key, causes)
        regions.append(StepRegion(stretch, by_key[key]))
    return tuple(regions)


def _find_cause(
    part: StepPart, frame: str | None, causes: Sequence[CompileCause]
) -> CompileCause | None:
    rules = _RULES_BY_PART.get(part, ())
    if frame is None:
        return None
    return next((cause for cause in causes if cause.rule in rules and frame in cause.frames), None)
