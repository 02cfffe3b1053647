"""Collect findings and compare observed steps, without torch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from collectors.doctor.events import Event, Scalar, StepLog, TensorUse
from collectors.doctor.places import SourceLocation
from graphviz_dash.model.doctor import (
    CheckStatus,
    DetectionMethod,
    Evidence,
    Finding,
    RuleCheck,
    RuleId,
    Severity,
)

_SHAPING: Final = frozenset(
    {"view", "_unsafe_view", "reshape", "expand", "slice", "slice_backward", "narrow", "arange"}
    | {"empty", "empty_like", "empty_strided", "zeros", "ones", "full", "rand", "randn", "randint"}
    | {"new_empty", "new_zeros", "new_ones", "as_strided", "constant_pad_nd", "split", "repeat"}
    | {"split_with_sizes", "unfold", "mean", "sum", "div", "mul", "topk"}
)
"""Operators whose arguments follow a changed size."""

_HARMLESS: Final = frozenset(
    {"detach", "alias", "lift", "lift_fresh", "view", "_unsafe_view", "t", "transpose", "permute"}
    | {"select", "slice", "squeeze", "unsqueeze", "expand", "as_strided", "set_", "resize_"}
    | {"empty", "empty_like", "empty_strided", "is_pinned", "_pin_memory", "_local_scalar_dense"}
)
"""Operators that compute nothing on CPU tensors."""


@dataclass(frozen=True)
class FindingDraft:
    """A finding before its source line is read."""

    rule: RuleId
    severity: Severity
    """Failing capture or wrong replay."""
    detected_by: DetectionMethod
    location: SourceLocation | None = None
    op: str | None = None
    """Operator or call, or None if only the line is known."""
    stream: str | None = None
    """Current stream in words, or None if irrelevant."""
    thread: str | None = None
    """Python thread, or None for the step's own."""
    message: str | None = None
    calls_per_step: int | None = None
    evidence: tuple[Evidence, ...] = ()
    ends_capture: bool = False
    """The call ended the capture, or would have."""

    @property
    def key(self) -> tuple[RuleId, SourceLocation | None, str | None]:
        """Identity of a finding."""
        return (self.rule, self.location, self.op)

    def to_finding(self) -> Finding:
        """Convert to the bundle format."""
        return Finding(
            rule=self.rule,
            severity=self.severity,
            detected_by=self.detected_by,
            ends_capture=self.ends_capture,
            location=self.location.to_code_place() if self.location else None,
            caller=self.location.caller.to_code_place()
            if self.location and self.location.caller
            else None,
            op=self.op,
            stream=self.stream,
            thread=self.thread,
            message=self.message,
            calls_per_step=self.calls_per_step,
            evidence=self.evidence,
        )


def check_rules(
    findings: Sequence[FindingDraft], explain_unchecked: Callable[[RuleId], str | None]
) -> tuple[RuleCheck, ...]:
    """Return the result for each rule; the function explains why a rule was not checked."""
    broken = {draft.rule for draft in findings}
    checks = []
    for rule in RuleId:
        reason = None if rule in broken else explain_unchecked(rule)
        unbroken = CheckStatus.PASSED if reason is None else CheckStatus.NOT_CHECKED
        checks.append(RuleCheck(rule, CheckStatus.FOUND if rule in broken else unbroken, reason))
    return tuple(checks)


def find_illegal_calls(log: StepLog, method: DetectionMethod) -> list[FindingDraft]:
    """Return calls that break a rule on their own, once per location."""
    drafts: dict[tuple[RuleId, SourceLocation | None, str | None], FindingDraft] = {}
    for event in log.events:
        if event.violation is None:
            continue
        draft = FindingDraft(
            rule=event.violation.rule,
            severity=Severity.ILLEGAL,
            detected_by=method,
            location=event.spot,
            op=event.op or None,
            stream=event.stream,
            thread=event.thread,
            message=event.violation.message,
            calls_per_step=1,
            evidence=event.violation.evidence,
        )
        earlier = drafts.get(draft.key)
        drafts[draft.key] = (
            replace(earlier, calls_per_step=(earlier.calls_per_step or 0) + 1) if earlier else draft
        )
    return list(drafts.values())


def find_differences(logs: Sequence[StepLog]) -> list[FindingDraft]:
    """Find changes between runs of the same step that a graph would not follow."""
    if len(logs) < 2:
        return []
    # The order of other threads varies.
    logs = [StepLog([event for event in log.events if event.thread is None]) for log in logs]
    return [
        *_find_other_path(logs),
        *_find_moved_inputs(logs),
        *_find_shape_changes(logs),
        *_find_scalar_changes(logs),
    ]


def find_cpu_work(log: StepLog) -> list[FindingDraft]:
    """Find operators on CPU tensors and changes of Python state in one step."""
    counts: Counter[SourceLocation | None] = Counter()
    firsts: dict[SourceLocation | None, Event] = {}
    for event in log.events:
        if event.on_gpu or not event.makes_cpu or _strip_namespace(event.op) in _HARMLESS:
            continue
        counts[event.spot] += 1
        firsts.setdefault(event.spot, event)
    drafts = [
        _build_silent_draft(
            RuleId.CPU_WORK,
            event,
            counts[spot],
            Evidence("CPU tensor operators per step", counts[spot]),
            Evidence("CPU tensor operators per replay", 0),
        )
        for spot, event in firsts.items()
    ]
    for name, before, after in log.state:
        drafts.append(
            FindingDraft(
                rule=RuleId.CPU_WORK,
                severity=Severity.SILENT,
                detected_by=DetectionMethod.EAGER,
                op=f"Python variable {name}",
                evidence=(
                    Evidence(f"{name} before the step", before),
                    Evidence(f"{name} after the step", after),
                ),
            )
        )
    return drafts


