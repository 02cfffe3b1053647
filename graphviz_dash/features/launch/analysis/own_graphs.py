"""A program's own graph beside synthetic chains: its shape, its life, a chain of its size.

Terms: an edge is *straight* when its source has no other successor and its target no other
predecessor; nodes on paths of such edges lie on a linear chain, of which NVIDIA's driver launches
the kernels in constant time. *Width* is the most nodes at one depth, the depth of a node being the
number of nodes on the longest path to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from graphviz_dash.analysis.absence import recorded_reason
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts, Timing
from graphviz_dash.features.launch.analysis.launch_verdict import LaunchVerdict, launch_verdict
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.graph import CapturedGraph, NodeKind
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.model.run import Environment, Experiment, Run
from graphviz_dash.model.timings import GraphLife

COMPARED: Final = (
    LaunchMeasure.INSTANTIATION,
    LaunchMeasure.FIRST_LAUNCH_CPU,
    LaunchMeasure.REPEAT_LAUNCH_CPU,
    LaunchMeasure.REPEAT_LAUNCH,
)
"""The measures that a chain of the same size is fitted for."""

_OWN: Final[Mapping[LaunchMeasure, Sequence[Fact]]] = {
    LaunchMeasure.CAPTURE: (),
    LaunchMeasure.INSTANTIATION: (),
    LaunchMeasure.FIRST_LAUNCH_CPU: (),
    LaunchMeasure.FIRST_LAUNCH: (),
    LaunchMeasure.FIRST_LAUNCH_DEVICE: (Fact.FIRST_LAUNCH_ON_GPU, Fact.REPEAT_LAUNCHES),
    LaunchMeasure.REPEAT_LAUNCH_CPU: (Fact.REPEAT_LAUNCHES,),
    LaunchMeasure.REPEAT_LAUNCH: (Fact.REPEAT_LAUNCHES,),
    LaunchMeasure.REPEAT_LAUNCH_DEVICE: (Fact.REPEAT_LAUNCHES,),
    LaunchMeasure.UPLOAD_CPU: (Fact.UPLOAD,),
    LaunchMeasure.UPLOAD_DEVICE: (Fact.FIRST_LAUNCH_ON_GPU, Fact.REPEAT_LAUNCHES),
}
"""What is timed of a program's own graph, and the facts by which a manifest says why it is not.
A new executable is made, launched and uploaded only after the launches of the present one."""

_OUTLASTED: Final = "every call took longer on the CPU than the kernel before it spun"
_NOT_YET: Final = "this was not yet done when it was collected"


class GraphShape(Struct, frozen=True):
    """What a graph is like, without the bodies of its nodes."""

    nodes: int
    """All nodes."""
    edges: int
    """Edges, of which two between the same nodes count once."""
    kinds: Mapping[NodeKind, int]
    """Nodes of each kind."""
    roots: int
    """Nodes without a predecessor."""
    leaves: int
    """Nodes without a successor."""
    depth: int
    """Nodes on the longest path."""
    width: int
    """The most nodes at one depth."""
    straight: int
    """Nodes on linear chains of two or more."""
    longest: int
    """Nodes of the longest linear chain."""

    @property
    def share(self) -> float:
        """The part of the nodes that lies on linear chains; a single node is one."""
        return 1.0 if self.nodes == 1 else self.straight / self.nodes if self.nodes else 0.0

    @property
    def line(self) -> bool:
        """Whether the whole graph is one linear chain."""
        return self.nodes in (1, self.longest)


class ChainTime(Struct, frozen=True):
    """What a chain takes that is as long as the graph has nodes, by a fit over synthetic chains."""

    reference: str
    """Name of the recording."""
    ns: float
    """The chain's time, in ns."""
    with_roots: float | None
    """That time and what the graph's further roots cost there, in ns; None where that is not known,
    or for another measure than the launch."""
    measured: float
    """The graph's own time over the chain's."""
    within: bool
    """Whether chains of such a size were measured; else the fit is continued."""


class OwnGraph(Struct, frozen=True):
    """One captured graph of a run."""

    run: str
    """Name of the run."""
    graph: str
    """Id of the graph."""
    name: str
    """Its name; its id where it has none."""
    nodes: int
    """Its nodes, without those of bodies."""
    shape: GraphShape | None
    """None where the capture pass failed."""
    timings: Mapping[LaunchMeasure, Timing]
    """Medians with quartiles, of one value where it was measured once."""
    absent: Mapping[LaunchMeasure, str]
    """Why each other measure was not timed."""
    expected: Mapping[LaunchMeasure, ChainTime] | Missing
    """What a chain of its size takes, by measure."""
    verdict: LaunchVerdict | Missing
    """Whether its repeat launch takes what it should."""

    @property
    def chain(self) -> ChainTime | None:
        """The CPU time of a repeat launch of a chain of its size; None where it is not known."""
        if isinstance(self.expected, Missing):
            return None
        return self.expected.get(LaunchMeasure.REPEAT_LAUNCH_CPU)


