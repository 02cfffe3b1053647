"""What analysis makes of an opened experiment, built once and shared by the pages and routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from graphviz_dash.analysis.comparison.compare import compare
from graphviz_dash.analysis.comparison.memory import MemoryComparison, compare_memory
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.diff.creation_order import OrderEffect, order_effects
from graphviz_dash.analysis.diff.graph_pair import GraphPair, check_device_launch, pair_graphs
from graphviz_dash.analysis.diff.graph_union import GraphUnion, unite
from graphviz_dash.analysis.graph.device_launch import DeviceLaunch
from graphviz_dash.analysis.launch.observer_effect import ObserverEffect, observer_effect
from graphviz_dash.analysis.metrics.kernel_table import KernelTable, kernel_table
from graphviz_dash.analysis.metrics.run_metrics import clean_step_ns, traced_slowdown
from graphviz_dash.analysis.nodes.concurrency import Concurrency, concurrency_of
from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph, measure_graph
from graphviz_dash.analysis.nodes.node_table import NodeTable, build_node_table
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph, assemble
from graphviz_dash.analysis.origins.attribution import Attribution, attribute
from graphviz_dash.analysis.ranks.ranks import ModeRanks, rank_comparison
from graphviz_dash.analysis.replays.replays import (
    ReplayMatch,
    known_of,
    match_replays,
    timed_replays,
)
from graphviz_dash.analysis.step.eager_change import EagerNode, eager_changes
from graphviz_dash.analysis.step.typical_step import StepWork, step_work
from graphviz_dash.analysis.step.work_pairs import WorkPairs, pair_work
from graphviz_dash.analysis.trace.steps import Step, steps
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Experiment
from graphviz_dash.ui.state.store import COMPARISON, STORE, UnknownKeyError

GraphAddress: TypeAlias = tuple[str, str, str]
"""Where a graph is: key of its experiment, name of its run, its id."""


def comparison(key: str) -> Comparison:
    """The comparison of the experiment's runs against its default baseline."""
    return STORE.derived(
        key,
        COMPARISON,
        lambda experiment: compare(
            experiment,
            replays={run.name: replays(key, run.name) for run in experiment.runs},
            taken=_all_steps(key, experiment),
        ),
    )


def outcome(key: str) -> Comparison:
    """The comparison as far as it is known without the traces."""
    return STORE.derived_bare(key, COMPARISON, compare)


def memory(key: str) -> MemoryComparison:
    """The memory of the experiment's runs against the same baseline."""
    return STORE.derived(key, "memory", lambda _: compare_memory(comparison(key)))


def creation_orders(key: str) -> tuple[OrderEffect, ...]:
    """The runs whose graphs differ in the order of creation only."""
    return STORE.derived(key, "creation-orders", order_effects)


def traced_slowdowns(key: str) -> dict[str, float]:
    """Traced over clean step time of each run that has both."""
    return STORE.derived(
        key,
        "traced slowdowns",
        lambda experiment: {
            run.name: effect
            for run in experiment.runs
            if (effect := traced_slowdown(run, traced_steps(key, run.name))) is not None
        },
    )


def clean_times(key: str) -> dict[str, float]:
    """The median clean step time, in ns, of each run that has one."""
    return STORE.derived(
        key,
        "clean times",
        lambda experiment: {
            run.name: time for run in experiment.runs if (time := clean_step_ns(run)) is not None
        },
    )


def traced_steps(key: str, run_name: str) -> tuple[Step, ...]:
    """The steps of a run's trace; none for a run without one."""
    trace = STORE.run(key, run_name).replay_trace
    if trace is None:
        return ()
    return STORE.derived(key, ("steps", run_name), lambda _: steps(trace))


def _all_steps(key: str, experiment: Experiment) -> dict[str, tuple[Step, ...]]:
    return {run.name: traced_steps(key, run.name) for run in experiment.runs}


def observer_effects(key: str) -> dict[str, ObserverEffect | Missing]:
    """What watching costs each run of the experiment, or why that is not known."""
    return STORE.derived(
        key,
        "observers",
        lambda experiment: {run.name: observer_effect(run) for run in experiment.runs},
    )


def kernels(key: str) -> KernelTable:
    """The kernels of the runs side by side."""
    baseline = comparison(key).baseline
    return STORE.derived(
        key,
        "kernels",
        lambda experiment: kernel_table(experiment, baseline, _all_steps(key, experiment)),
    )


def ranks(key: str) -> tuple[ModeRanks, ...]:
    """The ranks of each mode; empty for an experiment without ranks."""
    return STORE.derived(key, "ranks", rank_comparison)


def replays(key: str, run_name: str) -> ReplayMatch | None:
    """The matched replays of a run; None for one without graphs or without a trace."""
    run = STORE.run(key, run_name)
    trace = run.replay_trace
    if trace is None or not run.graphs:
        return None
    return STORE.derived(
        key, ("replays", run_name), lambda _: match_replays(run.graphs, trace, known_of(run))
    )


def replays_known(key: str, run_name: str) -> bool:
    """Whether ``replays`` would answer at once."""
    run = STORE.run(key, run_name)
    return not run.graphs or run.replay_trace is None or STORE.has(key, ("replays", run_name))


def work_pairs(key: str, first: str, second: str) -> WorkPairs | str:
    """The work of two runs' typical steps, paired, or why it cannot be."""
    compared = {one.name: one for one in comparison(key).runs}
    found = compared[second].waterfall if second in compared else None
    if found is not None and found.baseline == first:
        return found.pairs
    works = [_step_work(key, name) for name in (first, second)]
    for name, work in zip((first, second), works, strict=True):
        if isinstance(work, str):
            return f"{name}: {work}"
    before, after = (work for work in works if isinstance(work, StepWork))
    return STORE.derived(key, ("pairs", first, second), lambda _: pair_work(before, after))


