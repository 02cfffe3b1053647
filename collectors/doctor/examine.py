"""Examine a workload's step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import torch
from cuda.bindings import runtime

from collectors.doctor.attempts import (
    CaptureOutcome,
    capture_step,
    find_deferred_frees,
    find_escaped_work,
    run_eager_step,
)
from collectors.doctor.classify import classify_message, mentions_capture, read_first_line
from collectors.doctor.drafts import (
    FindingDraft,
    check_rules,
    find_cpu_work,
    find_differences,
    find_illegal_calls,
)
from collectors.doctor.events import StepLog
from collectors.doctor.places import find_error_location
from collectors.doctor.replays import ReplayComparison, compare_replay
from collectors.driver.topology import call
from collectors.workloads import Step
from graphviz_dash.model.doctor import (
    DetectionMethod,
    DoctorReport,
    Evidence,
    OutputCheck,
    RuleId,
    Severity,
)

_NEEDS_CAPTURE: Final = (
    RuleId.NO_WARMUP,
    RuleId.UNJOINED_STREAM,
    RuleId.OTHER_THREAD,
    RuleId.ESCAPED_WORK,
    RuleId.EMPTY_CAPTURE,
    RuleId.FORBIDDEN_CALL,
    RuleId.GRADIENT_STREAM,
    RuleId.CONDITIONAL_COLLECTIVE,
    RuleId.FIRST_RANDOM,
    RuleId.REPLAY_DIFFERS,
    RuleId.DEFERRED_FREE,
)
_OWN_CAPTURES: Final = "the doctor makes each capture of a workload itself; pass a program"
_UNCHECKED: Final = {
    RuleId.DEFAULT_STREAM: "the doctor captures the step itself, on a separate stream",
    RuleId.NO_WARMUP: "the doctor warms up the step itself",
    RuleId.COLLECTED_GRAPH: _OWN_CAPTURES,
    RuleId.FAILED_CAPTURE_POOL: _OWN_CAPTURES,
}
_TOLERANCE: Final = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 2e-2}
"""Largest relative difference that another cuBLAS workspace explains."""


def examine_step(step: Step, warmup: int, steps: int) -> DoctorReport:
    """Warm up a step, observe ``steps`` eager runs, capture it and compare a replay."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(stream):
            for _ in range(warmup):
                step()
        torch.cuda.synchronize()
    except RuntimeError as error:
        message = read_first_line(error)
        if not mentions_capture(message):
            raise
        rule = classify_message(message) or RuleId.FORBIDDEN_CALL
        return _report_own_failure(rule, error)
    observed = [run_eager_step(step, stream) for _ in range(steps)]
    logs = [log for log, _ in observed]
    answers = observed[-1][1].recorded
    eager = [
        *find_illegal_calls(logs[-1], DetectionMethod.EAGER),
        *find_differences(logs),
        *find_cpu_work(logs[-1]),
    ]
    del observed
    captures = capture_step(step, stream, answers)
    silent = [draft for draft in eager if draft.severity is Severity.SILENT]
    nodes: int | None = None
    comparison = ReplayComparison((), "no capture succeeded")
    if captures.finished and captures.watch is not None:
        nodes = int(call(runtime.cudaGraphGetNodes, captures.graph.raw_cuda_graph(), 0)[1])
        silent += find_escaped_work(captures.watch)
        if nodes == 0:
            silent.append(_build_empty_capture_draft(logs[-1]))
        comparison = compare_replay(
            step,
            captures.graph,
            captures.result,
            captures.watch.external_tensors,
            stream,
            with_noise=not silent,
        )
        silent = _add_output_evidence(silent, comparison.outputs)
        if not silent and not captures.findings:
            silent += _find_unexplained(comparison.outputs)
    findings = _merge_illegal(captures, eager) + silent
    if captures.finished and captures.watch is not None:
        findings += find_deferred_frees(captures.watch)
    no_replay = comparison.reason or _explain_noise(comparison.outputs)
    return DoctorReport(
        subject="workload",
        captured=captures.finished and not captures.findings,
        attempts=captures.attempts,
        nodes=nodes,
        steps=steps,
        operators=len(logs[-1].events),
        replays=1 if captures.finished and comparison.reason is None else 0,
        findings=tuple(draft.to_finding() for draft in findings),
        checks=check_rules(
            findings, lambda rule: _explain_unchecked(rule, captures, steps, no_replay)
        ),
        outputs=comparison.outputs,
    )


def _merge_illegal(captures: CaptureOutcome, eager: Sequence[FindingDraft]) -> list[FindingDraft]:
    """Return calls that broke a capture, then calls that are illegal in an eager step only."""
    proved = captures.findings
    if proved:
        proved = [replace(proved[0], ends_capture=True), *proved[1:]]
    severe = {draft.key for draft in eager if draft.severity is Severity.ILLEGAL}
    counted = {draft.key: draft.calls_per_step for draft in eager}
    proved = [
        replace(draft, calls_per_step=counted[draft.key]) if draft.key in severe else draft
        for draft in proved
    ]
    if captures.finished:
        return proved
    keys = {draft.key for draft in proved}
    spots = {(draft.location, draft.op) for draft in proved}
    return proved + [
        draft
        for draft in eager
        if draft.severity is Severity.ILLEGAL
        and draft.key not in keys
        and (draft.location, draft.op) not in spots
    ]


