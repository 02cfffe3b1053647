"""A program's own graph beside toy chains: its shape, its life, and what a chain of its size takes.

Terms: an edge is *straight* when its source has no other successor and its target no other
predecessor; nodes on paths of such edges lie on a straight line, of which NVIDIA's driver launches
the kernels in constant time. *Width* is the most nodes at one depth, the depth of a node being the
number of nodes on the longest path to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from graphviz_dash.analysis.launch.launch_costs import TITLES, LaunchCosts, Timing
from graphviz_dash.model.graph import CapturedGraph, NodeKind
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.model.run import Environment, Experiment, Run
from graphviz_dash.model.timings import GraphLife
from graphviz_dash.units import counted, format_count, format_ns, format_percent, format_ratio

COMPARED: Final = (
    LaunchMeasure.INSTANTIATION,
    LaunchMeasure.FIRST_LAUNCH_CPU,
    LaunchMeasure.REPEAT_LAUNCH_CPU,
    LaunchMeasure.REPEAT_LAUNCH,
)
"""The measures that a chain of the same size is fitted for."""

_AGAIN: Final = "repeat launches"
_ANEW: Final = "first launch on the GPU"
_OWN: Final[Mapping[LaunchMeasure, Sequence[str]]] = {
    LaunchMeasure.CAPTURE: (),
    LaunchMeasure.INSTANTIATION: (),
    LaunchMeasure.FIRST_LAUNCH_CPU: (),
    LaunchMeasure.FIRST_LAUNCH: (),
    LaunchMeasure.FIRST_LAUNCH_DEVICE: (_ANEW, _AGAIN),
    LaunchMeasure.REPEAT_LAUNCH_CPU: (_AGAIN,),
    LaunchMeasure.REPEAT_LAUNCH: (_AGAIN,),
    LaunchMeasure.REPEAT_LAUNCH_DEVICE: (_AGAIN,),
    LaunchMeasure.UPLOAD_CPU: ("upload_ns",),
    LaunchMeasure.UPLOAD_DEVICE: (_ANEW, _AGAIN),
}
"""What is timed of a program's own graph, and the facts by which a manifest says why it is not.
A new executable is made, launched and uploaded only after the launches of the present one."""

_OUTLASTED: Final = "every call took longer on the CPU than the kernel before it spun"
_NOT_YET: Final = "this was not yet done when it was collected"


@dataclass(frozen=True)
class Shape:
    """What a graph is like, without the bodies of its nodes. ``straight`` counts the nodes on
    straight lines of two or more, ``longest`` the longest of these; ``depth`` is the number of
    nodes on the longest path, ``width`` the most nodes at one depth."""

    nodes: int
    edges: int
    kinds: Mapping[NodeKind, int]
    roots: int
    leaves: int
    depth: int
    width: int
    straight: int
    longest: int

    @property
    def share(self) -> float:
        """The part of the nodes that lies on straight lines; a single node is one."""
        return 1.0 if self.nodes == 1 else self.straight / self.nodes if self.nodes else 0.0

    @property
    def line(self) -> bool:
        """Whether the whole graph is one straight line."""
        return self.nodes in (1, self.longest)


@dataclass(frozen=True)
class Expected:
    """What a chain takes that is as long as the graph has nodes, by a fit over toy chains.

    ``reference`` names the recording. ``ns`` is the chain's time, ``with_roots`` that time and what
    the graph's further roots cost there (None: not known, or another measure than the launch).
    ``measured`` is the graph's own time over the chain's. ``within``: whether chains of such a size
    were measured, else the fit is continued.
    """

    reference: str
    ns: float
    with_roots: float | None
    measured: float
    within: bool


@dataclass(frozen=True)
class OwnGraph:
    """One captured graph. ``shape`` is None where the capture pass failed. ``timings`` are medians
    with quartiles, of one value where it was measured once; ``absent`` says of the other measures
    why they are not there. ``expected`` by measure, or why it is not known."""

    run: str
    graph: str
    name: str
    nodes: int
    shape: Shape | None
    timings: Mapping[LaunchMeasure, Timing]
    absent: Mapping[LaunchMeasure, str]
    expected: Mapping[LaunchMeasure, Expected] | str

    @property
    def chain(self) -> Expected | None:
        """The CPU time of a repeat launch of a chain of its size; None where it is not known."""
        if isinstance(self.expected, str):
            return None
        return self.expected.get(LaunchMeasure.REPEAT_LAUNCH_CPU)

    @property
    def sentence(self) -> str:
        """What it is like and how its launch compares, in words."""
        return _sentence(self)


def shape_of(graph: CapturedGraph) -> Shape:
    """The shape of one graph, whose edges are those of a DAG."""
    count = len(graph.nodes)
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in {(edge.source, edge.target) for edge in graph.edges}:
        after[source].append(target)
        before[target].append(source)
    depths = _depths(before, after)
    follows = {
        sources[0]: node
        for node, sources in enumerate(before)
        if len(sources) == 1 and len(after[sources[0]]) == 1
    }
    runs = _runs(follows)
    return Shape(
        nodes=count,
        edges=sum(map(len, after)),
        kinds=Counter(node.kind for node in graph.nodes),
        roots=sum(not sources for sources in before),
        leaves=sum(not targets for targets in after),
        depth=max(depths, default=0),
        width=max(Counter(depths).values(), default=0),
        straight=sum(runs),
        longest=max(runs, default=min(count, 1)),
    )


def _depths(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[int]:
    """Nodes on the longest path to each node, itself included."""
    missing = [len(sources) for sources in before]
    depths = [1] * len(before)
    ready = [node for node, count in enumerate(missing) if not count]
    for node in ready:
        for target in after[node]:
            depths[target] = max(depths[target], depths[node] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    return depths


def _runs(follows: Mapping[int, int]) -> list[int]:
    """Nodes of each straight line, of two or more."""
    heads = set(follows) - set(follows.values())
    lengths = []
    for head in heads:
        length, node = 1, head
        while node in follows:
            node = follows[node]
            length += 1
        lengths.append(length)
    return lengths


def own_graphs(
    experiment: Experiment, references: Mapping[str, LaunchCosts]
) -> tuple[OwnGraph, ...]:
    """Every graph of the experiment that a clean pass launched, beside a chain of its size.

    ``references`` are recordings of launch costs by name.
    """
    found: list[OwnGraph] = []
    for run in experiment.runs:
        if run.clean is not None and run.clean.graphs:
            reference = reference_for(run.manifest.environment, references)
            found += [_own(run, life, reference) for life in run.clean.graphs]
    return tuple(found)


def reference_for(
    machine: Environment, references: Mapping[str, LaunchCosts]
) -> tuple[str, LaunchCosts] | str:
    """The newest recording of the same GPU and driver with a fit, or why there is none."""
    fitted = {
        name: costs
        for name, costs in references.items()
        if LaunchMeasure.REPEAT_LAUNCH_CPU in costs.lines
    }
    same = {
        name: costs
        for name, costs in fitted.items()
        if costs.recording.environment.gpu_name == machine.gpu_name
        and costs.recording.environment.driver == machine.driver
    }
    if same:
        return max(same.items(), key=lambda item: item[1].recording.created)
    return (
        f"no recording of launch costs of {machine.gpu_name} with driver "
        f"{machine.driver or 'unknown'}: make one with graphviz-dash bench launch"
    )


def _own(run: Run, life: GraphLife, reference: tuple[str, LaunchCosts] | str) -> OwnGraph:
    graph = next((graph for graph in run.graphs if graph.id == life.graph), None)
    shape = None if graph is None else shape_of(graph)
    timings = _timings(life)
    return OwnGraph(
        run=run.name,
        graph=life.graph,
        name=(graph.name if graph is not None else None) or life.graph,
        nodes=life.nodes,
        shape=shape,
        timings=timings,
        absent=_absent(run, life, timings),
        expected=reference
        if isinstance(reference, str)
        else _expected(life.nodes, shape, timings, *reference),
    )


def untimed(graphs: Iterable[OwnGraph]) -> list[str]:
    """What was not timed of these graphs and why, a sentence for each reason of each run."""
    missing: dict[tuple[str, str], tuple[set[LaunchMeasure], dict[str, None]]] = {}
    for own in graphs:
        for measure, reason in own.absent.items():
            measures, names = missing.setdefault((own.run, reason), (set(), {}))
            measures.add(measure)
            names[own.name] = None
    return [
        f"Not timed of {run} ({_listed(names)}): "
        f"{'; '.join(TITLES[one] for one in _OWN if one in measures)}. The reason: {reason}."
        for (run, reason), (measures, names) in missing.items()
    ]


def _listed(names: Collection[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else counted(len(names), "graph")


def _absent(
    run: Run, life: GraphLife, timings: Mapping[LaunchMeasure, Timing]
) -> dict[LaunchMeasure, str]:
    reasons = {absent.fact: absent.reason for absent in run.manifest.absent}
    found = {}
    for measure, facts in _OWN.items():
        if measure in timings:
            continue
        told = (reasons.get(f"{fact} of {life.graph}") for fact in facts)
        # Launches were timed; those that outlast the kernel that they are queued behind have no
        # time on the GPU (collectors.passes.spin_kernel).
        tried = life.repeat_launches and _AGAIN in facts
        found[measure] = next(filter(None, told), _OUTLASTED if tried else _NOT_YET)
    return found


def _timings(life: GraphLife) -> dict[LaunchMeasure, Timing]:
    one = LaunchMeasure
    series: dict[LaunchMeasure, Sequence[int | None]] = {
        one.CAPTURE: [life.capture_ns],
        one.INSTANTIATION: [life.instantiate_ns],
        one.FIRST_LAUNCH_CPU: [life.first_launch_cpu_ns],
        one.FIRST_LAUNCH: [life.first_launch_ns],
        one.FIRST_LAUNCH_DEVICE: [life.first_launch_device_ns],
        one.REPEAT_LAUNCH_CPU: [row.launch_cpu_ns for row in life.repeat_launches],
        one.REPEAT_LAUNCH: [row.wall_ns for row in life.repeat_launches],
        one.REPEAT_LAUNCH_DEVICE: life.repeat_launch_device_ns,
        one.UPLOAD_CPU: [life.upload_cpu_ns],
        one.UPLOAD_DEVICE: [life.upload_device_ns],
    }
    return {
        measure: timing
        for measure, listed in series.items()
        if (timing := Timing.of([value for value in listed if value is not None])) is not None
    }


def _expected(
    nodes: int,
    shape: Shape | None,
    timings: Mapping[LaunchMeasure, Timing],
    name: str,
    costs: LaunchCosts,
) -> dict[LaunchMeasure, Expected]:
    sizes = [row.topology.nodes for row in costs.rows if row.topology.width == 1]
    found = {}
    for measure in COMPARED:
        fit, own = costs.lines.get(measure), timings.get(measure)
        if fit is None or own is None:
            continue
        chain = fit.at(nodes)
        roots = None
        if measure is LaunchMeasure.REPEAT_LAUNCH_CPU and shape is not None and costs.root:
            roots = chain + costs.root.ns * max(0, shape.roots - 1)
        found[measure] = Expected(
            reference=name,
            ns=chain,
            with_roots=roots,
            measured=own.summary.median / chain,
            within=min(sizes) <= nodes <= max(sizes),
        )
    return found


def _sentence(own: OwnGraph) -> str:
    begin = f"{own.name} of {own.run}: {counted(own.nodes, 'node')}"
    if own.shape is not None:
        shape = own.shape
        if shape.line:
            begin += ", one straight line"
        else:
            roots = counted(shape.roots, "root")
            begin += (
                f", {format_percent(shape.share)} of them on straight lines, {roots}, at most "
                f"{format_count(shape.width)} side by side"
            )
    launch = own.timings.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    if launch is None:
        why = own.absent[LaunchMeasure.REPEAT_LAUNCH_CPU]
        return f"{begin}. Its repeat launch was not timed by itself: {why}."
    text = f"{begin}. A repeat launch takes {format_ns(launch.summary.median)} of the CPU"
    if isinstance(own.expected, str):
        return f"{text}; a chain of its size is not known: {own.expected}."
    chain = own.chain
    if chain is None:
        return f"{text}."
    beyond = "" if chain.within else ", continued beyond the sizes that were measured"
    return (
        f"{text}, {format_ratio(chain.measured)} what a straight line of as many empty kernels "
        f"takes ({format_ns(chain.ns)}{beyond})."
    )
