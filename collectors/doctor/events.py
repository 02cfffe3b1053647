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
    """An argument of an operator. ``address`` is of its first element, ``device`` is "cuda",
    "pinned" or "cpu"; ``inner``: its memory was made within the step."""

    address: int | None
    shape: tuple[int, ...]
    dtype: str
    device: str
    inner: bool


@dataclass(frozen=True)
class Violation:
    """A rule that an operator or call breaks by itself, whatever other steps do."""

    rule: RuleId
    evidence: tuple[Evidence, ...] = ()
    message: str | None = None


@dataclass(frozen=True)
class Event:
    """One operator or watched call of a step.

    ``op`` is empty where only the line is known. ``stream`` names the current CUDA stream,
    ``captured`` whether it was being captured when the operator began.
    """

    op: str
    spot: Spot | None
    stream: str
    captured: bool
    thread: str | None
    inputs: tuple[TensorUse, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    on_gpu: bool = True
    makes_cpu: bool = False
    violation: Violation | None = None


@dataclass
class StepLog:
    """All events of one step in their order, and the Python state that it changed: name, before,
    after."""

    events: list[Event] = field(default_factory=list)
    state: tuple[tuple[str, Scalar, Scalar], ...] = ()