def _build_empty_capture_draft(log: StepLog) -> FindingDraft:
    gpu = [event for event in log.events if event.on_gpu]
    return FindingDraft(
        rule=RuleId.EMPTY_CAPTURE,
        severity=Severity.SILENT,
        detected_by=DetectionMethod.CAPTURE,
        location=gpu[0].spot if gpu else log.events[0].spot if log.events else None,
        evidence=(
            Evidence("nodes of the graph", 0),
            Evidence("operators in an eager step", len(log.events)),
            Evidence("GPU operators in an eager step", len(gpu)),
        ),
    )


def _add_output_evidence(
    silent: list[FindingDraft], outputs: Sequence[OutputCheck]
) -> list[FindingDraft]:
    worst = max(outputs, key=lambda check: check.differing_elements, default=None)
    if worst is None or not worst.differing_elements:
        return silent
    evidence = (
        Evidence(
            "after a replay",
            f"{worst.differing_elements:,} of {worst.elements:,} elements of {worst.name} differ "
            "from the eager step",
        ),
        *(
            [Evidence("largest difference", worst.max_difference)]
            if worst.max_difference is not None
            else []
        ),
    )
    affected_rules = (
        RuleId.MOVED_INPUT,
        RuleId.CHANGING_SCALAR,
        RuleId.CHANGING_SHAPE,
        RuleId.CONTROL_FLOW,
        RuleId.CPU_WORK,
        RuleId.ESCAPED_WORK,
        RuleId.EMPTY_CAPTURE,
    )
    return [
        replace(draft, evidence=(*draft.evidence, *evidence))
        if draft.rule in affected_rules
        else draft
        for draft in silent
    ]


def _explain_noise(outputs: Sequence[OutputCheck]) -> str | None:
    noise = max(
        (
            check.eager_difference or 0.0
            for check in outputs
            if _exceeds_tolerance(check, check.eager_difference)
        ),
        default=0.0,
    )
    if not noise:
        return None
    return (
        f"two eager steps from the same state differ by up to {noise:.3g}: the step is not "
        "deterministic"
    )


def _exceeds_tolerance(check: OutputCheck, value: float | None) -> bool:
    return value is not None and value > _TOLERANCE.get(check.dtype, 0.0)


def _find_unexplained(outputs: Sequence[OutputCheck]) -> list[FindingDraft]:
    unexplained = [
        check
        for check in outputs
        if check.differing_elements
        and (
            check.max_difference is None
            or check.max_difference > 10 * (check.eager_difference or 0.0)
        )
        and (check.max_difference is None or _exceeds_tolerance(check, check.max_difference))
    ]
    if not unexplained:
        return []
    return [
        FindingDraft(
            rule=RuleId.REPLAY_DIFFERS,
            severity=Severity.SILENT,
            detected_by=DetectionMethod.REPLAY,
            evidence=(
                *(
                    Evidence(
                        check.name, f"{check.differing_elements:,} of {check.elements:,} differ"
                    )
                    for check in unexplained[:5]
                ),
                Evidence(
                    "largest difference", max(check.max_difference or 0.0 for check in unexplained)
                ),
            ),
        )
    ]


def _explain_unchecked(
    rule: RuleId, captures: CaptureOutcome, steps: int, no_replay: str | None
) -> str | None:
    if rule in _UNCHECKED:
        return _UNCHECKED[rule]
    if rule in _NEEDS_CAPTURE and not captures.finished:
        return "no capture reached the end of the step"
    if rule is RuleId.REPLAY_DIFFERS:
        return no_replay
    if steps < 2 and rule in _NEEDS_TWO_STEPS:
        return "only one eager step was observed; use --steps 2 or more"
    return None


_NEEDS_TWO_STEPS: Final = (RuleId.MOVED_INPUT, RuleId.CHANGING_SHAPE, RuleId.CHANGING_SCALAR)


def _report_own_failure(rule: RuleId, error: RuntimeError) -> DoctorReport:
    draft = FindingDraft(
        rule=rule,
        severity=Severity.ILLEGAL,
        detected_by=DetectionMethod.CAPTURE,
        location=find_error_location(error.__traceback__),
        message=read_first_line(error),
        ends_capture=True,
    )
    return DoctorReport(
        subject="workload",
        captured=False,
        attempts=0,
        nodes=None,
        steps=0,
        operators=None,
        replays=0,
        findings=(draft.to_finding(),),
        checks=check_rules([draft], lambda _: "the step failed in its first run"),
        outputs=(),
    )
