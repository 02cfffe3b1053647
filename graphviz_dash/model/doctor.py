"""What the doctor found out about a step: doctor.json of a run bundle.

The rules themselves (text, advice, examples) are in :mod:`graphviz_dash.model.rules`, so that they
improve without a change to what was recorded.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Struct

from graphviz_dash.model.graph import Count


class RuleId(StrEnum):
    """The rules that a capture, or a replay that is to do what the step does, must keep."""

    DEFAULT_STREAM = "default-stream"
    SYNC_VALUE = "sync-value"
    SYNC_SHAPE = "sync-shape"
    SYNC_COPY = "sync-copy"
    SYNC_CALL = "sync-call"
    CONTROL_FLOW = "control-flow"
    UNPINNED_COPY = "unpinned-copy"
    GENERATOR = "generator"
    TWO_CAPTURES = "two-captures"
    OTHER_THREAD = "other-thread"
    UNJOINED_STREAM = "unjoined-stream"
    OPTIMIZER_CAPTURABLE = "optimizer-capturable"
    NO_WARMUP = "no-warmup"
    FORBIDDEN_CALL = "forbidden-call"
    MOVED_INPUT = "moved-input"
    CHANGING_SHAPE = "changing-shape"
    CHANGING_SCALAR = "changing-scalar"
    CPU_WORK = "cpu-work"
    ESCAPED_WORK = "escaped-work"
    EMPTY_CAPTURE = "empty-capture"
    REPLAY_DIFFERS = "replay-differs"


class Severity(StrEnum):
    """``illegal``: the capture fails. ``silent``: it does not, and replays do something else."""

    ILLEGAL = "illegal"
    SILENT = "silent"


class Seen(StrEnum):
    """How a finding is known: the capture itself, an eager step watched, or a replay compared."""

    CAPTURE = "capture"
    EAGER = "eager"
    REPLAY = "replay"


class CheckStatus(StrEnum):
    """What came of checking a rule."""

    PASSED = "passed"
    FOUND = "found"
    NOT_CHECKED = "not-checked"


EvidenceValue: TypeAlias = int | float | str


class Evidence(Struct, frozen=True, forbid_unknown_fields=True):
    """One fact that supports a finding. ``unit`` is "B", "ns", or None for counts and texts."""

    name: str
    value: EvidenceValue
    unit: str | None = None


class CodePlace(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the user's code."""

    file: str
    """Its path, shortened so that it names no folder of the machine."""
    line: Count
    """Its number, from 1."""
    function: str | None
    """The function around it; None at module level."""
    first: Count
    """The number of the first of ``lines``."""
    lines: tuple[str, ...]
    """The source around it; empty when it could not be read."""

    @property
    def text(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"


class Finding(Struct, frozen=True, forbid_unknown_fields=True):
    """A line that breaks a rule."""

    rule: RuleId
    """Which rule."""
    severity: Severity
    """Whether the capture fails by it, or replays go wrong."""
    seen: Seen
    """How it is known."""
    first: bool
    """Whether this call ended the capture, or would."""
    place: CodePlace | None
    """The line of the user's code; None where there is none."""
    op: str | None
    """The operator or call; None where only the line is known."""
    stream: str | None
    """The CUDA stream that was current ("stream 7 (capturing)"); None where it does not matter."""
    thread: str | None
    """The Python thread; None for the main one."""
    message: str | None
    """The error as it was raised; None where there was none."""
    calls: Count | None
    """How often a step comes by; None where that was not counted."""
    evidence: tuple[Evidence, ...]
    """Facts that support it."""


class RuleCheck(Struct, frozen=True, forbid_unknown_fields=True):
    """What came of one rule; ``reason`` says why it could not be checked."""

    rule: RuleId
    status: CheckStatus
    reason: str | None = None


class OutputCheck(Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor after a replay against the same tensor after an eager step from the same state."""

    name: str
    """How the step or its state reaches it."""
    kind: Literal["result", "state"]
    """A result of the step, or memory that it changes."""
    dtype: str
    """Its type in torch's words."""
    shape: tuple[Count, ...]
    """Its sizes."""
    elements: Count
    """How many it has."""
    differing: Count
    """How many of them are unequal."""
    largest: float | None
    """The largest absolute difference; None for types without one or where it is not finite."""
    noise: float | None
    """The same between two eager steps; None where it was not measured."""


class DoctorReport(Struct, frozen=True, forbid_unknown_fields=True):
    """doctor.json."""

    subject: Literal["workload", "program"]
    """A workload's step, which the doctor can run as it likes, or a program, which it can only
    watch."""
    captured: bool | None
    """Whether a capture of the unchanged step succeeded; None: none was tried."""
    attempts: Count
    """Captures, those included in which calls found illegal before were answered from an eager
    step."""
    nodes: Count | None
    """The graph's; None without a graph."""
    steps: Count
    """Eager steps that were compared."""
    operators: Count | None
    """torch operators that one of them runs; None where none was watched."""
    replays: Count
    """Replays that were compared with an eager step."""
    findings: tuple[Finding, ...]
    """What breaks a rule, in the order of the step."""
    checks: tuple[RuleCheck, ...]
    """What came of each rule."""
    outputs: tuple[OutputCheck, ...]
    """What a replay leaves, against an eager step."""
