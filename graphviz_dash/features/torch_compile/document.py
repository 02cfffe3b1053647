"""The JSON of ``graphviz-dash compile``, as docs/reference/json.md describes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from graphviz_dash.exports.documents.values import Count, Ns, Sentence, number, reason_of
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.program_tree import Box
from graphviz_dash.features.torch_compile.analysis.report import CompileReport
from graphviz_dash.features.torch_compile.analysis.rule_outcomes import CompileRuleOutcome
from graphviz_dash.features.torch_compile.analysis.step_time import StepTime
from graphviz_dash.features.torch_compile.narrative import METHOD, compile_sentence
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
    """What keeps the step from being one replay."""

    rule: str
    title: Sentence
    reason: str
    lines: list[UserLineDocument]
    compilations: list[str]
    times: Count
    saves: Ns | None
    saves_low: Ns | None
    saves_high: Ns | None
    saves_clear: bool | None
    saves_reason: Sentence | None
    once: Ns | None
    details: list[str]
    advice: Sentence
    instead: str
    hints: list[str]
    link: str | None


class CompileRuleDocument(TypedDict):
    """What came of a rule of torch.compile."""

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
    """A box of the program's tree; ``parent`` is the id of the one around it."""

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
    """What torch.compile made of the step of a run, where its time goes and what to mend first."""

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


def compile_document(report: CompileReport) -> CompileDocument:
    """The document of one run."""
    time, step_ns = report.time, report.step_ns
    timed = None if isinstance(time, Missing) else time
    clean_ns = None if isinstance(step_ns, Missing) else step_ns
    return {
        "run": report.run,
        "torch": report.compilation.torch,
        "sentence": compile_sentence(report),
        "step": number(clean_ns),
        "step_reason": reason_of(step_ns),
        "traced_step": None if timed is None else timed.traced_ns,
        "remainder": None if timed is None or clean_ns is None else timed.remainder(clean_ns),
        "method": METHOD,
        "parts": [] if timed is None else _parts(timed, clean_ns),
        "parts_reason": reason_of(time),
        "causes": [cause_document(cause) for cause in report.causes],
        "rules": compile_rule_documents(report.rules),
        "program": _program(report),
        "sources": {source.fact.value: source.source for source in report.compilation.sources},
    }


def _parts(time: StepTime, step_ns: float | None) -> list[StepPartDocument]:
    return [
        {
            "part": part.part.value,
            "compilation": part.frame,
            "clean": None if step_ns is None else time.clean(part, step_ns),
            "traced_busy": part.busy_ns,
            "traced_idle": part.idle_ns,
        }
        for part in time.parts
    ]


def cause_document(cause: CompileCause) -> CompileCauseDocument:
    """The document of one cause."""
    rule, own = COMPILE_RULES[cause.rule], cause.saves_range
    return {
        "rule": rule.id.value,
        "title": rule.title,
        "reason": cause.reason,
        "lines": [_line(line) for line in cause.lines],
        "compilations": list(cause.frames),
        "times": cause.times,
        "saves": None if isinstance(cause.saves_ns, Missing) else cause.saves_ns,
        "saves_low": None if own is None else own.low_ns,
        "saves_high": None if own is None else own.high_ns,
        "saves_clear": None if own is None else own.is_clear,
        "saves_reason": reason_of(cause.saves_ns),
        "once": cause.once_ns,
        "details": list(cause.details),
        "advice": rule.advice,
        "instead": rule.right,
        "hints": list(cause.hints),
        "link": cause.link,
    }


def compile_rule_documents(
    outcomes: Sequence[CompileRuleOutcome],
) -> list[CompileRuleDocument]:
    """The documents of what came of each rule."""
    return [
        {
            "rule": outcome.rule.id.value,
            "status": outcome.status.value,
            "reason": outcome.reason,
            "causes": outcome.causes,
        }
        for outcome in outcomes
    ]


def _line(line: UserLine) -> UserLineDocument:
    return {"file": line.file, "line": line.line, "function": line.function, "code": line.code}


def _program(report: CompileReport) -> list[CompiledBoxDocument]:
    rows: list[CompiledBoxDocument] = []
    waiting: list[tuple[Box, str | None]] = [(box, None) for box in reversed(report.tree.roots)]
    while waiting:
        box, parent = waiting.pop()
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
        waiting.extend((child, box.id) for child in reversed(box.children))
    return rows
