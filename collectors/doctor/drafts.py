"""Findings as they are collected, and what steps that were watched say when they are compared.
Needs no torch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from collectors.doctor.events import Event, Scalar, StepLog, TensorUse
from collectors.doctor.places import Spot
from graphviz_dash.model.doctor import Evidence, Finding, RuleId, Seen, Severity

_SHAPING: Final = frozenset(
    {"view", "_unsafe_view", "reshape", "expand", "slice", "slice_backward", "narrow", "arange"}
    | {"empty", "empty_like", "empty_strided", "zeros", "ones", "full", "rand", "randn", "randint"}
    | {"new_empty", "new_zeros", "new_ones", "as_strided", "constant_pad_nd", "split", "repeat"}
    | {"split_with_sizes", "unfold", "mean", "sum", "div", "mul", "topk"}
)
"""Operators whose numbers follow a changed size, so that they are no finding of their own."""

_HARMLESS: Final = frozenset(
    {"detach", "alias", "lift", "lift_fresh", "view", "_unsafe_view", "t", "transpose", "permute"}
    | {"select", "slice", "squeeze", "unsqueeze", "expand", "as_strided", "set_", "resize_"}
    | {"empty", "empty_like", "empty_strided", "is_pinned", "_pin_memory", "_local_scalar_dense"}
)
"""Operators on CPU tensors that compute nothing."""


@dataclass(frozen=True)
class Draft:
    """A finding before its line is read from the source; fields as in the model's Finding."""

    rule: RuleId
    """The rule that was broken."""
    severity: Severity
    """Whether the capture fails by it, or replays go wrong."""
    seen: Seen
    """How it is known."""
    spot: Spot | None
    """The line of the user's code; None where there is none."""
    op: str | None
    """The operator or call; None where only the line is known."""
    stream: str | None
    """The current stream in words; None where it does not matter."""
    thread: str | None = None
    """The Python thread; None for the step's own."""
    message: str | None = None
    """The error as it was raised; None where there was none."""
    calls: int | None = None
    """How often a step comes by; None where that was not counted."""
    evidence: tuple[Evidence, ...] = ()
    """Facts that support it."""
    first: bool = False
    """Whether this call ended the capture, or would."""

    @property
    def key(self) -> tuple[RuleId, Spot | None, str | None]:
        """What tells two findings apart."""
        return (self.rule, self.spot, self.op)

    def finding(self) -> Finding:
        """As bundles hold it."""
        return Finding(
            rule=self.rule,
            severity=self.severity,
            seen=self.seen,
            first=self.first,
            place=self.spot.place() if self.spot else None,
            op=self.op,
            stream=self.stream,
            thread=self.thread,
            message=self.message,
            calls=self.calls,
            evidence=self.evidence,
        )


def illegal_in(log: StepLog, seen: Seen) -> list[Draft]:
    """The calls of a step that break a rule by themselves, each place once, in their order."""
    drafts: dict[tuple[RuleId, Spot | None, str | None], Draft] = {}
    for event in log.events:
        if event.violation is None:
            continue
        draft = Draft(
            rule=event.violation.rule,
            severity=Severity.ILLEGAL,
            seen=seen,
            spot=event.spot,
            op=event.op or None,
            stream=event.stream,
            thread=event.thread,
            message=event.violation.message,
            calls=1,
            evidence=event.violation.evidence,
        )
        earlier = drafts.get(draft.key)
        drafts[draft.key] = replace(earlier, calls=(earlier.calls or 0) + 1) if earlier else draft
    return list(drafts.values())


def differences(logs: Sequence[StepLog]) -> list[Draft]:
    """What changes from step to step and a graph would not follow; ``logs`` of the same step."""
    if len(logs) < 2:
        return []
    # Other threads run in an order of their own.
    logs = [StepLog([event for event in log.events if event.thread is None]) for log in logs]
    return [
        *_other_path(logs),
        *_moved(logs),
        *_reshaped(logs),
        *_renumbered(logs),
    ]


def cpu_work(log: StepLog) -> list[Draft]:
    """Operators on CPU tensors, and changes of Python state, of one step."""
    counts: Counter[Spot | None] = Counter()
    firsts: dict[Spot | None, Event] = {}
    for event in log.events:
        if event.on_gpu or not event.makes_cpu or _short(event.op) in _HARMLESS:
            continue
        counts[event.spot] += 1
        firsts.setdefault(event.spot, event)
    drafts = [
        _silent(
            RuleId.CPU_WORK,
            event,
            counts[spot],
            Evidence("operators on CPU tensors in a step", counts[spot]),
            Evidence("of them in a replay", 0),
        )
        for spot, event in firsts.items()
    ]
    for name, before, after in log.state:
        drafts.append(
            Draft(
                rule=RuleId.CPU_WORK,
                severity=Severity.SILENT,
                seen=Seen.EAGER,
                spot=None,
                op=f"Python variable {name}",
                stream=None,
                evidence=(
                    Evidence(f"{name} before a step", before),
                    Evidence(f"{name} after it", after),
                ),
            )
        )
    return drafts


