"""Facts about a step's operators, eager and captured. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from collectors.doctor.places import SourceLocation
from graphviz_dash.model.replay_check import HashedRole


@dataclass(frozen=True)
class TensorFacts:
    """A tensor argument as the operator received it."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    device: str
    """``cuda``, ``pinned`` or ``cpu``."""
    external: bool
    """Memory from outside the step."""
    writer: int | None
    """Last operator of this step that wrote its storage, or None."""
    content: int | None = None
    """Checksum of a CPU tensor's values, or None."""


@dataclass(frozen=True)
class Slot:
    """A hashed tensor."""

    role: HashedRole
    position: int
    """Position among the operator's tensors of that role."""
    index: int
    """Row of the log."""
    shape: tuple[int, ...]
    dtype: str


@dataclass
class OperatorFacts:
    """One operator of a step."""

    name: str
    spot: SourceLocation | None
    module: str | None
    """Path of the innermost module, with ``backward of`` before it in a backward pass."""
    stream: int
    thread: str | None
    tensors: tuple[TensorFacts, ...]
    scalars: tuple[str, ...]
    """Numbers, strings, booleans and values of CPU scalars among the arguments, as text."""
    on_gpu: bool
    random: bool
    writes_cpu: bool
    in_capture: bool
    slots: list[Slot] = field(default_factory=list)
    hash_gaps: list[str] = field(default_factory=list)
    """Reasons for tensors that were not hashed."""
    first_node: int | None = None
    """Index of its first node in the captured graph, or None if it added none."""
    node_count: int = 0
    in_backward: bool = False
