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
    """A line of the user's code. ``lines`` are the source around it, the first one numbered
    ``first``; empty when the source could not be read."""

    file: str
    line: Count
    function: str | None
    first: Count
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"


class Finding(Struct, frozen=True, forbid_unknown_fields=True):
    """One place that breaks a rule.

    ``first`` marks the call that ended the capture, or would. ``op`` is the operator or call,
    ``stream`` the CUDA stream that was current ("stream 7 (capturing)"), ``thread`` the Python
    thread unless the main one, ``message`` the error as it was raised, ``calls`` how often a step
    comes by (None where that was not counted).
    """

    rule: RuleId
    severity: Severity
    seen: Seen
    first: bool
    place: CodePlace | None
    op: str | None
    stream: str | None
    thread: str | None
    message: str | None
    calls: Count | None
    evidence: tuple[Evidence, ...]


class RuleCheck(Struct, frozen=True, forbid_unknown_fields=True):
    """What came of one rule; ``reason`` says why it could not be checked."""

    rule: RuleId
    status: CheckStatus
    reason: str | None = None


class OutputCheck(Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor after a replay against the same tensor after an eager step from the same state.

    ``kind``: a result of the step, or memory that it changes. ``differing`` of ``elements`` are
    unequal; ``largest`` is the largest absolute difference, None for types without one or where
    it is not finite. ``noise`` is the same between two eager steps, None where it was not measured.
    """

    name: str
    kind: Literal["result", "state"]
    dtype: str
    shape: tuple[Count, ...]
    elements: Count
    differing: Count
    largest: float | None
    noise: float | None


class DoctorReport(Struct, frozen=True, forbid_unknown_fields=True):
    """doctor.json. ``subject``: a workload's step, which the doctor can run as it likes, or a
    program, which it can only watch.

    ``captured``: whether a capture of the unchanged step succeeded (None: none was tried).
    ``attempts`` counts captures, those included in which calls found illegal before were answered
    from an eager step. ``nodes`` are the graph's, None without a graph. ``steps`` is how many
    eager steps were compared, ``operators`` how many torch operators one of them runs, ``replays``
    how many replays were compared with an eager step.
    """

    subject: Literal["workload", "program"]
    captured: bool | None
    attempts: Count
    nodes: Count | None
    steps: Count
    operators: Count | None
    replays: Count
    findings: tuple[Finding, ...]
    checks: tuple[RuleCheck, ...]
    outputs: tuple[OutputCheck, ...]