def _silent(rule: RuleId, event: Event, calls: int | None, *evidence: Evidence) -> Draft:
    return Draft(
        rule=rule,
        severity=Severity.SILENT,
        seen=Seen.EAGER,
        spot=event.spot,
        op=event.op,
        stream=event.stream,
        thread=event.thread,
        calls=calls,
        evidence=evidence,
    )


def _other_path(logs: Sequence[StepLog]) -> list[Draft]:
    """The first place at which a step ran another operator than the first step."""
    base = logs[0].events
    for number, log in enumerate(logs[1:], 2):
        for index in range(max(len(base), len(log.events))):
            ours = base[index] if index < len(base) else None
            theirs = log.events[index] if index < len(log.events) else None
            if ours and theirs and (ours.op, ours.spot) == (theirs.op, theirs.spot):
                continue
            shown = theirs or ours
            assert shown is not None
            return [
                _silent(
                    RuleId.CONTROL_FLOW,
                    shown,
                    None,
                    Evidence("operators in step 1", len(base)),
                    Evidence(f"operators in step {number}", len(log.events)),
                    Evidence("first operator that differs", index),
                    Evidence("in step 1", _called(ours)),
                    Evidence(f"in step {number}", _called(theirs)),
                )
            ]
    return []


def _called(event: Event | None) -> str:
    if event is None:
        return "the step was over"
    where = event.spot.place().text if event.spot else "unknown place"
    return f"{event.op} at {where}"


def _aligned(logs: Sequence[StepLog]) -> Iterator[tuple[Event, ...]]:
    """Events of the same place in all steps, as long as the steps run the same operators."""
    for events in zip(*(log.events for log in logs), strict=False):
        if len({(event.op, event.spot, len(event.inputs)) for event in events}) > 1:
            return
        yield events


def _moved(logs: Sequence[StepLog]) -> list[Draft]:
    """Memory from outside the step that lies elsewhere in another step, by its first use."""
    first: dict[tuple[int | None, ...], tuple[Event, TensorUse]] = {}
    uses: Counter[tuple[int | None, ...]] = Counter()
    for events in _aligned(logs):
        if events[0].violation is not None:
            # A wait or copy that has to move out of the step anyhow.
            continue
        for same in zip(*(event.inputs for event in events), strict=True):
            if any(use.inner or use.device == "cpu" or use.address is None for use in same):
                continue
            addresses = tuple(use.address for use in same)
            if len(set(addresses)) > 1 and len({use.shape for use in same}) == 1:
                first.setdefault(addresses, (events[0], same[0]))
                uses[addresses] += 1
    return [
        _silent(
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


def _reshaped(logs: Sequence[StepLog]) -> list[Draft]:
    """The first operator at which sizes differ, or the one before whose numbers made them so."""
    source: Event | None = None
    affected = 0
    earliest: tuple[Event, tuple[TensorUse, ...]] | None = None
    for events in _aligned(logs):
        changed = next(
            (
                same
                for same in zip(*(event.inputs for event in events), strict=True)
                if len({use.shape for use in same}) > 1
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
        _silent(
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


def _renumbered(logs: Sequence[StepLog]) -> list[Draft]:
    """Numbers given by Python that differ from step to step, each place once."""
    drafts: dict[tuple[str, Spot | None], Draft] = {}
    reshaped = bool(_reshaped(logs))
    for events in _aligned(logs):
        event = events[0]
        if not event.on_gpu or (reshaped and _short(event.op) in _SHAPING):
            continue
        key = (event.op, event.spot)
        if len({len(e.scalars) for e in events}) > 1 or key in drafts:
            continue
        for same in zip(*(e.scalars for e in events), strict=True):
            if all(_same(same[0], value) for value in same[1:]):
                continue
            drafts[key] = _silent(
                RuleId.CHANGING_SCALAR,
                event,
                None,
                *(
                    Evidence(f"value in step {number}", value)
                    for number, value in enumerate(same, 1)
                ),
            )
            break
    return list(drafts.values())


def _same(first: Scalar, second: Scalar) -> bool:
    if isinstance(first, float) and isinstance(second, float) and math.isnan(first):
        return math.isnan(second)
    return first == second


def _short(op: str) -> str:
    return op.removeprefix("aten::")
