"""Results of torch.compile for a program: compilation.json of a run bundle.

Covers Dynamo's frames and graph breaks, Inductor's partitions and the tree of recorded CUDA graphs.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from graphviz_dash.model.graph import Count


class CompilationFact(StrEnum):
    """Kinds of compilation facts. Some versions of torch lack some kinds."""

    FRAMES = "frames"
    BREAKS = "breaks"
    RECOMPILES = "recompiles"
    GRAPHS = "graphs"
    PARTITIONS = "partitions"
    SKIPS = "skips"
    FUNCTIONS = "functions"
    NODES = "nodes"
    RERECORDINGS = "rerecordings"
    WARNINGS = "warnings"
    COUNTERS = "counters"


class FactSource(Struct, frozen=True, forbid_unknown_fields=True):
    """Source of one kind of facts, or the reason for its absence."""

    fact: CompilationFact
    source: str | None
    """Torch interface that provided the facts. None if unavailable."""
    missing_reason: str | None = None
    """Reason for the absence. None if the facts are available."""


class UserLine(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the program."""

    file: str
    """Path, shortened so that it names no folder of the machine."""
    line: Count
    """Line number, from 1."""
    function: str | None = None
    """Enclosing function. None if unknown."""
    code: str | None = None
    """Text of the line. None if unknown."""

    @property
    def text(self) -> str:
        """The location as ``file:line``."""
        return f"{self.file}:{self.line}"


class CompiledFrame(Struct, frozen=True, forbid_unknown_fields=True):
    """One Dynamo compilation of a function, or of its continuation after a graph break."""

    id: str
    """Torch's id of the compilation: ``0/1`` is the second one of frame 0."""
    function: str
    """Function name, without the prefix that Dynamo adds to continuations."""
    location: UserLine | None
    """First line of the function, or of the graph break before a continuation."""
    is_continuation: bool
    """True for the continuation of a function after a graph break."""
    callers: tuple[UserLine, ...] = ()
    """Program lines that led to the call, innermost first."""
    nodes: Count | None = None
    """Operators in the FX graph. None without a graph."""
    inputs: Count | None = None
    """Inputs of the FX graph. None without a graph."""
    guards: Count | None = None
    """Guards checked per call. None if unknown."""
    guard_ns: Count | None = None
    """Time to check the guards once, in ns. None if unknown."""
    compile_ns: Count | None = None
    """Compile time in ns. None if unknown."""
    failure: str | None = None
    """Reason for the failure. None if it succeeded."""
    code: str | None = None
    """FX graph as printed by torch, at most 20,000 characters. None without a graph."""


class GraphBreak(Struct, frozen=True, forbid_unknown_fields=True):
    """A graph break: Dynamo compiles the code after it as a separate graph."""

    frame: str | None
    """Id of the compilation that ended at the break. None if unknown."""
    reason: str
    """Dynamo's reason, on one line."""
    explanation: str | None
    """Dynamo's explanation. None if there is none."""
    hints: tuple[str, ...]
    """Dynamo's suggestions."""
    link: str | None
    """Torch's documentation. None if there is none."""
    lines: tuple[UserLine, ...]
    """Program lines, innermost first."""
    runs_eagerly: bool = False
    """True if the function runs eagerly because Dynamo cannot resume."""


class Recompile(Struct, frozen=True, forbid_unknown_fields=True):
    """Recompilation of a function after a guard failure."""

    frame: str | None
    """Id of the new compilation. None if unknown."""
    guards: tuple[str, ...]
    """Failed guards, as Python expressions."""
    lines: tuple[UserLine, ...]
    """Program line behind each guard, if known."""
    limit_reached: bool = False
    """True if the recompile limit was reached: the function runs eagerly."""


class CompiledGraph(Struct, frozen=True, forbid_unknown_fields=True):
    """A graph compiled by Inductor."""

    frame: str | None
    """Id of the compilation. None if unknown."""
    key: str
    """Key in Inductor's cache, which names its calls in traces."""
    backward: bool | None
    """True for a backward graph. None if unknown."""
    cached: bool | None
    """True if the graph came from the cache. None if unknown."""


class SplitOperator(Struct, frozen=True, forbid_unknown_fields=True):
    """An operator that cannot be captured, where Inductor splits a graph."""

    name: str
    reason: str
    """Why it cannot be captured."""
    operator: str | None
    """FX operator. None if unknown."""
    lines: tuple[UserLine, ...]
    """Program lines, innermost first."""