def shape_of(graph: CapturedGraph) -> GraphShape:
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
    return GraphShape(
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
    """Nodes of each linear chain, of two or more."""
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
    graphs: list[OwnGraph] = []
    for run in experiment.runs:
        if run.clean is not None and run.clean.graphs:
            reference = reference_for(run.manifest.environment, references)
            graphs += [_own(run, life, reference) for life in run.clean.graphs]
    return tuple(graphs)


class Reference(NamedTuple):
    """A recording of launch costs that a graph is compared with."""

    name: str
    costs: LaunchCosts


def reference_for(
    machine: Environment, references: Mapping[str, LaunchCosts]
) -> Reference | Missing:
    """The newest recording of the same GPU and driver with a fit."""
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
        newest = max(same, key=lambda name: same[name].recording.created)
        return Reference(newest, same[newest])
    reason = (
        f"no recording of launch costs of {machine.gpu_name} with driver "
        f"{machine.driver or 'unknown'}: make one with graphviz-dash bench launch"
    )
    return Missing(Fact.LAUNCH_COSTS, reason)


def _own(run: Run, life: GraphLife, reference: Reference | Missing) -> OwnGraph:
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
        if isinstance(reference, Missing)
        else _expected(life.nodes, shape, timings, reference),
        verdict=_verdict(run, life, shape, timings, reference),
    )


def _verdict(
    run: Run,
    life: GraphLife,
    shape: GraphShape | None,
    timings: Mapping[LaunchMeasure, Timing],
    reference: Reference | Missing,
) -> LaunchVerdict | Missing:
    launch = timings.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    if launch is None:
        why = _absent(run, life, timings)[LaunchMeasure.REPEAT_LAUNCH_CPU]
        return Missing(Fact.REPEAT_LAUNCHES, why)
    if shape is None:
        return Missing(Fact.GRAPHS, "its nodes were not read")
    if isinstance(reference, Missing):
        return reference
    return launch_verdict(shape.kinds, shape.roots, launch, *reference)


def _absent(
    run: Run, life: GraphLife, timings: Mapping[LaunchMeasure, Timing]
) -> dict[LaunchMeasure, str]:
    missing = {}
    for measure, facts in _OWN.items():
        if measure in timings:
            continue
        recorded = (recorded_reason(run, fact, life.graph) for fact in facts)
        # Launches were timed; those that outlast the kernel that they are queued behind have no
        # time on the GPU (collectors.passes.spin_kernel).
        tried = life.repeat_launches and Fact.REPEAT_LAUNCHES in facts
        missing[measure] = next(filter(None, recorded), _OUTLASTED if tried else _NOT_YET)
    return missing


def _timings(life: GraphLife) -> dict[LaunchMeasure, Timing]:
    series: dict[LaunchMeasure, Sequence[int | None]] = {
        LaunchMeasure.CAPTURE: [life.capture_ns],
        LaunchMeasure.INSTANTIATION: [life.instantiate_ns],
        LaunchMeasure.FIRST_LAUNCH_CPU: [life.first_launch_cpu_ns],
        LaunchMeasure.FIRST_LAUNCH: [life.first_launch_ns],
        LaunchMeasure.FIRST_LAUNCH_DEVICE: [life.first_launch_device_ns],
        LaunchMeasure.REPEAT_LAUNCH_CPU: [row.launch_cpu_ns for row in life.repeat_launches],
        LaunchMeasure.REPEAT_LAUNCH: [row.wall_ns for row in life.repeat_launches],
        LaunchMeasure.REPEAT_LAUNCH_DEVICE: life.repeat_launch_device_ns,
        LaunchMeasure.UPLOAD_CPU: [life.upload_cpu_ns],
        LaunchMeasure.UPLOAD_DEVICE: [life.upload_device_ns],
    }
    return {
        measure: timing
        for measure, listed in series.items()
        if (timing := Timing.of([value for value in listed if value is not None])) is not None
    }


def _expected(
    nodes: int,
    shape: GraphShape | None,
    timings: Mapping[LaunchMeasure, Timing],
    reference: Reference,
) -> dict[LaunchMeasure, ChainTime]:
    costs = reference.costs
    sizes = [row.topology.nodes for row in costs.rows if row.topology.width == 1]
    expected = {}
    for measure in COMPARED:
        fit, own = costs.lines.get(measure), timings.get(measure)
        if fit is None or own is None:
            continue
        chain = fit.at(nodes)
        roots = None
        if measure is LaunchMeasure.REPEAT_LAUNCH_CPU and shape is not None and costs.root:
            roots = chain + costs.root.ns * max(0, shape.roots - 1)
        expected[measure] = ChainTime(
            reference=reference.name,
            ns=chain,
            with_roots=roots,
            measured=own.summary.median / chain,
            within=min(sizes) <= nodes <= max(sizes),
        )
    return expected
