"""What is taken down of a step while it runs. Needs no torch, so that what is made of it can be
tested anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from collectors.doctor.places import Spot
from graphviz_dash.model.doctor import Evidence, RuleId

Scalar: TypeAlias = int | float | bool | str


@dataclass(frozen=True)
class TensorUse:
    """A tensor that is an argument of an operator."""

    address: int | None
    """Of its first element; None where it has no memory."""
    shape: tuple[int, ...]
    """Its sizes."""
    dtype: str
    """Its type in torch's words, such as ``float32``."""
    device: str
    """``cuda``, ``pinned`` or ``cpu``."""
    inner: bool
    """Whether its memory was made within the step."""


@dataclass(frozen=True)
class Violation:
    """A rule that an operator or call breaks by itself, whatever other steps do."""

    rule: RuleId
    evidence: tuple[Evidence, ...] = ()
    message: str | None = None


@dataclass(frozen=True)
class Event:
    """One operator or watched call of a step."""

    op: str
    """Its name; empty where only the line is known."""
    spot: Spot | None
    """The line of the user's code that led to it; None where none did."""
    stream: str
    """The current CUDA stream, in words."""
    captured: bool
    """Whether that stream was being captured when it began."""
    thread: str | None
    """The Python thread; None for the step's own."""
    inputs: tuple[TensorUse, ...] = ()
    """The tensors among its arguments, in their order."""
    scalars: tuple[Scalar, ...] = ()
    """The numbers, texts and truth values among its arguments, in their order."""
    on_gpu: bool = True
    """Whether a tensor of the GPU is an argument or a result."""
    makes_cpu: bool = False
    """Whether a tensor on the CPU is a result."""
    violation: Violation | None = None
    """The rule that it breaks; None where it breaks none."""


@dataclass
class StepLog:
    """All events of one step in their order, and the Python state that it changed: name, before,
    after."""

    events: list[Event] = field(default_factory=list)
    state: tuple[tuple[str, Scalar, Scalar], ...] = ()
