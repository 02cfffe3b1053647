"""A compiled program as a tree: from a user's function over its compilations, the rests behind its
graph breaks and Inductor's partitions to the CUDA graphs that were recorded.

Each box has the time that its own part of a clean step takes, and the causes that it concerns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field

from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.step_time import StepTime
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import (
    Compilation,
    CompiledFrame,
    GraphPartition,
    TreeNode,
    UserLine,
)


class BoxKind(StrEnum):
    """What a box of the tree is."""

    FUNCTION = "function"
    FRAME = "compilation"
    REST = "rest behind a graph break"
    PARTITION = "partition"
    SPLIT = "partition outside graphs"
    GRAPH = "CUDA graph"


class Box(Struct, frozen=True):
    """One box of the tree."""

    id: str
    """Its name, of which there is one in the tree."""
    kind: BoxKind
    """What it is."""
    title: str
    """The name of the function, or the number of the compilation, partition or graph."""
    line: UserLine | None
    """The line that it begins at; None where none is known."""
    own_ns: float | None
    """The time of a clean step in it and not in others within it; None where it is not known."""
    total_ns: float | None
    """The same with those within it."""
    facts: tuple[tuple[str, str], ...]
    """What else is known of it, as name and value."""
    causes: tuple[int, ...]
    """Places in the list of causes of those that concern it."""
    graph: str | None = None
    """The id of its graph in the bundle, for the Graph page; None where it has none."""
    code: str | None = None
    """Its FX graph; None where it has none."""
    children: tuple[Box, ...] = field(default=())
    """What is within it."""


class ProgramTree(Struct, frozen=True):
    """All functions of a program that were compiled."""

    roots: tuple[Box, ...]
    """The functions, the one that takes longest first."""
    boxes: int
    """How many boxes there are in all."""

    def walk(self) -> Iterator[Box]:
        """All boxes, each before those within it."""
        waiting = list(reversed(self.roots))
        while waiting:
            box = waiting.pop()
            yield box
            waiting.extend(reversed(box.children))


class _Builder:
    """Makes the boxes of one program."""

    def __init__(
        self,
        compilation: Compilation,
        time: StepTime | Missing,
        step_ns: float | Missing,
        causes: Sequence[CompileCause],
    ) -> None:
        self._compilation = compilation
        self._causes: dict[str, list[int]] = {}
        for index, cause in enumerate(causes):
            for frame in cause.frames:
                self._causes.setdefault(frame, []).append(index)
        self._times = _times_by_frame(time, step_ns)
        timed = () if isinstance(time, Missing) else time.calls
        self._calls = {call.frame: call for call in timed}
        self._splits = {split.frame: split for split in compilation.partitionings}
        self._functions: dict[str, list[int]] = {}
        for function in compilation.functions:
            if function.frame is not None:
                self._functions.setdefault(function.frame, []).append(function.id)
        self._nodes: dict[int, list[TreeNode]] = {}
        for node in compilation.nodes:
            self._nodes.setdefault(node.function, []).append(node)

    def tree(self) -> ProgramTree:
        """The whole tree."""
        whole: dict[tuple[str, str], list[CompiledFrame]] = {}
        rests: dict[tuple[str, str], list[CompiledFrame]] = {}
        for frame in self._compilation.frames:
            file = frame.place.file if frame.place else ""
            (rests if frame.resumes else whole).setdefault((file, frame.function), []).append(frame)
        roots = [
            self._function(name, own, rests.pop((file, name), []))
            for (file, name), own in whole.items()
        ]
        # Rests of functions that were never compiled from their begin.
        roots += [self._function(name, (), own) for (_, name), own in rests.items()]
        roots.sort(key=lambda box: -(box.total_ns or 0))
        tree = ProgramTree(tuple(roots), 0)
        return ProgramTree(tree.roots, sum(1 for _ in tree.walk()))

    def _function(
        self, name: str, own: Sequence[CompiledFrame], rests: Sequence[CompiledFrame]
    ) -> Box:
        frames = [self._frame(frame, BoxKind.FRAME) for frame in own]
        frames += [self._frame(frame, BoxKind.REST) for frame in rests]
        first = (*own, *rests)[0]
        total = _sum(box.total_ns for box in frames)
        compile_ns = sum(frame.compile_ns or 0 for frame in (*own, *rests))
        facts = [
            ("compilations", str(len(own))),
            ("rests behind breaks", str(len(rests))),
            ("compiled in", f"{compile_ns / 1e9:.1f} s"),
        ]
        return Box(
            id=f"function {first.id}",
            kind=BoxKind.FUNCTION,
            title=name,
            line=first.place,
            own_ns=None,
            total_ns=total,
            facts=tuple(facts),
            causes=tuple(sorted({index for box in frames for index in box.causes})),
            children=tuple(frames),
        )

    def _frame(self, frame: CompiledFrame, kind: BoxKind) -> Box:
        children = tuple(self._within(frame))
        facts = [("compilation", frame.id)]
        for name, value in (
            ("operators", frame.nodes),
            ("inputs", frame.inputs),
            ("guards", frame.guards),
        ):
            if value is not None:
                facts.append((name, f"{value:,}"))
        if frame.guard_ns is not None:
            facts.append(("guards take", f"{frame.guard_ns / 1e3:.0f} µs"))
        if frame.compile_ns is not None:
            facts.append(("compiled in", f"{frame.compile_ns / 1e9:.2f} s"))
        call = self._calls.get(frame.id)
        if call is not None:
            facts.append(("calls a step", f"{call.calls:g}"))
            facts.append(("graph launches a step", f"{call.replays:g}"))
            facts.append(("other launches a step", f"{call.launches:g}"))
        if frame.failure is not None:
            facts.append(("not compiled", frame.failure))
        own = self._times.get(frame.id)
        behind = f"behind line {frame.place.line}" if kind is BoxKind.REST and frame.place else ""
        return Box(
            id=f"frame {frame.id}",
            kind=kind,
            title=behind or frame.id,
            line=frame.place,
            own_ns=own,
            total_ns=own,
            facts=tuple(facts),
            causes=tuple(self._causes.get(frame.id, ())),
            code=frame.code,
            children=children,
        )

    def _within(self, frame: CompiledFrame) -> Iterator[Box]:
        split = self._splits.get(frame.id)
        parts = split.partitions if split is not None and len(split.partitions) > 1 else ()
        for index, part in enumerate(parts):
            yield _partition(frame.id, index, part)
        for function in self._functions.get(frame.id, ()):
            for node in self._nodes.get(function, ()):
                yield self._node(node, function)

    def _node(self, node: TreeNode, function: int) -> Box:
        copied = sum(copied.bytes or 0 for copied in node.copied)
        facts = [
            ("recorded function", str(function)),
            ("behind graph", "none" if node.parent is None else str(node.parent)),
            ("copied inputs", f"{len(node.copied)} of {copied:,} B"),
            ("inputs from graphs before", str(node.managed)),
            ("outputs", str(node.outputs)),
        ]
        if node.aliased:
            facts.append(("outputs that share memory", str(node.aliased)))
        return Box(
            id=f"graph {node.id}",
            kind=BoxKind.GRAPH,
            title=node.graph or f"graph {node.id} of the trees",
            line=None,
            own_ns=None,
            total_ns=None,
            facts=tuple(facts),
            causes=(),
            graph=node.graph,
        )


def program_tree(
    compilation: Compilation,
    time: StepTime | Missing,
    step_ns: float | Missing,
    causes: Sequence[CompileCause],
) -> ProgramTree:
    """The tree of a program; near-linear in its compilations and graphs."""
    return _Builder(compilation, time, step_ns, causes).tree()


def _partition(frame: str, index: int, part: GraphPartition) -> Box:
    operator = part.operators[0] if part.operators else None
    facts = [
        ("nodes", str(part.nodes)),
        ("inputs", str(part.inputs)),
        ("outputs", str(part.outputs)),
    ]
    facts += [(each.reason, each.operator or each.name) for each in part.operators[:8]]
    return Box(
        id=f"partition {frame} {index}",
        kind=BoxKind.PARTITION if part.captured else BoxKind.SPLIT,
        title=f"partition {index}",
        line=operator.lines[0] if operator is not None and operator.lines else None,
        own_ns=None,
        total_ns=None,
        facts=tuple(facts),
        causes=(),
    )


def _times_by_frame(time: StepTime | Missing, step_ns: float | Missing) -> Mapping[str, float]:
    if isinstance(time, Missing):
        return {}
    whole = time.traced_ns if isinstance(step_ns, Missing) else step_ns
    sums: dict[str, float] = {}
    for part in time.parts:
        if part.frame is not None and part.part is not StepPart.PYTHON:
            sums[part.frame] = sums.get(part.frame, 0.0) + time.clean(part, whole)
    return sums


def _sum(values: Iterator[float | None]) -> float | None:
    timed = [value for value in values if value is not None]
    return sum(timed) if timed else None
