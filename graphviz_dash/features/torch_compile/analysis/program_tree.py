"""Tree of a compiled program: functions, compilations, resume functions, partitions, graphs."""

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
    """Kind of a box."""

    FUNCTION = "function"
    FRAME = "compilation"
    RESUME = "resume function"
    PARTITION = "partition"
    SPLIT = "partition outside graphs"
    GRAPH = "CUDA graph"


class TreeBox(Struct, frozen=True):
    """One box of the tree."""

    id: str
    kind: BoxKind
    title: str
    """Function name, or number of the compilation, partition or graph."""
    line: UserLine | None
    """First line; None if unknown."""
    total_ns: float | None
    """Time including children, in ns; None if unknown."""
    facts: tuple[tuple[str, str], ...]
    """Other facts, as name and value."""
    causes: tuple[int, ...]
    """Indices of the box's causes."""
    graph: str | None = None
    """Graph id in the bundle; None if there is none."""
    code: str | None = None
    """FX graph; None if there is none."""
    children: tuple[TreeBox, ...] = field(default=())
    """Child boxes."""


class ProgramTree(Struct, frozen=True):
    """All compiled functions of a program."""

    roots: tuple[TreeBox, ...]
    """Functions, longest first."""
    boxes: int

    def walk(self) -> Iterator[TreeBox]:
        """Iterate over all boxes in pre-order."""
        stack = list(reversed(self.roots))
        while stack:
            box = stack.pop()
            yield box
            stack.extend(reversed(box.children))


class _Builder:
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
        self._times = _sum_by_frame(time, step_ns)
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

    def build(self) -> ProgramTree:
        """Build the tree."""
        entry_frames: dict[tuple[str, str], list[CompiledFrame]] = {}
        resumed_frames: dict[tuple[str, str], list[CompiledFrame]] = {}
        for frame in self._compilation.frames:
            file = frame.location.file if frame.location else ""
            (resumed_frames if frame.is_continuation else entry_frames).setdefault(
                (file, frame.function), []
            ).append(frame)
        roots = [
            self._build_function(name, frames, resumed_frames.pop((file, name), []))
            for (file, name), frames in entry_frames.items()
        ]
        # Resume functions whose start was never compiled.
        roots += [
            self._build_function(name, (), frames) for (_, name), frames in resumed_frames.items()
        ]
        roots.sort(key=lambda box: -(box.total_ns or 0))
        tree = ProgramTree(tuple(roots), 0)
        return ProgramTree(tree.roots, sum(1 for _ in tree.walk()))

    def _build_function(
        self, name: str, entries: Sequence[CompiledFrame], resumed: Sequence[CompiledFrame]
    ) -> TreeBox:
        frames = [self._build_frame(frame, BoxKind.FRAME) for frame in entries]
        frames += [self._build_frame(frame, BoxKind.RESUME) for frame in resumed]
        first = (*entries, *resumed)[0]
        total = _sum_known(box.total_ns for box in frames)
        compile_ns = sum(frame.compile_ns or 0 for frame in (*entries, *resumed))
        facts = [
            ("compilations", str(len(entries))),
            ("resume functions", str(len(resumed))),
            ("compiled in", f"{compile_ns / 1e9:.1f} s"),
        ]
        return TreeBox(
            id=f"function {first.id}",
            kind=BoxKind.FUNCTION,
            title=name,
            line=first.location,
            total_ns=total,
            facts=tuple(facts),
            causes=tuple(sorted({index for box in frames for index in box.causes})),
            children=tuple(frames),
        )

    def _build_frame(self, frame: CompiledFrame, kind: BoxKind) -> TreeBox:
        children = tuple(self._build_children(frame))
        facts = [("compilation", frame.id)]
        for name, value in (
            ("operators", frame.nodes),
            ("inputs", frame.inputs),
            ("guards", frame.guards),
        ):
            if value is not None:
                facts.append((name, f"{value:,}"))
        if frame.guard_ns is not None:
            facts.append(("guard time", f"{frame.guard_ns / 1e3:.0f} µs"))
        if frame.compile_ns is not None:
            facts.append(("compiled in", f"{frame.compile_ns / 1e9:.2f} s"))
        call = self._calls.get(frame.id)
        if call is not None:
            facts.append(("calls per step", f"{call.calls:g}"))
            facts.append(("graph launches per step", f"{call.replays:g}"))
            facts.append(("other launches per step", f"{call.launches:g}"))
        if frame.failure is not None:
            facts.append(("not compiled", frame.failure))
        resume_title = (
            f"after the break at line {frame.location.line}"
            if kind is BoxKind.RESUME and frame.location
            else ""
        )
        return TreeBox(
            id=f"frame {frame.id}",
            kind=kind,
            title=resume_title or frame.id,
            line=frame.location,
            total_ns=self._times.get(frame.id),
            facts=tuple(facts),
            causes=tuple(self._causes.get(frame.id, ())),
            code=frame.code,
            children=children,
        )

    def _build_children(self, frame: CompiledFrame) -> Iterator[TreeBox]:
        split = self._splits.get(frame.id)
        parts = split.partitions if split is not None and len(split.partitions) > 1 else ()
        for index, part in enumerate(parts):
            yield _build_partition(frame.id, index, part)
        for function in self._functions.get(frame.id, ()):
            for node in self._nodes.get(function, ()):
                yield self._build_node(node, function)

    def _build_node(self, node: TreeNode, function: int) -> TreeBox:
        copied = sum(copied.bytes or 0 for copied in node.copied)
        facts = [
            ("recorded function", str(function)),
            ("parent graph", "none" if node.parent is None else str(node.parent)),
            ("copied inputs", f"{len(node.copied)} of {copied:,} B"),
            ("inputs from earlier graphs", str(node.managed)),
            ("outputs", str(node.outputs)),
        ]
        if node.aliased:
            facts.append(("aliased outputs", str(node.aliased)))
        return TreeBox(
            id=f"graph {node.id}",
            kind=BoxKind.GRAPH,
            title=node.graph or f"graph {node.id} of the trees",
            line=None,
            total_ns=None,
            facts=tuple(facts),
            causes=(),
            graph=node.graph,
        )


