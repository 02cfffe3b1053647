"""Graphs of a program compared with synthetic chains: shape, lifecycle, equivalent chain.

An edge is *straight* if its source has no other successor and its target no other predecessor;
straight edges form linear chains. *Width* is the largest number of nodes at one depth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.absence import find_recorded_reason
from graphviz_dash.analysis.graph.critical_path import Dependencies
from graphviz_dash.analysis.graph.topology import list_chains
from graphviz_dash.features.launch.analysis.launch_costs import LaunchCosts, Timing
from graphviz_dash.features.launch.analysis.launch_verdict import LaunchVerdict, judge_launch
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.graph import CapturedGraph, NodeKind
from graphviz_dash.model.launch import LaunchMeasure
from graphviz_dash.model.run import Environment, Experiment, Run
from graphviz_dash.model.timings import GraphLifecycle

COMPARED_MEASURES: Final = (
    LaunchMeasure.INSTANTIATION,
    LaunchMeasure.FIRST_LAUNCH_CPU,
    LaunchMeasure.REPEAT_LAUNCH_CPU,
    LaunchMeasure.REPEAT_LAUNCH,
)
"""Measures that are compared with a chain of the same size."""

_FACTS_BY_MEASURE: Final[Mapping[LaunchMeasure, Sequence[Fact]]] = {
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
"""Facts that explain the absence of each measure."""

_SLOWER_THAN_SPIN_KERNEL: Final = "each call took longer on the CPU than the spin kernel before it"
_NOT_MEASURED: Final = "the collecting version did not measure this"


class GraphShape(Struct, frozen=True):
    """Shape of a graph without the bodies of its nodes."""

    nodes: int
    edges: int
    """Number of edges, without duplicates."""
    kinds: Mapping[NodeKind, int]
    roots: int
    """Nodes without a predecessor."""
    leaves: int
    """Nodes without a successor."""
    depth: int
    """Nodes on the longest path."""
    width: int
    """Largest number of nodes at one depth."""
    chained_nodes: int
    """Nodes on linear chains of two or more."""
    longest_chain: int
    """Nodes of the longest linear chain."""

    @property
    def chained_share(self) -> float:
        """Share of nodes on linear chains; a single node counts as a chain."""
        return 1.0 if self.nodes == 1 else self.chained_nodes / self.nodes if self.nodes else 0.0

    @property
    def is_line(self) -> bool:
        """True if the graph is one linear chain."""
        return self.nodes in (1, self.longest_chain)


class ChainTime(Struct, frozen=True):
    """Fitted time of a synthetic chain with as many nodes as the graph."""

    reference: str
    """Name of the recording."""
    ns: float
    """Time of the chain."""
    with_roots: float | None
    """Plus the graph's additional roots, in ns.

    None if unknown, or for measures other than the launch.
    """
    ratio: float
    """Ratio of the graph's time to the chain's."""
    is_in_range: bool
    """The size is within the measured range; otherwise the fit is extrapolated."""


class ProgramGraph(Struct, frozen=True):
    """One captured graph of a run."""

    run: str
    graph: str
    name: str
    """The id if it has no name."""
    nodes: int
    """Number of nodes, without those of bodies."""
    shape: GraphShape | None
    """None if the capture pass failed."""
    timings: Mapping[LaunchMeasure, Timing]
    """Medians with quartiles; a single value if measured once."""
    absent: Mapping[LaunchMeasure, str]
    """Reason for each missing measure."""
    chain_times: Mapping[LaunchMeasure, ChainTime] | Missing
    """Times of a chain of the same size."""
    verdict: LaunchVerdict | Missing
    """Verdict on its repeat launch time."""

    @property
    def chain(self) -> ChainTime | None:
        """CPU time of a repeat launch of a chain of the same size; None if unknown."""
        if isinstance(self.chain_times, Missing):
            return None
        return self.chain_times.get(LaunchMeasure.REPEAT_LAUNCH_CPU)


def compute_shape(graph: CapturedGraph) -> GraphShape:
    """Compute the shape of an acyclic graph."""
    count = len(graph.nodes)
    edges = sorted({(edge.source, edge.target) for edge in graph.edges})
    dependencies = Dependencies.from_edges(count, np.array(edges, dtype=np.int64).reshape(-1, 2))
    # Number of nodes on the longest path to each node, including itself.
    depths = [1] * count
    for node in dependencies.order:
        for target in dependencies.successors[node]:
            depths[target] = max(depths[target], depths[node] + 1)
    chains = [len(nodes) for nodes in list_chains(edges)]
    return GraphShape(
        nodes=count,
        edges=len(edges),
        kinds=Counter(node.kind for node in graph.nodes),
        roots=sum(not sources for sources in dependencies.predecessors),
        leaves=sum(not targets for targets in dependencies.successors),
        depth=max(depths, default=0),
        width=max(Counter(depths).values(), default=0),
        chained_nodes=sum(chains),
        longest_chain=max(chains, default=min(count, 1)),
    )


def list_program_graphs(
    experiment: Experiment, references: Mapping[str, LaunchCosts]
) -> tuple[ProgramGraph, ...]:
    """List graphs launched in a clean pass, compared with a chain of their size.

    ``references`` are launch cost recordings by name.
    """
    graphs: list[ProgramGraph] = []
    for run in experiment.runs:
        if run.clean is not None and run.clean.graphs:
            reference = find_reference(run.manifest.environment, references)
            graphs += [
                _build_program_graph(run, lifecycle, reference) for lifecycle in run.clean.graphs
            ]
    return tuple(graphs)


class Reference(NamedTuple):
    """Launch cost recording used for comparison."""

    name: str
    costs: LaunchCosts


def find_reference(
    machine: Environment, references: Mapping[str, LaunchCosts]
) -> Reference | Missing:
    """Find the newest recording of the same GPU and driver with a fit."""
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
        f"no launch cost recording for {machine.gpu_name} with driver "
        f"{machine.driver or 'unknown'}: create one with graphviz-dash bench launch"
    )
    return Missing(Fact.LAUNCH_COSTS, reason)


def _build_program_graph(
    run: Run, lifecycle: GraphLifecycle, reference: Reference | Missing
) -> ProgramGraph:
    graph = next((graph for graph in run.graphs if graph.id == lifecycle.graph), None)
    shape = None if graph is None else compute_shape(graph)
    timings = _build_timings(lifecycle)
    return ProgramGraph(
        run=run.name,
        graph=lifecycle.graph,
        name=(graph.name if graph is not None else None) or lifecycle.graph,
        nodes=lifecycle.nodes,
        shape=shape,
        timings=timings,
        absent=_explain_missing(run, lifecycle, timings),
        chain_times=reference
        if isinstance(reference, Missing)
        else _compute_chain_times(lifecycle.nodes, shape, timings, reference),
        verdict=_judge_graph(run, lifecycle, shape, timings, reference),
    )


def _judge_graph(
    run: Run,
    lifecycle: GraphLifecycle,
    shape: GraphShape | None,
    timings: Mapping[LaunchMeasure, Timing],
    reference: Reference | Missing,
) -> LaunchVerdict | Missing:
    launch = timings.get(LaunchMeasure.REPEAT_LAUNCH_CPU)
    if launch is None:
        reason = _explain_missing(run, lifecycle, timings)[LaunchMeasure.REPEAT_LAUNCH_CPU]
        return Missing(Fact.REPEAT_LAUNCHES, reason)
    if shape is None:
        return Missing(Fact.GRAPHS, "the nodes of the graph were not read")
    if isinstance(reference, Missing):
        return reference
    return judge_launch(shape.kinds, shape.roots, launch, *reference)


def _explain_missing(
    run: Run, lifecycle: GraphLifecycle, timings: Mapping[LaunchMeasure, Timing]
) -> dict[LaunchMeasure, str]:
    missing = {}
    for measure, facts in _FACTS_BY_MEASURE.items():
        if measure in timings:
            continue
        recorded = (find_recorded_reason(run, fact, lifecycle.graph) for fact in facts)
        # Launches were timed, but launches that outlast the spin kernel in front of them have no
        # GPU time (collectors.passes.spin_kernel).
        was_timed = lifecycle.repeat_launches and Fact.REPEAT_LAUNCHES in facts
        missing[measure] = next(
            filter(None, recorded), _SLOWER_THAN_SPIN_KERNEL if was_timed else _NOT_MEASURED
        )
    return missing


def _build_timings(lifecycle: GraphLifecycle) -> dict[LaunchMeasure, Timing]:
    series: dict[LaunchMeasure, Sequence[int | None]] = {
        LaunchMeasure.CAPTURE: [lifecycle.capture_ns],
        LaunchMeasure.INSTANTIATION: [lifecycle.instantiate_ns],
        LaunchMeasure.FIRST_LAUNCH_CPU: [lifecycle.first_launch_cpu_ns],
        LaunchMeasure.FIRST_LAUNCH: [lifecycle.first_launch_ns],
        LaunchMeasure.FIRST_LAUNCH_DEVICE: [lifecycle.first_launch_device_ns],
        LaunchMeasure.REPEAT_LAUNCH_CPU: [row.launch_cpu_ns for row in lifecycle.repeat_launches],
        LaunchMeasure.REPEAT_LAUNCH: [row.wall_ns for row in lifecycle.repeat_launches],
        LaunchMeasure.REPEAT_LAUNCH_DEVICE: lifecycle.repeat_launch_device_ns,
        LaunchMeasure.UPLOAD_CPU: [lifecycle.upload_cpu_ns],
        LaunchMeasure.UPLOAD_DEVICE: [lifecycle.upload_device_ns],
    }
    return {
        measure: timing
        for measure, listed in series.items()
        if (timing := Timing.from_values([value for value in listed if value is not None]))
        is not None
    }


def _compute_chain_times(
    nodes: int,
    shape: GraphShape | None,
    timings: Mapping[LaunchMeasure, Timing],
    reference: Reference,
) -> dict[LaunchMeasure, ChainTime]:
    costs = reference.costs
    sizes = [row.topology.nodes for row in costs.rows if row.topology.width == 1]
    expected = {}
    for measure in COMPARED_MEASURES:
        fit, timing = costs.lines.get(measure), timings.get(measure)
        if fit is None or timing is None:
            continue
        chain = fit.evaluate(nodes)
        with_roots = None
        if measure is LaunchMeasure.REPEAT_LAUNCH_CPU and shape is not None and costs.root:
            with_roots = chain + costs.root.ns * max(0, shape.roots - 1)
        expected[measure] = ChainTime(
            reference=reference.name,
            ns=chain,
            with_roots=with_roots,
            ratio=timing.summary.median / chain,
            is_in_range=min(sizes) <= nodes <= max(sizes),
        )
    return expected
