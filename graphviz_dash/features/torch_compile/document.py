"""JSON of ``graphviz-dash compile``, described in docs/reference/json.md."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field

from graphviz_dash.exports.documents.values import (
    Count,
    Document,
    Ns,
    Sentence,
    build,
    drop_missing,
)
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.program_tree import TreeBox
from graphviz_dash.features.torch_compile.analysis.report import CompileReport
from graphviz_dash.features.torch_compile.analysis.rule_outcomes import CompileRuleOutcome
from graphviz_dash.features.torch_compile.analysis.step_time import StepTime
from graphviz_dash.features.torch_compile.narrative import STEP_TIME_METHOD, summarize_compilation
from graphviz_dash.model.compile_rules import COMPILE_RULES


class UserLineDocument(Document, frozen=True):
    """A line of the program."""

    file: str
    line: Count
    function: str | None
    code: str | None


class CompileCauseDocument(Document, frozen=True):
    """A cause that keeps the step from being a single replay."""

    rule: str
    title: Sentence
    reason: str
    lines: list[UserLineDocument]
    frames: list[str] = field(name="compilations")
    count: Count = field(name="occurrences")
    gain_ns: Ns | None = field(name="saving")
    low_ns: Ns | None = field(name="saving_low")
    high_ns: Ns | None = field(name="saving_high")
    is_significant: bool | None = field(name="saving_is_significant")
    gain_ns_reason: Sentence | None = field(name="saving_reason")
    one_time_ns: Ns | None = field(name="one_time_cost")
    details: list[str]
    advice: Sentence
    right: str = field(name="example")
    hints: list[str]
    link: str | None


class CompileRuleDocument(Document, frozen=True):
    """Outcome of a torch.compile rule."""

    rule: str
    status: str
    reason: Sentence | None
    causes: Count


class StepPartDocument(Document, frozen=True):
    """A part of the step's time."""

    part: str
    frame: str | None = field(name="compilation")
    clean: Ns | None
    busy_ns: Ns = field(name="traced_busy")
    idle_ns: Ns = field(name="traced_idle")


class CompiledBoxDocument(Document, frozen=True):
    """A box of the program tree; ``parent`` is the id of the enclosing box."""

    id: str
    parent: str | None
    kind: str
    title: str
    line: str | None
    total_ns: Ns | None = field(name="time")
    facts: dict[str, str]
    causes: list[int]
    graph: str | None


class CompileDocument(Document, frozen=True):
    """Execution of a step with torch.compile, its time breakdown and the top fixes."""

    run: str
    torch: str | None
    sentence: Sentence
    step_ns: Ns | None = field(name="step")
    step_statistic: str | None
    step_ns_reason: Sentence | None = field(name="step_reason")
    traced_step: Ns | None
    remainder: Ns | None
    method: Sentence
    parts: list[StepPartDocument]
    time_reason: Sentence | None = field(name="parts_reason")
    causes: list[CompileCauseDocument]
    rules: list[CompileRuleDocument]
    program: list[CompiledBoxDocument]
    sources: dict[str, str | None]


def build_compile_document(report: CompileReport) -> CompileDocument:
    """Build the document of one run."""
    time, step_ns = drop_missing(report.time), drop_missing(report.step_ns)
    return build(
        CompileDocument,
        report,
        torch=report.compilation.torch,
        sentence=summarize_compilation(report),
        traced_step=time and time.median_ns,
        remainder=None if time is None or step_ns is None else time.compute_remainder_ns(step_ns),
        method=STEP_TIME_METHOD,
        parts=[] if time is None else _build_parts(time, step_ns),
        causes=[build_cause_document(cause) for cause in report.causes],
        rules=build_compile_rule_documents(report.rules),
        program=_build_program(report),
        sources={source.fact: source.source for source in report.compilation.sources},
    )


def _build_parts(time: StepTime, step_ns: float | None) -> list[StepPartDocument]:
    return [
        build(
            StepPartDocument,
            part,
            clean=None if step_ns is None else time.compute_clean_ns(part, step_ns),
        )
        for part in time.parts
    ]


def build_cause_document(cause: CompileCause) -> CompileCauseDocument:
    """Build the document of one cause."""
    rule = COMPILE_RULES[cause.rule]
    return build(CompileCauseDocument, cause, rule, cause.gain_range)


def build_compile_rule_documents(
    outcomes: Sequence[CompileRuleOutcome],
) -> list[CompileRuleDocument]:
    """Build the documents of the rule outcomes."""
    return [build(CompileRuleDocument, outcome, rule=outcome.rule.id) for outcome in outcomes]


def _build_program(report: CompileReport) -> list[CompiledBoxDocument]:
    rows: list[CompiledBoxDocument] = []
    pending: list[tuple[TreeBox, str | None]] = [(box, None) for box in reversed(report.tree.roots)]
    while pending:
        box, parent = pending.pop()
        line, facts = box.line and box.line.text, dict(box.facts)
        rows.append(build(CompiledBoxDocument, box, parent=parent, line=line, facts=facts))
        pending.extend((child, box.id) for child in reversed(box.children))
    return rows
