"""Facts about wrong, crashed and hanging replays: replay-check.json of a run bundle.

Collectors record facts only. :mod:`graphviz_dash.analysis.replay_check` finds the first wrong
operator and the cause.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from graphviz_dash.model.doctor import CodeLocation
from graphviz_dash.model.graph import Count

REPLAY_FAULT_EXIT_CODE: Final = 3
"""Exit code of the command line for wrong, crashed or hanging replays."""

HashedRole: TypeAlias = Literal["output", "input"]


class FactKind(StrEnum):
    """Fact of an operator that differs between the capture and an eager step."""

    SCALAR = "scalar"
    """A number, string or CPU scalar among its arguments."""
    ADDRESS = "address"
    """Address of memory from outside the step."""
    HOST_VALUE = "host-value"
    """Content of a CPU tensor that it reads."""
    SHAPE = "shape"
    """Shape of a tensor argument."""
    PARAMETER = "parameter"
    """Number among the arguments of a kernel that is no operator; the operator is the next one."""
    PATH = "path"
    """The step runs another operator at this position."""


class CheckedTensor(Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor that was hashed."""

    role: HashedRole
    """Written by the operator, or read by it before."""
    position: Count
    """Position among the operator's tensors of that role."""
    dtype: str
    shape: tuple[Count, ...]


class CheckedOperator(Struct, frozen=True, forbid_unknown_fields=True):
    """An operator of the captured step."""

    name: str
    """Name in torch's schema."""
    location: CodeLocation | None
    """Line of the program or of a library. None if unknown."""
    module: str | None
    """Path of the module. None if unknown."""
    stream: Count
    """Number of its stream in order of first use."""
    first_node: Count | None
    """Index in the graph. None if it added none."""
    nodes: Count
    """Number of its nodes."""
    in_capture: bool
    """False if its stream was not part of the capture."""
    random: bool
    """It draws random numbers."""
    on_gpu: bool
    """An argument or result is a GPU tensor."""
    writes_cpu: bool
    """It writes a CPU tensor."""
    reads_cpu: bool
    """It reads a CPU tensor that is not a scalar."""
    cpu_writer: Count | None = None
    """Last operator that wrote the CPU tensor that it reads. None if none did."""


class FactDifference(Struct, frozen=True, forbid_unknown_fields=True):
    """A fact of an operator that an eager step would use, but a replay does not."""

    operator: Count
    """Index of the operator."""
    kind: FactKind
    position: Count
    """Position among the operator's scalars or tensors."""
    capture_value: str
    """Value in the capture."""
    eager: tuple[str, ...]
    """Values in the eager steps that were compared."""


class TensorDifference(Struct, frozen=True, forbid_unknown_fields=True):
    """A hashed tensor that differs between a replay and the eager step in its place."""

    round: Count
    """Number of the inputs: 0 for those of the capture, above for changed ones."""
    replay: Count
    """Number of the replay from the saved state, from 1."""
    operator: Count
    """Index of the operator."""
    tensor: CheckedTensor
    relative: float | None
    """Difference of signed sums over the sum of absolute values. None if undefined."""
    eager_difference: float | None
    """Same between two eager steps; 0 if bitwise equal. None if not measured."""
    absent: bool = False
    """True if the replay did not write the tensor at all."""


class ElementDifference(Struct, frozen=True, forbid_unknown_fields=True):
    """An element of the first wrong tensor."""

    index: tuple[Count, ...]
    """Position in the tensor."""
    eager: float
    """Value after the eager step; NaN and infinities are None in JSON."""
    replay: float
    """Value after the replay."""


class WrongElements(Struct, frozen=True, forbid_unknown_fields=True):
    """Elements of the first wrong tensor after the replay and after the eager step."""

    operator: Count
    """Index of the operator."""
    tensor: CheckedTensor
    differing_elements: Count
    """Unequal elements."""
    elements: Count
    first: tuple[ElementDifference, ...]
    """First unequal elements."""


class MissingOrder(Struct, frozen=True, forbid_unknown_fields=True):
    """An operator that reads memory without waiting for the operator that writes it."""

    reader: Count
    """Index of the operator that reads."""
    writer: Count
    """Index of the operator that writes."""
    node: Count
    """First node of the reader."""