def _step_work(key: str, run_name: str) -> StepWork | str:
    """The work of a run's typical step; the comparison has that of most runs."""
    for one in comparison(key).runs:
        if one.waterfall is not None and run_name in (one.name, one.waterfall.baseline):
            pairs = one.waterfall.pairs
            return pairs.after if run_name == one.name else pairs.before
    run = STORE.run(key, run_name)
    return STORE.derived(
        key,
        ("work", run_name),
        lambda _: step_work(run, None, replays(key, run_name), traced_steps(key, run_name)),
    )


def node_replays(key: str, run_name: str) -> ReplayMatch | None:
    """The replays that times of nodes are taken from, of the traced pass or of the node-id pass."""
    run = STORE.run(key, run_name)
    traced = replays(key, run_name)
    if not run.graphs:
        return None
    return STORE.derived(key, ("timed", run_name), lambda _: timed_replays(run, traced))


def nodes(key: str, run_name: str, graph_id: str) -> NodeTable:
    """The node table of one graph (UnknownKeyError: no such run or graph)."""
    graphs, origins = STORE.run(key, run_name).graphs, _origins(key, run_name, graph_id)
    graph = next(graph for graph in graphs if graph.id == graph_id)
    matched = node_replays(key, run_name)
    return STORE.derived(
        key,
        ("nodes", run_name, graph_id),
        lambda _: build_node_table(graph, origins, matched, graphs),
    )


def _origins(key: str, run_name: str, graph_id: str) -> Attribution:
    run = STORE.run(key, run_name)
    graph = next((graph for graph in run.graphs if graph.id == graph_id), None)
    if graph is None:
        raise UnknownKeyError(graph_id)
    return STORE.derived(
        key, ("origins", run_name, graph_id), lambda _: attribute(graph, run.capture_trace)
    )


def whole_without_times(key: str, run_name: str, graph_id: str) -> WholeGraph:
    """A graph with all that it holds, as it is known without looking at its replays
    (UnknownKeyError: no such run or graph)."""
    graphs = STORE.run(key, run_name).graphs
    _origins(key, run_name, graph_id)
    by_id = {graph.id: graph for graph in graphs}
    return STORE.derived(
        key,
        ("whole without times", run_name, graph_id),
        lambda _: assemble(
            graph_id,
            graphs,
            lambda one: build_node_table(by_id[one], _origins(key, run_name, one), None, graphs),
        ),
    )


def measured(key: str, run_name: str, graph_id: str) -> MeasuredGraph | str:
    """A graph over the traced replays, or why it cannot be (UnknownKeyError: no such graph)."""
    run = STORE.run(key, run_name)
    graph = nodes(key, run_name, graph_id).graph
    matched = node_replays(key, run_name)
    return STORE.derived(
        key, ("measured", run_name, graph_id), lambda _: measure_graph(graph, run.graphs, matched)
    )


def concurrency(key: str, run_name: str, graph_id: str) -> Concurrency | str:
    """What the measured graph's concurrency comes to, or why that is not known."""
    found = measured(key, run_name, graph_id)
    if isinstance(found, str):
        return found
    run = STORE.run(key, run_name)
    return STORE.derived(
        key,
        ("concurrency", run_name, graph_id),
        lambda _: concurrency_of(
            found, {graph.id: nodes(key, run_name, graph.id) for graph in run.graphs}
        ),
    )


def whole(key: str, run_name: str, graph_id: str) -> WholeGraph:
    """A graph with all that it holds (UnknownKeyError: no such run or graph)."""
    run = STORE.run(key, run_name)
    # Asked first, so that an unknown graph is refused.
    nodes(key, run_name, graph_id)
    return STORE.derived(
        key,
        ("whole", run_name, graph_id),
        lambda _: assemble(graph_id, run.graphs, lambda one: nodes(key, run_name, one)),
    )


def eager_nodes(key: str, run_name: str, graph_id: str) -> Mapping[int, EagerNode]:
    """What the nodes of a graph are to the baseline's eager step, by place; none where the steps
    cannot be paired (UnknownKeyError: no such run or graph)."""
    found = whole(key, run_name, graph_id)
    equation = comparison(key)[run_name].waterfall
    if equation is None:
        return {}
    pairs = equation.pairs
    return STORE.derived(key, ("eager", run_name, graph_id), lambda _: eager_changes(pairs, found))


def device_launch(key: str, run_name: str, graph_id: str) -> DeviceLaunch:
    """Whether a graph could be launched from the device (UnknownKeyError: no such run or graph)."""
    run = STORE.run(key, run_name)
    nodes(key, run_name, graph_id)
    return STORE.derived(
        key, ("device-launch", run_name, graph_id), lambda _: check_device_launch(run, graph_id)
    )


def graph_pair(of: GraphAddress, against: GraphAddress) -> GraphPair:
    """The graph ``of`` compared with ``against``, which is the earlier one (UnknownKeyError: one of
    them is not there)."""
    for one in (of, against):
        nodes(*one)
    return STORE.derived(
        of[0],
        ("pair", of, against),
        lambda _: pair_graphs(
            STORE.run(against[0], against[1]), against[2], STORE.run(of[0], of[1]), of[2]
        ),
    )


def graph_union(of: GraphAddress, against: GraphAddress) -> GraphUnion:
    """Both graphs as one (UnknownKeyError: one of them is not there)."""
    pair = graph_pair(of, against)
    first, second = nodes(*against), nodes(*of)
    return STORE.derived(of[0], ("union", of, against), lambda _: unite(pair.diff, first, second))
