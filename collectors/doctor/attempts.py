"""Run a step under observation: eagerly, then captured repeatedly until a capture succeeds.

A capture ends at its first illegal call. The step is then captured again with that call answered
from an eager step, so each reported call did break a capture.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, Final

import torch

from collectors.doctor.calls import observe
from collectors.doctor.classify import classify_error, read_first_line
from collectors.doctor.conditionals import find_body_collectives
from collectors.doctor.drafts import FindingDraft, find_illegal_calls
from collectors.doctor.events import Event, StepLog, Violation
from collectors.doctor.places import (
    SourceLocation,
    find_error_location,
    find_user_location,
    is_user_code,
)
from collectors.doctor.state import diff_state, read_python_state
from collectors.doctor.watch import Key, StepWatch
from collectors.driver.topology import read_graph
from collectors.workloads import Step
from graphviz_dash.model.doctor import DetectionMethod, Evidence, RuleId, Severity

_MAX_ATTEMPTS: Final = 40
_RECORD_STREAM: Final = "aten::record_stream"


@dataclass
class CaptureOutcome:
    """Result of capturing one step repeatedly."""

    attempts: int = 0
    findings: list[FindingDraft] = field(default_factory=list)
    graph: Any = None
    result: Any = None
    watch: StepWatch | None = None
    """Observations of that capture, or None if none succeeded."""
    finished: bool = False


def run_eager_step(step: Step, stream: torch.cuda.Stream) -> tuple[StepLog, StepWatch]:
    """Run a step on ``stream`` and record its operators."""
    watch = StepWatch(stream.cuda_stream, capture=False)
    before = read_python_state(step)
    with torch.cuda.stream(stream), observe(watch):
        step()
    watch.log.state = diff_state(before, read_python_state(step))
    torch.cuda.synchronize()
    return watch.log, watch


def capture_step(
    step: Step, stream: torch.cuda.Stream, recorded_results: dict[Key, list[Any]]
) -> CaptureOutcome:
    """Capture ``step`` until a capture succeeds or no further call can be answered."""
    captures = CaptureOutcome()
    recorded: set[Key] = set()
    joins = False
    for _ in range(_MAX_ATTEMPTS):
        captures.attempts += 1
        attempt = _attempt_capture(
            step, stream, frozenset(recorded), recorded_results, joins=joins, lines=False
        )
        if attempt.broken is None:
            captures.graph, captures.result, captures.watch = (
                attempt.graph,
                attempt.result,
                attempt.watch,
            )
            captures.finished = True
            return captures
        if attempt.broken.violation and attempt.broken.violation.rule is RuleId.FORBIDDEN_CALL:
            # The failure is between two operators; trace lines in a second capture.
            attempt = _attempt_capture(
                step, stream, frozenset(recorded), recorded_results, joins=joins, lines=True
            )
            captures.attempts += 1
        broken = attempt.broken
        if broken is None:
            continue
        key = (broken.op, broken.spot)
        if key in recorded:
            # This call cannot be answered, so later calls stay unknown.
            return captures
        captures.findings += find_illegal_calls(StepLog([broken]), DetectionMethod.CAPTURE)
        if broken.violation and broken.violation.rule is RuleId.UNJOINED_STREAM:
            if joins:
                return captures
            joins = True
            continue
        recorded.add(key)
    return captures


@dataclass
class _Attempt:
    graph: Any
    result: Any
    watch: StepWatch
    broken: Event | None
    """Call that broke it, or None on success."""


def _attempt_capture(
    step: Step,
    stream: torch.cuda.Stream,
    answered: frozenset[Key],
    values_by_key: dict[Key, list[Any]],
    *,
    joins: bool,
    lines: bool,
) -> _Attempt:
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    watch = StepWatch(stream.cuda_stream, capture=True, answered=answered, answers=values_by_key)
    result: Any = None
    tracer = LineTracer(watch) if lines else nullcontext()
    try:
        with torch.cuda.graph(graph, stream=stream):
            with tracer, observe(watch):
                result = step()
            if joins:
                for side in watch.clock.find_unjoined():
                    stream.wait_stream(torch.cuda.ExternalStream(side.stream))
    except RuntimeError as error:
        culprit = tracer.culprit if isinstance(tracer, LineTracer) else None
        return _Attempt(None, None, watch, find_cause(watch, error, culprit))
    try:
        graph.instantiate()
    except RuntimeError as error:
        evidence = find_body_collectives(read_graph(int(graph.raw_cuda_graph()), "graph"))
        return _Attempt(None, None, watch, add_body_collectives(find_cause(watch, error), evidence))
    return _Attempt(graph, result, watch, None)


def find_cause(
    watch: StepWatch, error: BaseException, culprit: SourceLocation | None = None
) -> Event:
    """Return the event that broke a capture, as observed or derived from the error."""
    cause = _find_own_cause(watch, error, culprit)
    foreign = watch.foreign_break
    if foreign is None or not _is_unidentified(cause):
        return cause
    violation = foreign.violation
    if violation is not None and cause.violation is not None:
        message = violation.message or cause.violation.message
        violation = replace(violation, message=message, evidence=cause.violation.evidence)
    return replace(foreign, spot=cause.spot or foreign.spot, violation=violation)


def _find_own_cause(
    watch: StepWatch, error: BaseException, culprit: SourceLocation | None
) -> Event:
    """Return the event that broke a capture, apart from calls of threads without observers."""
    first: BaseException = error
    while first.__context__ is not None and not first.__suppress_context__:
        first = first.__context__
    message = read_first_line(first)
    if watch.breaking_event is not None and not _is_unidentified(watch.breaking_event):
        return watch.breaking_event
    rule = classify_error(first)
    if rule is RuleId.GRADIENT_STREAM:
        return _build_event(watch, find_error_location(first.__traceback__), "", rule, message)
    if culprit is not None:
        return _build_event(watch, culprit, "", RuleId.FORBIDDEN_CALL, message)
    if watch.breaking_event is not None:
        return watch.breaking_event
    unjoined = watch.clock.find_unjoined()
    if rule is RuleId.UNJOINED_STREAM and unjoined:
        side = unjoined[0]
        evidence = (
            Evidence("streams not joined", len(unjoined)),
            Evidence("operators on it that are not joined", side.unjoined),
        )
        return _build_event(watch, side.spot, side.op, rule, message, evidence)
    return _build_event(
        watch,
        find_error_location(first.__traceback__)
        or watch.last_good
        or find_user_location(sys._getframe(1)),
        "",
        rule or RuleId.FORBIDDEN_CALL,
        message,
    )


def add_body_collectives(cause: Event, evidence: tuple[Evidence, ...]) -> Event:
    """Return the cause of a refused graph: collectives in conditional bodies, if it has any."""
    if not evidence or not _is_unidentified(cause):
        return cause
    message = cause.violation.message if cause.violation else None
    violation = Violation(RuleId.CONDITIONAL_COLLECTIVE, evidence, message)
    return replace(cause, op="", violation=violation)


def _build_event(
    watch: StepWatch,
    spot: SourceLocation | None,
    op: str,
    rule: RuleId,
    message: str,
    evidence: tuple[Evidence, ...] = (),
) -> Event:
    return Event(
        op=op,
        spot=spot,
        stream=f"{watch.origin:#x} (captured)" if watch.origin else "default",
        captured=True,
        thread=None,
        violation=Violation(rule, evidence, message),
    )


def _is_unidentified(event: Event) -> bool:
    return event.violation is not None and event.violation.rule is RuleId.FORBIDDEN_CALL


class LineTracer:
    """Checks the capture after each user line, including frames that are already running.

    ``culprit`` is the first line that broke it.
    """

    def __init__(self, watch: StepWatch) -> None:
        self._watch = watch
        self._before: SourceLocation | None = None
        self._old: Any = None
        self._frames: list[FrameType] = []
        self.culprit: SourceLocation | None = None

    def __enter__(self) -> None:
        self._old = sys.gettrace()
        sys.settrace(self._trace_call)
        frame = sys._getframe(1).f_back
        while frame is not None:
            if is_user_code(frame.f_code.co_filename):
                frame.f_trace = self._trace_line
                self._frames.append(frame)
            frame = frame.f_back

    def __exit__(self, *_error: object) -> None:
        sys.settrace(self._old)
        for frame in self._frames:
            frame.f_trace = None
        if self.culprit is None and self._watch.is_broken():
            self.culprit = self._before

    def _trace_call(self, frame: FrameType, _event: str, _arg: Any) -> Callable[..., Any] | None:
        return self._trace_line if is_user_code(frame.f_code.co_filename) else None

    def _trace_line(self, frame: FrameType, _event: str, _arg: Any) -> Callable[..., Any] | None:
        if self.culprit is None and self._watch.is_broken():
            self.culprit = self._before
        code = frame.f_code
        self._before = SourceLocation(code.co_filename, frame.f_lineno, code.co_qualname)
        return self._trace_line


def find_deferred_frees(watch: StepWatch) -> list[FindingDraft]:
    """Return captured calls of ``record_stream``, whose memory the capture does not reuse."""
    drafts: dict[SourceLocation | None, FindingDraft] = {}
    events = [event for event in watch.log.events if event.op == _RECORD_STREAM and event.captured]
    for event in events:
        if event.spot in drafts:
            continue
        calls_of_line = [other for other in events if other.spot == event.spot]
        drafts[event.spot] = FindingDraft(
            rule=RuleId.DEFERRED_FREE,
            severity=Severity.COSTLY,
            detected_by=DetectionMethod.CAPTURE,
            location=event.spot,
            op=event.op,
            stream=event.stream,
            thread=event.thread,
            calls_per_step=len(calls_of_line),
            evidence=(Evidence("calls in the capture", len(calls_of_line)),),
        )
    return list(drafts.values())


def find_escaped_work(watch: StepWatch) -> list[FindingDraft]:
    """Return operators of a successful capture on uncaptured streams, except known illegal ones."""
    uncaptured = [
        event
        for event in watch.log.events
        if event.on_gpu and not event.captured and (event.op, event.spot) not in watch.answered
    ]
    drafts: dict[tuple[SourceLocation | None, str | None], FindingDraft] = {}
    for event in uncaptured:
        rule = RuleId.OTHER_THREAD if event.thread else RuleId.ESCAPED_WORK
        count = sum(
            other.spot == event.spot and other.thread == event.thread for other in uncaptured
        )
        drafts.setdefault(
            (event.spot, event.thread),
            FindingDraft(
                rule=rule,
                severity=Severity.SILENT,
                detected_by=DetectionMethod.CAPTURE,
                location=event.spot,
                op=event.op,
                stream=event.stream,
                thread=event.thread,
                calls_per_step=count,
                evidence=(
                    Evidence("operators run during capture but missing from the graph", count),
                ),
            ),
        )
    return list(drafts.values())
