"""What torch.compile made of a program, and why: compilation.json of a run bundle.

From the frames that Dynamo compiled, through the breaks between them and Inductor's partitions, to
the tree of recorded graphs. Users read them in docs/reference/bundle-format.md.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from graphviz_dash.model.graph import Count


class CompilationFact(StrEnum):
    """The kinds of facts that there may be; a version of torch can lack some."""

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
    """Where the facts of one kind come from, or why there are none."""

    fact: CompilationFact
    """The kind of facts."""
    source: str | None
    """The interface of torch that told them; None where it could not be had."""
    missing: str | None = None
    """Why it could not be had; None where it could."""


class UserLine(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the program."""

    file: str
    """Its path, shortened so that it names no folder of the machine."""
    line: Count
    """Its number, from 1."""
    function: str | None = None
    """The function around it; None where it is not told."""
    code: str | None = None
    """The line itself; None where it is not told."""

    @property
    def text(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"


class CompiledFrame(Struct, frozen=True, forbid_unknown_fields=True):
    """One compilation of a function, or of the rest of one behind a graph break, by Dynamo."""

    id: str
    """torch's id of the compilation: ``0/1`` is the second of frame 0."""
    function: str
    """The function's name, without what Dynamo puts before that of a rest."""
    place: UserLine | None
    """Its first line; of a rest the line that it goes on behind."""
    resumes: bool
    """Whether it is the rest of a function behind a graph break."""
    callers: tuple[UserLine, ...] = ()
    """The program's lines that led to it, innermost first."""
    nodes: Count | None = None
    """Operators of its FX graph; None where none came out."""
    inputs: Count | None = None
    """Inputs of its FX graph; None where none came out."""
    guards: Count | None = None
    """Guards that are checked at each call; None where they are not told."""
    guard_ns: Count | None = None
    """How long they took to check when Dynamo tried them, in ns; None where it does not tell."""
    compile_ns: Count | None = None
    """How long the compilation took, in ns; None where it is not told."""
    failure: str | None = None
    """Why nothing was compiled; None where something was."""
    code: str | None = None
    """Its FX graph as torch prints it, cut at 20,000 characters; None where none came out."""


class GraphBreak(Struct, frozen=True, forbid_unknown_fields=True):
    """A place at which Dynamo could not go on: what follows is compiled as a graph of its own."""

    frame: str | None
    """The compilation that ended there."""
    reason: str
    """Dynamo's reason in a line."""
    explanation: str | None
    """What Dynamo says besides."""
    hints: tuple[str, ...]
    """What Dynamo suggests."""
    link: str | None
    """Where torch's documentation has more."""
    lines: tuple[UserLine, ...]
    """The program's lines, innermost first."""
    whole_frame: bool = False
    """Whether the whole function runs eagerly, because Dynamo cannot resume there."""


class Recompile(Struct, frozen=True, forbid_unknown_fields=True):
    """A function was compiled again, because guards of its earlier compilations failed."""

    frame: str | None
    """The new compilation."""
    guards: tuple[str, ...]
    """The guards that failed, as Python."""
    lines: tuple[UserLine, ...]
    """The line that each guard is there for, where it is told."""
    limit: bool = False
    """Whether it was not compiled again, because the limit was reached: it runs eagerly."""


class CompiledGraph(Struct, frozen=True, forbid_unknown_fields=True):
    """A graph that Inductor compiled."""

    frame: str | None
    """The compilation that it belongs to."""
    key: str
    """Its key in Inductor's cache, by which traces name its calls."""
    backward: bool | None
    """Whether it is a backward; None where it is not told."""
    cached: bool | None
    """Whether it came out of the cache; None where it is not told."""


class SplitOperator(Struct, frozen=True, forbid_unknown_fields=True):
    """An operator that cannot be captured, so that Inductor splits a graph at it."""

    name: str
    """Inductor's name of it."""
    reason: str
    """Why it cannot be captured."""
    operator: str | None
    """The FX operator; None where it is not told."""
    lines: tuple[UserLine, ...]
    """The program's lines, innermost first."""


class GraphPartition(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a compiled graph: captured as a CUDA graph, or run as it is."""

    nodes: Count
    """Inductor's nodes in it."""
    inputs: Count
    """Its inputs."""
    outputs: Count
    """Its outputs."""
    captured: bool
    """Whether it can be captured."""
    operators: tuple[SplitOperator, ...]
    """Those for which it cannot."""


class Partitioning(Struct, frozen=True, forbid_unknown_fields=True):
    """How Inductor split one compiled graph."""

    frame: str | None
    """The compilation that it belongs to."""
    partitions: tuple[GraphPartition, ...]
    """The parts in the order in which they run."""


class GraphSkip(Struct, frozen=True, forbid_unknown_fields=True):
    """Why no CUDA graph is recorded of a compiled graph."""

    frame: str | None
    """The compilation; None where it is not told."""
    reason: str
    """Inductor's reason in a line."""
    lines: tuple[UserLine, ...]
    """The program's lines, innermost first."""


class FunctionInput(Struct, frozen=True, forbid_unknown_fields=True):
    """An input of a function that is recorded as CUDA graphs."""

    name: str
    """Its name in the FX graph."""
    static: bool
    """Whether it is taken to stay at its address: parameters, buffers, marked tensors."""
    mutated: bool
    """Whether the function writes to it."""
    line: UserLine | None = None
    """The line that first uses it; None where it is not told."""


class TreeFunction(Struct, frozen=True, forbid_unknown_fields=True):
    """A compiled graph, or a partition of one, that is recorded as CUDA graphs."""

    id: Count
    """Its number in the cudagraph trees."""
    frame: str | None
    """The compilation that it belongs to."""
    mode: str
    """``forward``, ``backward`` or ``inference``."""
    inputs: tuple[FunctionInput, ...]
    """Its inputs, in order."""
    warmups: Count = 0
    """Times it ran before its first recording."""
    recordings: Count = 0
    """CUDA graphs that were recorded of it."""


class CopiedInput(Struct, frozen=True, forbid_unknown_fields=True):
    """An input that is copied to the address that the graph reads before each replay."""

    name: str
    """Its name in the FX graph."""
    bytes: Count | None
    """Its size; None where it is not told."""
    line: UserLine | None = None
    """The line that first uses it; None where it is not told."""


class TreeNode(Struct, frozen=True, forbid_unknown_fields=True):
    """One recorded CUDA graph in the tree: a path from a root is what a step replays."""

    id: Count
    """Its number in the cudagraph trees."""
    function: Count
    """The function that was recorded."""
    parent: Count | None
    """The node that is replayed before it; None for a root."""
    graph: str | None
    """Its graph in the bundle; None where the two cannot be joined."""
    copied: tuple[CopiedInput, ...]
    """Inputs that are copied at each replay."""
    managed: Count
    """Inputs that are outputs of graphs before it, which are read where they lie."""
    outputs: Count
    """Its outputs."""
    aliased: Count
    """Outputs that share memory with an earlier output."""


class MovedInput(Struct, frozen=True, forbid_unknown_fields=True):
    """An input that was expected at one address and came at another."""

    name: str
    """Its name in the FX graph."""
    line: UserLine | None = None
    """The line that first uses it; None where it is not told."""


class Rerecording(Struct, frozen=True, forbid_unknown_fields=True):
    """A function was recorded again although a graph of it existed."""

    frame: str | None
    """The compilation; None where it is not told."""
    function: str
    """The function, as torch calls it."""
    reason: str
    """Which expectation of the earlier recording failed."""
    moved: tuple[MovedInput, ...]
    """The inputs that moved; empty where another expectation failed."""


class CompileWarning(Struct, frozen=True, forbid_unknown_fields=True):
    """A warning or an error of the cudagraph trees."""

    text: str
    """What it said, in a line."""
    lines: tuple[UserLine, ...]
    """The program's lines that it names, or that call what it is about, innermost first."""
    times: Count = 1
    """How often it came."""


class Compilation(Struct, frozen=True, forbid_unknown_fields=True):
    """compilation.json."""

    torch: str | None
    """The version of torch; None where the log does not tell it."""
    sources: tuple[FactSource, ...]
    """Where each kind of facts comes from, or why it is missing."""
    frames: tuple[CompiledFrame, ...] = ()
    """What Dynamo compiled, in order."""
    breaks: tuple[GraphBreak, ...] = ()
    """Where it could not go on, each place once for each compilation."""
    recompiles: tuple[Recompile, ...] = ()
    """What it compiled again."""
    graphs: tuple[CompiledGraph, ...] = ()
    """What Inductor compiled."""
    partitionings: tuple[Partitioning, ...] = ()
    """How Inductor split what it compiled, to capture the parts."""
    skips: tuple[GraphSkip, ...] = ()
    """What runs without CUDA graphs."""
    functions: tuple[TreeFunction, ...] = ()
    """What is recorded as CUDA graphs."""
    nodes: tuple[TreeNode, ...] = ()
    """What was recorded and was still there at the end, parents before children."""
    rerecordings: tuple[Rerecording, ...] = ()
    """What was recorded again."""
    warnings: tuple[CompileWarning, ...] = ()
    """What the cudagraph trees warned of, or raised."""
    counters: dict[str, Count] = {}
    """Counters of Dynamo and Inductor, ``group.name``, those that have to do with graphs."""
