"""Outcome of each torch.compile rule in a run: violated, passed, or not checked with a reason."""

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

_REQUIRED_FACTS: Final = {
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
    CompileRuleId.UNEXPLAINED_SPLIT: CompilationFact.GRAPHS,
    CompileRuleId.MUTATED_INPUT: CompilationFact.SKIPS,
    CompileRuleId.NOT_RECORDED: CompilationFact.SKIPS,
    CompileRuleId.CHANGING_SIZES: CompilationFact.WARNINGS,
    CompileRuleId.PENDING_BACKWARD: CompilationFact.WARNINGS,
    CompileRuleId.COPIED_INPUTS: CompilationFact.NODES,
    CompileRuleId.MOVED_INPUT: CompilationFact.RERECORDINGS,
    CompileRuleId.CALLS_IN_ONE_STEP: CompilationFact.NODES,
}
"""Facts needed per rule; errors that end a run come from the run itself."""

_TRACE_RULES: Final = (
    CompileRuleId.UNEXPLAINED_SPLIT,
    CompileRuleId.COPIED_INPUTS,
    CompileRuleId.CALLS_IN_ONE_STEP,
)
"""Rules that only traced steps show to be violated."""

_STATUS_ORDER: Final = (CheckStatus.FOUND, CheckStatus.PASSED, CheckStatus.NOT_CHECKED)


class CompileRuleOutcome(Struct, frozen=True):
    """A rule and its outcome."""

    rule: CompileRule
    status: CheckStatus
    reason: str | None
    """Reason for not checking; None if checked."""
    causes: int


def build_rule_outcomes(
    compilation: Compilation, time: StepTime | Missing, causes: Sequence[CompileCause]
) -> tuple[CompileRuleOutcome, ...]:
    """Determine the outcome of each rule: violated first, unchecked last."""
    sources = {source.fact: source for source in compilation.sources}
    counts = Counter(cause.rule for cause in causes)
    outcomes = []
    for rule in COMPILE_RULES.values():
        reason = None
        fact = _REQUIRED_FACTS.get(rule.id)
        source = None if fact is None else sources.get(fact)
        if fact is not None and source is None:
            reason = "torch.compile diagnostics were not recorded"
        elif source is not None and source.source is None:
            reason = source.missing_reason
        elif rule.id in _TRACE_RULES and isinstance(time, Missing):
            reason = time.reason
        status = CheckStatus.PASSED if reason is None else CheckStatus.NOT_CHECKED
        if counts[rule.id]:
            status, reason = CheckStatus.FOUND, None
        outcomes.append(CompileRuleOutcome(rule, status, reason, counts[rule.id]))
    return tuple(sorted(outcomes, key=lambda outcome: _STATUS_ORDER.index(outcome.status)))
