"""Doctor's reports written by hand: one with illegal and silent findings, one that is sound."""

from __future__ import annotations

import msgspec

from graphviz_dash.model.doctor import (
    CheckStatus,
    CodeLocation,
    DetectionMethod,
    DoctorReport,
    Evidence,
    Finding,
    OutputCheck,
    RuleCheck,
    RuleId,
    Severity,
)

PLACE = CodeLocation(
    file="train.py",
    line=18,
    function="train.<locals>.step",
    first_line=16,
    lines=("    def step():", "        loss = inner()", "        losses.append(loss.item())"),
)

READ = Finding(
    rule=RuleId.SYNC_VALUE,
    severity=Severity.ILLEGAL,
    detected_by=DetectionMethod.CAPTURE,
    ends_capture=True,
    location=PLACE,
    op="aten::_local_scalar_dense",
    stream="0x55d0 (captured)",
    thread=None,
    message="CUDA error: operation not permitted when stream is capturing",
    calls_per_step=3,
    evidence=(Evidence("tensor read", "float32 []"), Evidence("bytes copied", 4096, "B")),
)

WAIT = Finding(
    rule=RuleId.SYNC_CALL,
    severity=Severity.ILLEGAL,
    detected_by=DetectionMethod.EAGER,
    ends_capture=False,
    location=None,
    op="torch.cuda.synchronize",
    stream="0x55d0",
    thread="prefetch",
    message=None,
    calls_per_step=1,
    evidence=(),
)

MOVED = Finding(
    rule=RuleId.MOVED_INPUT,
    severity=Severity.SILENT,
    detected_by=DetectionMethod.EAGER,
    ends_capture=False,
    location=PLACE,
    op="aten::mul",
    stream="0x55d0",
    thread=None,
    message=None,
    calls_per_step=1,
    evidence=(Evidence("address in step 1", "0x7f10"), Evidence("largest difference", 0.12345)),
)

OUTPUTS = (
    OutputCheck("result", "result", "float32", (64,), 64, 60, 3.25, 1e-7),
    OutputCheck("model.weight", "state", "float32", (8, 8), 64, 0, 0.0, None),
)


def failing_at_once() -> DoctorReport:
    """A report of a step that failed in its first run: all rules but the broken one unchecked."""
    reason = "the step failed in its first run"
    given = report(READ)
    checks = tuple(
        check
        if check.status is CheckStatus.FOUND
        else RuleCheck(check.rule, CheckStatus.NOT_CHECKED, reason)
        for check in given.checks
    )
    return msgspec.structs.replace(given, checks=checks)


def report(
    *findings: Finding,
    captured: bool | None = False,
    outputs: tuple[OutputCheck, ...] = (),
    subject: str = "workload",
) -> DoctorReport:
    """A report with these findings; rules without one have passed, one was not checked."""
    broken = {finding.rule for finding in findings}
    checks = [
        RuleCheck(rule, CheckStatus.FOUND if rule in broken else CheckStatus.PASSED)
        for rule in RuleId
        if rule is not RuleId.DEFAULT_STREAM
    ]
    checks.append(
        RuleCheck(RuleId.DEFAULT_STREAM, CheckStatus.NOT_CHECKED, "the doctor chose the stream")
    )
    assert subject in ("workload", "program")
    return DoctorReport(
        subject="workload" if subject == "workload" else "program",
        captured=captured,
        attempts=4,
        nodes=43 if captured else None,
        steps=3,
        operators=120,
        replays=1 if outputs else 0,
        findings=findings,
        checks=tuple(checks),
        outputs=outputs,
    )