def _build_silent_draft(
    rule: RuleId, event: Event, calls: int | None, *evidence: Evidence
) -> FindingDraft:
    return FindingDraft(
        rule=rule,
        severity=Severity.SILENT,
        detected_by=DetectionMethod.EAGER,
        location=event.spot,
        op=event.op,
        stream=event.stream,
        thread=event.thread,
        calls_per_step=calls,
        evidence=evidence,
    )


def _find_other_path(logs: Sequence[StepLog]) -> list[FindingDraft]:
    base = logs[0].events
    for number, log in enumerate(logs[1:], 2):
        for index in range(max(len(base), len(log.events))):
            base_frame = base[index] if index < len(base) else None
            theirs = log.events[index] if index < len(log.events) else None
            if (
                base_frame
                and theirs
                and (base_frame.op, base_frame.spot) == (theirs.op, theirs.spot)
            ):
                continue
            different = theirs or base_frame
            assert different is not None
            return [
                _build_silent_draft(
                    RuleId.CONTROL_FLOW,
                    different,
                    None,
                    Evidence("operators in step 1", len(base)),
                    Evidence(f"operators in step {number}", len(log.events)),
                    Evidence("first operator that differs", index),
                    Evidence("in step 1", _describe_event(base_frame)),
                    Evidence(f"in step {number}", _describe_event(theirs)),
                )
            ]
    return []


def _describe_event(event: Event | None) -> str:
    if event is None:
        return "end of the step"
    location = event.spot.to_code_place().text if event.spot else "unknown location"
    return f"{event.op} at {location}"


def _align_events(logs: Sequence[StepLog]) -> Iterator[tuple[Event, ...]]:
    for events in zip(*(log.events for log in logs), strict=False):
        if len({(event.op, event.spot, len(event.inputs)) for event in events}) > 1:
            return
        yield events


def _find_moved_inputs(logs: Sequence[StepLog]) -> list[FindingDraft]:
    first: dict[tuple[int | None, ...], tuple[Event, TensorUse]] = {}
    uses: Counter[tuple[int | None, ...]] = Counter()
    for events in _align_events(logs):
        if events[0].violation is not None:
            # The wait or copy has to move out of the step anyway.
            continue
        for matching in zip(*(event.inputs for event in events), strict=True):
            if any(use.inner or use.device == "cpu" or use.address is None for use in matching):
                continue
            addresses = tuple(use.address for use in matching)
            if len(set(addresses)) > 1 and len({use.shape for use in matching}) == 1:
                first.setdefault(addresses, (events[0], matching[0]))
                uses[addresses] += 1
    return [
        _build_silent_draft(
            RuleId.MOVED_INPUT,
            event,
            None,
            Evidence("input", f"{use.dtype} {list(use.shape)} on {use.device}"),
            *(
                Evidence(f"address in step {number}", f"{address:#x}")
                for number, address in enumerate(addresses, 1)
            ),
            Evidence("operators that read it", uses[addresses]),
        )
        for addresses, (event, use) in first.items()
    ]


def _find_shape_changes(logs: Sequence[StepLog]) -> list[FindingDraft]:
    """Find the first changed size, or an earlier operator whose arguments caused it."""
    source: Event | None = None
    affected = 0
    earliest: tuple[Event, tuple[TensorUse, ...]] | None = None
    for events in _align_events(logs):
        changed = next(
            (
                matching
                for matching in zip(*(event.inputs for event in events), strict=True)
                if len({use.shape for use in matching}) > 1
            ),
            None,
        )
        if changed is None:
            if earliest is None and len({event.scalars for event in events}) > 1:
                source = events[0]
            continue
        affected += 1
        if earliest is None:
            outer = not all(use.inner for use in changed) or source is None
            earliest = (events[0] if outer else source or events[0], changed)
    if earliest is None:
        return []
    event, changed = earliest
    return [
        _build_silent_draft(
            RuleId.CHANGING_SHAPE,
            event,
            affected,
            *(
                Evidence(f"shape in step {number}", str(list(use.shape)))
                for number, use in enumerate(changed, 1)
            ),
            Evidence("operators with other shapes", affected),
        )
    ]


def _find_scalar_changes(logs: Sequence[StepLog]) -> list[FindingDraft]:
    drafts: dict[tuple[str, SourceLocation | None], FindingDraft] = {}
    reshaped = bool(_find_shape_changes(logs))
    for events in _align_events(logs):
        event = events[0]
        if not event.on_gpu or (reshaped and _strip_namespace(event.op) in _SHAPING):
            continue
        key = (event.op, event.spot)
        if len({len(event_of_step.scalars) for event_of_step in events}) > 1 or key in drafts:
            continue
        for values in zip(*(event_of_step.scalars for event_of_step in events), strict=True):
            if all(_is_same(values[0], value) for value in values[1:]):
                continue
            drafts[key] = _build_silent_draft(
                RuleId.CHANGING_SCALAR,
                event,
                None,
                *(
                    Evidence(f"value in step {number}", value)
                    for number, value in enumerate(values, 1)
                ),
            )
            break
    return list(drafts.values())


def _is_same(first: Scalar, second: Scalar) -> bool:
    if isinstance(first, float) and isinstance(second, float) and math.isnan(first):
        return math.isnan(second)
    return first == second


def _strip_namespace(op: str) -> str:
    return op.removeprefix("aten::")
