"""Build the JSON of ``graphviz-dash compile``, described in docs/reference/json.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from graphviz_dash.exports.documents.values import Count, Ns, Sentence, get_reason, simplify_number
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.program_tree import TreeBox
from graphviz_dash.features.torch_compile.analysis.report import CompileReport
from graphviz_dash.features.torch_compile.analysis.rule_outcomes import CompileRuleOutcome
from graphviz_dash.features.torch_compile.analysis.step_time import StepTime
from graphviz_dash.features.torch_compile.narrative import STEP_TIME_METHOD, summarize_compilation
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import UserLine
from graphviz_dash.model.compile_rules import COMPILE_RULES


class UserLineDocument(TypedDict):
    """A line of the program."""

    file: str
    line: Count
    function: str | None
    code: str | None


class CompileCauseDocument(TypedDict):
    """A cause that keeps the step from being a single replay."""

    rule: str
    title: Sentence
    reason: str
    lines: list[UserLineDocument]
    compilations: list[str]
    occurrences: Count
    saving: Ns | None
    saving_low: Ns | None
    saving_high: Ns | None
    saving_is_significant: bool | None
    saving_reason: Sentence | None
    one_time_cost: Ns | None
    details: list[str]
    advice: Sentence
    example: str
    hints: list[str]
    link: str | None


class CompileRuleDocument(TypedDict):
    """Outcome of a torch.compile rule."""

    rule: str
    status: str
    reason: Sentence | None
    causes: Count


class StepPartDocument(TypedDict):
    """A part of the step's time."""

    part: str
    compilation: str | None
    clean: Ns | None
    traced_busy: Ns
    traced_idle: Ns


class CompiledBoxDocument(TypedDict):
    """A box of the program tree; ``parent`` is the id of the enclosing box."""

    id: str
    parent: str | None
    kind: str
    title: str
    line: str | None
    time: Ns | None
    facts: dict[str, str]
    causes: list[int]
    graph: str | None


class CompileDocument(TypedDict):
    """Execution of a step with torch.compile, its time breakdown and the top fixes."""

    run: str
    torch: str | None
    sentence: Sentence
    step: Ns | None
    step_reason: Sentence | None
    traced_step: Ns | None
    remainder: Ns | None
    method: Sentence
    parts: list[StepPartDocument]
    parts_reason: Sentence | None
    causes: list[CompileCauseDocument]
    rules: list[CompileRuleDocument]
    program: list[CompiledBoxDocument]
    sources: dict[str, str | None]


def build_compile_document(report: CompileReport) -> CompileDocument:
    """Build the document of one run."""
    time, step_ns = report.time, report.step_ns
    timed = None if isinstance(time, Missing) else time
    clean_ns = None if isinstance(step_ns, Missing) else step_ns
    return {
        "run": report.run,
        "torch": report.compilation.torch,
        "sentence": summarize_compilation(report),
        "step": simplify_number(clean_ns),
        "step_reason": get_reason(step_ns),
        "traced_step": None if timed is None else timed.median_ns,
        "remainder": None
        if timed is None or clean_ns is None
        else timed.compute_remainder_ns(clean_ns),
        "method": STEP_TIME_METHOD,
        "parts": [] if timed is None else _build_parts(timed, clean_ns),
        "parts_reason": get_reason(time),
        "causes": [build_cause_document(cause) for cause in report.causes],
        "rules": build_compile_rule_documents(report.rules),
        "program": _build_program(report),
        "sources": {source.fact.value: source.source for source in report.compilation.sources},
    }


def _build_parts(time: StepTime, step_ns: float | None) -> list[StepPartDocument]:
    return [
        {
            "part": part.part.value,
            "compilation": part.frame,
            "clean": None if step_ns is None else time.compute_clean_ns(part, step_ns),
            "traced_busy": part.busy_ns,
            "traced_idle": part.idle_ns,
        }
        for part in time.parts
    ]


def build_cause_document(cause: CompileCause) -> CompileCauseDocument:
    """Build the document of one cause."""
    rule, saving = COMPILE_RULES[cause.rule], cause.gain_range
    return {
        "rule": rule.id.value,
        "title": rule.title,
        "reason": cause.reason,
        "lines": [_build_line(line) for line in cause.lines],
        "compilations": list(cause.frames),
        "occurrences": cause.count,
        "saving": None if isinstance(cause.gain_ns, Missing) else cause.gain_ns,
        "saving_low": None if saving is None else saving.low_ns,
        "saving_high": None if saving is None else saving.high_ns,
        "saving_is_significant": None if saving is None else saving.is_significant,
        "saving_reason": get_reason(cause.gain_ns),
        "one_time_cost": cause.one_time_ns,
        "details": list(cause.details),
        "advice": rule.advice,
        "example": rule.right,
        "hints": list(cause.hints),
        "link": cause.link,
    }


def build_compile_rule_documents(
    outcomes: Sequence[CompileRuleOutcome],
) -> list[CompileRuleDocument]:
    """Build the documents of the rule outcomes."""
    return [
        {
            "rule": outcome.rule.id.value,
            "status": outcome.status.value,
            "reason": outcome.reason,
            "causes": outcome.causes,
        }
        for outcome in outcomes
    ]


def _build_line(line: UserLine) -> UserLineDocument:
    return {"file": line.file, "line": line.line, "function": line.function, "code": line.code}


def _build_program(report: CompileReport) -> list[CompiledBoxDocument]:
    rows: list[CompiledBoxDocument] = []
    pending: list[tuple[TreeBox, str | None]] = [(box, None) for box in reversed(report.tree.roots)]
    while pending:
        box, parent = pending.pop()
        rows.append(
            {
                "id": box.id,
                "parent": parent,
                "kind": box.kind.value,
                "title": box.title,
                "line": None if box.line is None else box.line.text,
                "time": box.total_ns,
                "facts": dict(box.facts),
                "causes": list(box.causes),
                "graph": box.graph,
            }
        )
        pending.extend((child, box.id) for child in reversed(box.children))
    return rows