def build_program_tree(
    compilation: Compilation,
    time: StepTime | Missing,
    step_ns: float | Missing,
    causes: Sequence[CompileCause],
) -> ProgramTree:
    """Build the tree; near-linear in compilations and graphs."""
    return _Builder(compilation, time, step_ns, causes).build()


def _build_partition(frame: str, index: int, part: GraphPartition) -> TreeBox:
    operator = part.operators[0] if part.operators else None
    facts = [
        ("nodes", str(part.nodes)),
        ("inputs", str(part.inputs)),
        ("outputs", str(part.outputs)),
    ]
    facts += [
        (split_operator.reason, split_operator.operator or split_operator.name)
        for split_operator in part.operators[:8]
    ]
    return TreeBox(
        id=f"partition {frame} {index}",
        kind=BoxKind.PARTITION if part.captured else BoxKind.SPLIT,
        title=f"partition {index}",
        line=operator.lines[0] if operator is not None and operator.lines else None,
        total_ns=None,
        facts=tuple(facts),
        causes=(),
    )


def _sum_by_frame(time: StepTime | Missing, step_ns: float | Missing) -> Mapping[str, float]:
    if isinstance(time, Missing):
        return {}
    total_ns = time.select_total_ns(step_ns)
    sums: dict[str, float] = {}
    for part in time.parts:
        if part.frame is not None and part.part is not StepPart.PYTHON:
            sums[part.frame] = sums.get(part.frame, 0.0) + time.compute_clean_ns(part, total_ns)
    return sums


def _sum_known(values: Iterator[float | None]) -> float | None:
    timed = [value for value in values if value is not None]
    return sum(timed) if timed else None
