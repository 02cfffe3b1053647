"""JSON of ``graphviz-dash doctor``."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field

from graphviz_dash.analysis.doctor import Diagnosis
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.exports.documents.values import Count, Document, Sentence, build
from graphviz_dash.features.prediction.document import BlockerDocument, build_blocker_document
from graphviz_dash.features.torch_compile.analysis.report import CompileReport
from graphviz_dash.features.torch_compile.document import (
    CompileCauseDocument,
    CompileRuleDocument,
    build_cause_document,
    build_compile_rule_documents,
)
from graphviz_dash.features.torch_compile.narrative import summarize_compilation
from graphviz_dash.model.doctor import Finding
from graphviz_dash.model.rules import RULES
from graphviz_dash.narrative.doctor import format_doctor_verdict
from graphviz_dash.narrative.prediction import list_unchecked


class CodeLocationDocument(Document, frozen=True):
    """A line of user code with its context; ``first_line`` is the number of ``lines[0]``."""

    file: str
    line: int
    function: str | None
    first_line: int
    lines: list[str]


class EvidenceDocument(Document, frozen=True):
    """A fact that supports a finding."""

    name: str
    value: int | float | str | bool | None
    unit: str | None


class FindingDocument(Document, frozen=True):
    """A line that violates a rule."""

    rule: str
    severity: str
    detected_by: str = field(name="observed_in")
    ends_capture: bool = field(name="first_illegal_call")
    location: CodeLocationDocument | None
    caller: CodeLocationDocument | None
    op: str | None
    stream: str | None
    thread: str | None
    message: str | None
    calls_per_step: Count | None = field(name="calls")
    evidence: list[EvidenceDocument]
    title: Sentence
    advice: Sentence


class RuleDocument(Document, frozen=True):
    """Outcome of a rule."""

    rule: str
    status: str
    reason: Sentence | None
    findings: Count


class TensorCheckDocument(Document, frozen=True):
    """A tensor after a replay, compared with the same tensor after an eager step."""

    name: str
    kind: str
    dtype: str
    shape: list[Count]
    elements: Count
    differing_elements: Count = field(name="differing")
    max_difference: float | None = field(name="largest_difference")
    eager_difference: float | None = field(name="noise")


class DiagnosisDocument(Document, frozen=True):
    """Findings in one process."""

    outcome: str
    verdict: Sentence
    subject: str
    captured: bool | None
    attempts: Count
    nodes: Count | None
    steps: Count
    operators: Count | None
    replays: Count
    findings: list[FindingDocument]
    rules: list[RuleDocument]
    outputs: list[TensorCheckDocument]


class CompiledDocument(Document, frozen=True):
    """Causes that keep the compiled step of one process from being a single replay."""

    process: Count
    sentence: Sentence
    causes: list[CompileCauseDocument]
    rules: list[CompileRuleDocument]


class TracedDocument(Document, frozen=True):
    """Capture blockers found in the trace of a process's eager steps, without trying a capture."""

    process: Count
    blockers: list[BlockerDocument]
    not_checked: list[Sentence]


class DoctorDocument(Document, frozen=True):
    """The processes that the doctor examined."""

    processes: list[DiagnosisDocument]
    compiled: list[CompiledDocument]
    traced: list[TracedDocument]


def build_doctor_document(
    examined: Sequence[tuple[Diagnosis | None, CompileReport | None, Prediction | None]],
) -> DoctorDocument:
    """Build the document of the examined processes.

    Each process has a diagnosis, a compile report and a prediction from its trace; None if
    unavailable.
    """
    return DoctorDocument(
        processes=[
            _build_process_document(diagnosis)
            for diagnosis, _, _ in examined
            if diagnosis is not None
        ],
        compiled=[
            CompiledDocument(
                process=number,
                sentence=summarize_compilation(report),
                causes=[build_cause_document(cause) for cause in report.causes],
                rules=build_compile_rule_documents(report.rules),
            )
            for number, (_, report, _) in enumerate(examined)
            if report is not None
        ],
        traced=[
            TracedDocument(
                process=number,
                blockers=[build_blocker_document(blocker) for blocker in traced.blockers],
                not_checked=list(list_unchecked(traced)),
            )
            for number, (_, _, traced) in enumerate(examined)
            if traced is not None
        ],
    )


def _build_process_document(diagnosis: Diagnosis) -> DiagnosisDocument:
    return build(
        DiagnosisDocument,
        diagnosis,
        diagnosis.report,
        verdict=format_doctor_verdict(diagnosis),
        findings=[_build_finding_document(finding) for finding in diagnosis.findings],
        rules=[build(RuleDocument, row, rule=row.rule.id) for row in diagnosis.rules],
    )


def _build_finding_document(finding: Finding) -> FindingDocument:
    rule = RULES[finding.rule]
    return build(FindingDocument, finding, title=rule.title, advice=rule.advice)
