"""What came of each rule of torch.compile in a run: broken, kept, or not looked at and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.step_time import StepTime
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import Compilation, CompilationFact
from graphviz_dash.model.compile_rules import COMPILE_RULES, CompileRule, CompileRuleId
from graphviz_dash.model.doctor import CheckStatus

_TOLD_BY: Final = {
    CompileRuleId.GRAPH_BREAK: CompilationFact.BREAKS,
    CompileRuleId.VALUE_READ: CompilationFact.BREAKS,
    CompileRuleId.PYTHON_SIDE_EFFECT: CompilationFact.BREAKS,
    CompileRuleId.DISABLED_FUNCTION: CompilationFact.BREAKS,
    CompileRuleId.RECOMPILING: CompilationFact.RECOMPILES,
    CompileRuleId.RECOMPILE_LIMIT: CompilationFact.RECOMPILES,
    CompileRuleId.CPU_WORK: CompilationFact.PARTITIONS,
    CompileRuleId.COPY_BETWEEN_DEVICES: CompilationFact.PARTITIONS,
    CompileRuleId.UNSAFE_OPERATOR: CompilationFact.PARTITIONS,
    CompileRuleId.SIZE_FROM_DATA: CompilationFact.PARTITIONS,
    CompileRuleId.SPLIT_UNTOLD: CompilationFact.GRAPHS,
    CompileRuleId.MUTATED_INPUT: CompilationFact.SKIPS,
    CompileRuleId.NOT_RECORDED: CompilationFact.SKIPS,
    CompileRuleId.CHANGING_SIZES: CompilationFact.WARNINGS,
    CompileRuleId.PENDING_BACKWARD: CompilationFact.WARNINGS,
    CompileRuleId.COPIED_INPUTS: CompilationFact.NODES,
    CompileRuleId.MOVED_INPUT: CompilationFact.RERECORDINGS,
    CompileRuleId.CALLS_IN_ONE_STEP: CompilationFact.NODES,
}
"""The facts that say whether a rule is kept; errors that end a run are told by the run itself."""

_OF_TRACED_STEPS: Final = (
    CompileRuleId.SPLIT_UNTOLD,
    CompileRuleId.COPIED_INPUTS,
    CompileRuleId.CALLS_IN_ONE_STEP,
)
"""Rules that only the times of traced steps can show to be broken."""

_ORDER: Final = (CheckStatus.FOUND, CheckStatus.PASSED, CheckStatus.NOT_CHECKED)


class CompileRuleOutcome(Struct, frozen=True):
    """A rule and what came of it."""

    rule: CompileRule
    """The rule."""
    status: CheckStatus
    """Broken, kept or not looked at."""
    reason: str | None
    """Why it was not looked at; None where it was."""
    causes: int
    """How many causes break it."""


def rule_outcomes(
    compilation: Compilation, time: StepTime | Missing, causes: Sequence[CompileCause]
) -> tuple[CompileRuleOutcome, ...]:
    """What came of each rule: those that are broken first, those that were not looked at last."""
    sources = {source.fact: source for source in compilation.sources}
    counts = Counter(cause.rule for cause in causes)
    outcomes = []
    for rule in COMPILE_RULES.values():
        reason = None
        fact = _TOLD_BY.get(rule.id)
        source = None if fact is None else sources.get(fact)
        if fact is not None and source is None:
            reason = "what torch.compile tells was not recorded"
        elif source is not None and source.source is None:
            reason = source.missing
        elif rule.id in _OF_TRACED_STEPS and isinstance(time, Missing):
            reason = time.reason
        status = CheckStatus.PASSED if reason is None else CheckStatus.NOT_CHECKED
        if counts[rule.id]:
            status, reason = CheckStatus.FOUND, None
        outcomes.append(CompileRuleOutcome(rule, status, reason, counts[rule.id]))
    return tuple(sorted(outcomes, key=lambda outcome: _ORDER.index(outcome.status)))