class ForeignNodes(Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that no operator launched, such as Triton kernels."""

    next_operator: Count
    """Operator before which they were captured."""
    first_node: Count
    """Index of the first one."""
    nodes: Count
    names: tuple[str, ...]
    """Kernels, without repetition."""


class StaleArgument(Struct, frozen=True, forbid_unknown_fields=True):
    """An argument of a node in the program's graph that a new capture of the step would replace."""

    node: Count
    """Index of the node."""
    operator: Count | None
    """Index of the operator that launches it. None if there is none."""
    name: str | None
    """Kernel. None for copies and sets."""
    kind: FactKind
    """``scalar`` or ``address``."""
    capture_value: str
    """Value in the program's graph."""
    value: str
    """Value in a new capture."""


class CheckGap(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that the check does not cover."""

    subject: str
    reason: str
    count: Count = 1
    """Number of such subjects."""


class ValueCheck(Struct, frozen=True, forbid_unknown_fields=True):
    """Replays of a step compared with eager steps from the same state."""

    operators: tuple[CheckedOperator, ...]
    """Operators in the order of the capture."""
    hash_count: Count
    """Tensors hashed per step."""
    nodes: Count
    """Nodes of the graph without hashes."""
    rounds: Count
    """Inputs tried."""
    replays: Count
    """Replays per round."""
    differences: tuple[TensorDifference, ...]
    """Differing tensors by round, replay and operator; limited in number."""
    difference_count: Count
    """All differing tensors."""
    facts: tuple[FactDifference, ...]
    """Facts that differ from the eager steps."""
    orders: tuple[MissingOrder, ...]
    """Reads without an order."""
    foreign: tuple[ForeignNodes, ...]
    """Nodes outside operators."""
    overwritten: tuple[Count, ...] = ()
    """Operators whose external memory changed between two replays."""
    arguments: tuple[StaleArgument, ...] = ()
    """Arguments of the program's graph that are out of date."""
    elements: WrongElements | None = None
    """Elements of the first wrong tensor. None if not read."""
    duration_ns: Count | None = None
    """Duration of the check. None if not measured."""


class NodeOwner(Struct, frozen=True, forbid_unknown_fields=True):
    """A graph node and the code that captured it."""

    graph: str
    """Id of the graph."""
    index: Count
    """Index of the node in creation order."""
    kind: str
    """Kind of node, such as ``kernel``."""
    name: str | None
    """Kernel or host function. None if unnamed."""
    op: str | None
    """Operator. None for nodes outside operators."""
    location: CodeLocation | None
    """Line of the program. None if unknown."""
    module: str | None = None
    """Path of the module. None if unknown."""
    collective: Count | None = None
    """Number of the collective in the graph, from 1. None if it is none."""


class MemoryFate(Struct, frozen=True, forbid_unknown_fields=True):
    """Memory of a graph that was freed, moved or reused after the capture."""

    graph: str
    node: NodeOwner | None
    """First node that uses it. None if unknown."""
    owner: str
    """Kind of memory: ``tensor``, ``pinned``, ``graph-pool``, ``gradient``, ``workspace`` or
    ``library``."""
    description: str
    """Tensor with shape and type, pool or library."""
    fate: Literal["freed", "moved", "reused"]
    """Its end."""
    free_location: CodeLocation | None
    """Line that freed it. None if unknown."""
    after_replay: Count
    """Replays of the graph before."""
    reported_before_replay: Count
    """Replay that would use the memory, from 1."""
    argument: Count | None = None
    """Position of the node's kernel argument that holds the address. None if unknown."""
    allocation_location: CodeLocation | None = None
    """Line that allocated it. None if not recorded."""


class RankProgress(Struct, frozen=True, forbid_unknown_fields=True):
    """Progress of a rank in the graph of the same id while another rank hangs."""

    rank: Count
    replay: Count
    """Replays that its GPU began."""
    is_busy: bool
    """A replay was requested and has not ended."""
    collectives: Count
    """Collectives in its graph."""
    collectives_passed: Count
    """Collectives that ended in its last replay."""
    missing_collectives: tuple[Count, ...] = ()
    """Collectives of the hanging rank that its own graph lacks, from 1. Empty if unknown."""


class InvalidArgument(Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel argument of the size of an address that was in no allocation at the capture."""

    node: Count
    """Index of the node."""
    argument: Count
    """Position among the kernel's arguments."""
    value: str
    """Its value, in hexadecimal."""


class ReplayStop(Struct, frozen=True, forbid_unknown_fields=True):
    """A replay that crashed or hangs."""

    kind: Literal["crash", "hang"]
    graph: str
    capture_location: CodeLocation | None
    """Line that captured the graph. None if unknown."""
    rank: Count | None
    """Rank of the process. None if there is none."""
    replay: Count
    """Number of the replay, from 1."""
    is_running: bool
    """False if the replay waits for earlier work of its stream."""
    suspects: tuple[NodeOwner, ...]
    """Nodes that were reached but did not end, one per branch."""
    last: tuple[NodeOwner, ...]
    """Last nodes that ended, before the suspects."""
    completions: Count
    """Nodes that ended."""
    nodes: Count
    collectives: Count
    collectives_passed: Count
    """Collectives that ended."""
    waited_ns: Count | None
    """Time without progress. None for a crash."""
    error: str | None
    """Error of the driver. None if unknown."""
    key: str | None = None
    """Label of the graph, such as a batch size. None if unknown."""
    ranks: tuple[RankProgress, ...] = ()
    """All ranks at that time, by number."""
    invalid_arguments: tuple[InvalidArgument, ...] = ()
    """Arguments of the suspects that may be invalid addresses. Only for a crash."""


class ReplayCheck(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of replay-check.json."""

    subject: Literal["workload", "program"]
    """A workload's step or a program."""
    values: tuple[ValueCheck, ...]
    """Comparisons with eager steps."""
    stops: tuple[ReplayStop, ...]
    """Replays that crashed or hang."""
    memory: tuple[MemoryFate, ...]
    """Memory that replays would use after its end."""
    graphs: Count
    """Graphs that were marked or watched."""
    gaps: tuple[CheckGap, ...]
    """Parts that were not checked, with reasons."""
