"""Findings of the doctor about a step: doctor.json of a run bundle.

Texts, advice and examples of the rules are in :mod:`graphviz_dash.model.rules`, so that they can
improve without a change to recorded data.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Struct

from graphviz_dash.model.graph import Count


class RuleId(StrEnum):
    """Conditions for a capture to succeed and for a replay to do the same work as the step."""

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
    OUT_OF_MEMORY = "out-of-memory"
    COLLECTED_GRAPH = "collected-graph"
    GRADIENT_STREAM = "gradient-stream"
    CONDITIONAL_COLLECTIVE = "conditional-collective"
    FIRST_RANDOM = "first-random"
    FORBIDDEN_CALL = "forbidden-call"
    MOVED_INPUT = "moved-input"
    CHANGING_SHAPE = "changing-shape"
    CHANGING_SCALAR = "changing-scalar"
    CPU_WORK = "cpu-work"
    ESCAPED_WORK = "escaped-work"
    EMPTY_CAPTURE = "empty-capture"
    REPLAY_DIFFERS = "replay-differs"
    DEFERRED_FREE = "deferred-free"
    FAILED_CAPTURE_POOL = "failed-capture-pool"


class Severity(StrEnum):
    """``illegal``: the capture fails. ``silent``: it succeeds, but replays do different work.
    ``costly``: replays are right, but memory is lost."""

    ILLEGAL = "illegal"
    SILENT = "silent"
    COSTLY = "costly"


class DetectionMethod(StrEnum):
    """Detection method: the capture, an observed eager step, or a comparison with a replay."""

    CAPTURE = "capture"
    EAGER = "eager"
    REPLAY = "replay"


class CheckStatus(StrEnum):
    """Outcome of checking a rule."""

    PASSED = "passed"
    FOUND = "found"
    NOT_CHECKED = "not-checked"


EvidenceValue: TypeAlias = int | float | str


class Evidence(Struct, frozen=True, forbid_unknown_fields=True):
    """One fact that supports a finding."""

    name: str
    value: EvidenceValue
    unit: str | None = None
    """Unit: "B" or "ns". None for counts and texts."""


class CodeLocation(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the user's code."""

    file: str
    """Path, shortened so that it names no folder of the machine."""
    line: Count
    """Line number, from 1."""
    function: str | None
    """Enclosing function. None at module level."""
    first_line: Count
    """Line number of the first of ``lines``."""
    lines: tuple[str, ...]
    """Surrounding source lines. Empty if unavailable."""

    @property
    def text(self) -> str:
        """The location as ``file:line``."""
        return f"{self.file}:{self.line}"


class Finding(Struct, frozen=True, forbid_unknown_fields=True):
    """A violation of a rule by a line of code."""

    rule: RuleId
    severity: Severity
    """Effect of the violation."""
    detected_by: DetectionMethod
    ends_capture: bool
    """True if this call ended the capture, or would have."""
    location: CodeLocation | None
    """Line of the program or of a library. None if unknown."""
    op: str | None
    """Operator or call. None if unknown."""
    stream: str | None
    """CUDA stream that was current ("stream 7 (capturing)"). None if irrelevant."""
    thread: str | None
    """Python thread. None for the main thread."""
    message: str | None
    """Error message as raised. None without an error."""
    calls_per_step: Count | None
    """Calls per step. None if not counted."""
    evidence: tuple[Evidence, ...]
    """Supporting facts."""
    caller: CodeLocation | None = None
    """Line of the program that led to the library's line. None if there is none."""

    @property
    def program_line(self) -> CodeLocation | None:
        """Line of the program. None if unknown."""
        return self.caller or self.location


class RuleCheck(Struct, frozen=True, forbid_unknown_fields=True):
    """Outcome of one rule."""

    rule: RuleId
    status: CheckStatus
    reason: str | None = None
    """Reason for an unchecked rule. None otherwise."""


class OutputCheck(Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor after a replay, compared with that after an eager step from the same state."""

    name: str
    """Path of the tensor in the step's result or state."""
    kind: Literal["result", "state"]
    """Result of the step, or memory that it changes."""
    dtype: str
    shape: tuple[Count, ...]
    elements: Count
    differing_elements: Count
    """Unequal elements."""
    max_difference: float | None
    """Largest absolute difference. None if undefined."""
    eager_difference: float | None
    """Likewise of two eager steps. None if not measured."""


class DoctorReport(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of doctor.json."""

    subject: Literal["workload", "program"]
    """A workload's step, which can be run again, or a program."""
    captured: bool | None
    """True if a capture of the unchanged step succeeded. None if not attempted."""
    attempts: Count
    """Captures tried, including those that replace illegal calls by eager results."""
    nodes: Count | None
    """Nodes of the graph. None without a graph."""
    steps: Count
    """Compared eager steps."""
    operators: Count | None
    """Torch operators per step. None if no step was observed."""
    replays: Count
    """Replays compared with an eager step."""
    findings: tuple[Finding, ...]
    """Violations, in the order of the step."""
    checks: tuple[RuleCheck, ...]
    """Outcome of each rule."""
    outputs: tuple[OutputCheck, ...]
    """Tensors after a replay, compared with an eager step."""
