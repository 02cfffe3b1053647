"""Events recorded during a step. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from collectors.doctor.places import SourceLocation
from graphviz_dash.model.doctor import Evidence, RuleId

Scalar: TypeAlias = int | float | bool | str


@dataclass(frozen=True)
class TensorUse:
    """A tensor argument of an operator."""

    address: int | None
    """Address of its first element, or None without memory."""
    shape: tuple[int, ...]
    dtype: str
    """torch type name, such as ``float32``."""
    device: str
    """``cuda``, ``pinned`` or ``cpu``."""
    inner: bool
    """Memory allocated within the step."""


@dataclass(frozen=True)
class Violation:
    """A rule that an operator or call breaks on its own."""

    rule: RuleId
    evidence: tuple[Evidence, ...] = ()
    message: str | None = None


@dataclass(frozen=True)
class Event:
    """One operator or observed call of a step."""

    op: str
    """Name; empty if only the line is known."""
    spot: SourceLocation | None
    stream: str
    """Current CUDA stream, in words."""
    captured: bool
    """The stream was being captured when the call started."""
    thread: str | None
    """Python thread, or None for the step's own."""
    inputs: tuple[TensorUse, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    """Numbers, strings and booleans among the arguments, in order."""
    on_gpu: bool = True
    """An argument or result is a GPU tensor."""
    makes_cpu: bool = False
    """A result is a CPU tensor."""
    violation: Violation | None = None


@dataclass
class StepLog:
    """All events of one step in order, and changed Python state as (name, before, after)."""

    events: list[Event] = field(default_factory=list)
    state: tuple[tuple[str, Scalar, Scalar], ...] = ()