class GraphPartition(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a compiled graph: either captured as a CUDA graph or run without one."""

    nodes: Count
    """Inductor nodes."""
    inputs: Count
    outputs: Count
    captured: bool
    """True if it can be captured."""
    operators: tuple[SplitOperator, ...]
    """Operators that prevent a capture."""


class Partitioning(Struct, frozen=True, forbid_unknown_fields=True):
    """Partitions of one compiled graph."""

    frame: str | None
    """Id of the compilation. None if unknown."""
    partitions: tuple[GraphPartition, ...]
    """Partitions in execution order."""


class GraphSkip(Struct, frozen=True, forbid_unknown_fields=True):
    """A compiled graph without a CUDA graph, and the reason."""

    frame: str | None
    """Id of the compilation. None if unknown."""
    reason: str
    """Inductor's reason, on one line."""
    lines: tuple[UserLine, ...]
    """Program lines, innermost first."""


class FunctionInput(Struct, frozen=True, forbid_unknown_fields=True):
    """An input of a function recorded as CUDA graphs."""

    name: str
    """Name in the FX graph."""
    static: bool
    """True if torch assumes a fixed address."""
    mutated: bool
    """True if the function writes to it."""
    line: UserLine | None = None
    """First line that uses it. None if unknown."""


class TreeFunction(Struct, frozen=True, forbid_unknown_fields=True):
    """A compiled graph, or a partition of one, recorded as CUDA graphs."""

    id: Count
    """Number in the cudagraph trees."""
    frame: str | None
    """Id of the compilation. None if unknown."""
    mode: str
    """``forward``, ``backward`` or ``inference``."""
    inputs: tuple[FunctionInput, ...]
    warmups: Count = 0
    """Runs before the first recording."""
    recordings: Count = 0
    """CUDA graphs recorded."""


class CopiedInput(Struct, frozen=True, forbid_unknown_fields=True):
    """An input copied to the graph's input address before each replay."""

    name: str
    """Name in the FX graph."""
    bytes: Count | None
    """Size in bytes. None if unknown."""
    line: UserLine | None = None
    """First line that uses it. None if unknown."""


class TreeNode(Struct, frozen=True, forbid_unknown_fields=True):
    """One recorded CUDA graph of the tree. A step replays a path from a root."""

    id: Count
    function: Count
    """Number of the recorded function."""
    parent: Count | None
    """Node replayed before it. None for a root."""
    graph: str | None
    """Id of its graph in the bundle. None if unknown."""
    copied: tuple[CopiedInput, ...]
    """Inputs copied before each replay."""
    managed: Count
    """Inputs read in place from earlier graphs' outputs."""
    outputs: Count
    aliased: Count
    """Outputs that share memory with an earlier output."""


class MovedInput(Struct, frozen=True, forbid_unknown_fields=True):
    """An input whose address changed since the recording."""

    name: str
    line: UserLine | None = None
    """First line that uses it. None if unknown."""


class Rerecording(Struct, frozen=True, forbid_unknown_fields=True):
    """A further recording of a function that already had a graph."""

    frame: str | None
    """Id of the compilation. None if unknown."""
    function: str
    reason: str
    """Violated expectation of the earlier recording."""
    moved: tuple[MovedInput, ...]
    """Inputs that moved. Empty for another violation."""


class CompileWarning(Struct, frozen=True, forbid_unknown_fields=True):
    """A warning or an error of the cudagraph trees."""

    text: str
    """Message, on one line."""
    lines: tuple[UserLine, ...]
    """Program lines that the message names or that made the call, innermost first."""
    count: Count = 1
    """Occurrences."""


class Compilation(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of compilation.json."""

    torch: str | None
    """Version of torch. None if the log does not contain it."""
    sources: tuple[FactSource, ...]
    """Source of each kind of facts, or why there is none."""
    frames: tuple[CompiledFrame, ...] = ()
    """Dynamo compilations, in order."""
    breaks: tuple[GraphBreak, ...] = ()
    """Graph breaks, once per location and compilation."""
    recompiles: tuple[Recompile, ...] = ()
    graphs: tuple[CompiledGraph, ...] = ()
    """Graphs compiled by Inductor."""
    partitionings: tuple[Partitioning, ...] = ()
    """Partitions of the compiled graphs."""
    skips: tuple[GraphSkip, ...] = ()
    """Compiled graphs that run without CUDA graphs."""
    functions: tuple[TreeFunction, ...] = ()
    """Functions recorded as CUDA graphs."""
    nodes: tuple[TreeNode, ...] = ()
    """Recorded graphs alive at the end, parents before children."""
    rerecordings: tuple[Rerecording, ...] = ()
    warnings: tuple[CompileWarning, ...] = ()
    counters: dict[str, Count] = {}
    """Dynamo's and Inductor's counters about graphs, by ``group.name``."""
