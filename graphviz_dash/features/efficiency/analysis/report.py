"""Distance of graphs, or of an eager step, from the limits of the GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.analysis.nodes.measured_graph import (
    MeasuredGraph,
    find_timing_replays,
    measure_graph,
)
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph, expand_graph, expand_graphs
from graphviz_dash.analysis.prediction.eager_step import build_eager_step
from graphviz_dash.analysis.replays.replay_steps import find_replay_steps
from graphviz_dash.analysis.replays.replays import ReplayMatch
from graphviz_dash.analysis.step_comparison.work_pairs import WorkPairs
from graphviz_dash.features.efficiency.analysis.advice import Advice, find_advice, merge_advice
from graphviz_dash.features.efficiency.analysis.ceilings_choice import (
    CeilingsChoice,
    choose_ceilings,
)
from graphviz_dash.features.efficiency.analysis.items import (
    WorkItem,
    list_graph_items,
    list_step_items,
)
from graphviz_dash.features.efficiency.analysis.limits import UnitLimit, compute_limits
from graphviz_dash.features.efficiency.analysis.programmatic import (
    ProgrammaticEdges,
    measure_programmatic_edges,
)
from graphviz_dash.features.efficiency.analysis.rates import Rates
from graphviz_dash.features.efficiency.analysis.rules.eager_choice import find_eager_choices
from graphviz_dash.features.efficiency.analysis.rules.search import AdviceGroup
from graphviz_dash.features.efficiency.analysis.units import group_items
from graphviz_dash.features.efficiency.analysis.work import Work
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.ceilings import Ceilings
from graphviz_dash.model.run import Run
from graphviz_dash.model.trace import Trace

NO_REPLAYS: Final = "the traced steps replay none of the captured graphs"
NO_NAME: Final = "unknown"


class GroupKey(StrEnum):
    """Property by which operator calls are grouped."""

    OPERATOR = "operator"
    MODULE = "module"
    LINE = "line"


class EfficiencyGroup(Struct, frozen=True):
    """Operator calls with a common property."""

    name: str
    """Operator, module or source line."""
    calls: int
    kernels: int
    """Kernels, copies and memsets."""
    time_ns: float
    """Time per replay or step, in ns."""
    above_ns: float
    """Time above the limit."""
    unknown_ns: float
    """Part of the time whose limit is unknown, in ns."""
    moved_bytes: float | None
    """Per replay or step; None if unknown for a call."""
    flops: float | None
    """Floating-point operations per replay or step; None if unknown for a call."""

    @property
    def bandwidth(self) -> float | None:
        """Achieved bytes per second; None if unknown."""
        if self.moved_bytes is None or not self.time_ns:
            return None
        return self.moved_bytes / self.time_ns * 1e9

    @property
    def flop_rate(self) -> float | None:
        """Achieved operations per second; None if unknown or without operations."""
        if not self.flops or not self.time_ns:
            return None
        return self.flops / self.time_ns * 1e9


class GraphPart(Struct, frozen=True):
    """One graph of a report of several; times per step, in ns."""

    graph: str
    """Id of the graph."""
    replays: float
    """Mean number of replays per step."""
    time_ns: float
    known_ns: float
    """Time of calls with a known limit."""
    near_ns: float
    """Time of calls near their limit."""
    above_ns: float
    """Time above the limits."""


class EfficiencyReport(Struct, frozen=True):
    """Times and limits of the operator calls of a graph, of several graphs, or of an eager step."""

    graph: str | None
    """Id; None for an eager step, or for several graphs."""
    items: tuple[WorkItem, ...]
    """Kernels, copies and memsets."""
    limits: tuple[UnitLimit, ...]
    """Operator calls in order."""
    choice: CeilingsChoice | Missing
    advice: tuple[Advice, ...]
    """Recommendations, largest saving first."""
    programmatic: ProgrammaticEdges | None = None
    """None for an eager step or several graphs, or if not measured."""
    graphs: tuple[GraphPart, ...] = ()
    """Graphs of a report of several, longest first. Its times are per step."""
    is_whole_trace: bool = False
    """True if the trace of several graphs has no steps, and counts as one."""

    @property
    def time_ns(self) -> float:
        """Time of all kernels, copies and memsets per replay or step."""
        return sum(limit.time_ns for limit in self.limits)

    @property
    def known_ns(self) -> float:
        """Time of calls with a known limit."""
        return sum(limit.time_ns for limit in self.limits if limit.limit_ns is not None)

    @property
    def saving_ns(self) -> float:
        """Sum of the predicted savings."""
        return sum(entry.saving_ns for entry in self.advice)

    @property
    def near_ns(self) -> float:
        """Time of calls near their limit."""
        return sum(limit.time_ns for limit in self.limits if limit.is_near_limit)

    @property
    def above_ns(self) -> float:
        """Time above the limits."""
        return sum(limit.above_ns for limit in self.limits)

    @property
    def places(self) -> dict[int, UnitLimit]:
        """Call of each item of a single graph, by place in the graph."""
        return {
            self.items[position].index: limit
            for limit in self.limits
            for position in limit.unit.items
        }

    @property
    def unit(self) -> str:
        """Unit of the times: a replay, a step, or the whole trace."""
        if self.is_whole_trace:
            return "trace"
        return "step" if self.graph is None else "replay"


def measure_graph_efficiency(
    graph: ExpandedGraph,
    choice: CeilingsChoice | Missing,
    multiprocessors: int | None = None,
    timed_graph: MeasuredGraph | Missing | None = None,
    pairs: WorkPairs | None = None,
) -> EfficiencyReport | Missing:
    """Measure a graph; Missing if no node was timed.

    ``timed_graph`` has the gaps between nodes, ``pairs`` compares its step with an eager one.
    """
    report = measure_items(
        list_graph_items(graph),
        choice,
        graph.table.graph.id,
        multiprocessors=multiprocessors,
        find_eager=None
        if pairs is None
        else lambda items, limits: tuple(find_eager_choices(items, limits, graph, pairs)),
    )
    if isinstance(report, Missing) or not isinstance(timed_graph, MeasuredGraph):
        return report
    audit = measure_programmatic_edges(graph.table.graph, timed_graph)
    return replace(report, programmatic=audit)


def measure_step_efficiency(
    trace: Trace, choice: CeilingsChoice | Missing, multiprocessors: int | None = None
) -> EfficiencyReport | Missing:
    """Analyze the typical eager step of a trace; Missing if there is none."""
    step = build_eager_step(trace)
    if isinstance(step, Missing):
        return step
    return measure_items(list_step_items(trace, step), choice, multiprocessors=multiprocessors)


def measure_run_efficiency(
    run: Run,
    graph_id: str | None = None,
    ceilings_override: Ceilings | None = None,
    pairs: WorkPairs | None = None,
) -> EfficiencyReport | Missing:
    """Analyze a graph of a run, by default all that its steps replay, or else its eager step.

    ``pairs`` compares the step with an eager one.

    Raises:
        KeyError: The run has no graph with that id.
    """
    choice = choose_ceilings(run, ceilings_override)
    gpu = run.manifest.environment.gpu
    multiprocessors = None if gpu is None else gpu.multiprocessors
    if graph_id is None and all(graph.parent is not None for graph in run.graphs):
        if run.replay_trace is None:
            return explain_missing(run, Fact.TRACED_PASS)
        return measure_step_efficiency(run.replay_trace, choice, multiprocessors)
    replays = find_timing_replays(run)
    if graph_id is None:
        graphs = partial(expand_graphs, run)
        return measure_step_graphs(run, replays, graphs, choice, pairs)
    graph = expand_graph(run, graph_id)
    timed_graph = measure_graph(graph.table.graph, run.graphs, replays)
    return measure_graph_efficiency(graph, choice, multiprocessors, timed_graph, pairs)


def measure_step_graphs(
    run: Run,
    replays: ReplayMatch | None,
    expand: Callable[[Sequence[str]], Sequence[ExpandedGraph]],
    choice: CeilingsChoice | Missing,
    pairs: WorkPairs | None = None,
) -> EfficiencyReport | Missing:
    """Analyze the graphs that the steps of a run replay; per replay if the run has only one.

    ``expand`` returns graphs by id, ``pairs`` compares the step with an eager one.
    """
    gpu = run.manifest.environment.gpu
    multiprocessors = None if gpu is None else gpu.multiprocessors
    outer = [graph.id for graph in run.graphs if graph.parent is None]
    if len(outer) == 1:
        (graph,) = expand(outer)
        timed_graph = measure_graph(graph.table.graph, run.graphs, replays)
        return measure_graph_efficiency(graph, choice, multiprocessors, timed_graph, pairs)
    if replays is None:
        return explain_missing(run, Fact.TRACED_PASS)
    steps = find_replay_steps(run, replays)
    if not steps.by_graph:
        return Missing(Fact.NODE_TIMES, NO_REPLAYS)
    means = steps.means
    reports = [
        report
        for graph in expand(list(means))
        if isinstance(
            report := measure_graph_efficiency(graph, choice, multiprocessors, pairs=pairs),
            EfficiencyReport,
        )
    ]
    if not reports:
        return Missing(Fact.NODE_TIMES, "no kernel of the graphs was timed")
    return combine_reports(reports, means, is_whole_trace=steps.is_whole_trace)


def combine_reports(
    reports: Sequence[EfficiencyReport], means: Mapping[str, float], *, is_whole_trace: bool = False
) -> EfficiencyReport:
    """Combine reports of several graphs with ``means`` replays per step."""
    items: list[WorkItem] = []
    limits: list[UnitLimit] = []
    advice: list[Advice] = []
    parts = []
    for report in reports:
        assert report.graph is not None
        mean = means[report.graph]
        times = (report.time_ns, report.known_ns, report.near_ns, report.above_ns)
        parts.append(GraphPart(report.graph, mean, *(mean * time_ns for time_ns in times)))
        advice += [entry.scale(mean, len(limits)) for entry in report.advice]
        limits += [limit.scale(mean, len(items)) for limit in report.limits]
        items += report.items
    return EfficiencyReport(
        graph=None,
        items=tuple(items),
        limits=tuple(limits),
        choice=reports[0].choice,
        advice=merge_advice(advice),
        graphs=tuple(sorted(parts, key=lambda part: -part.time_ns)),
        is_whole_trace=is_whole_trace,
    )


def measure_items(
    items: tuple[WorkItem, ...],
    choice: CeilingsChoice | Missing,
    graph: str | None = None,
    *,
    multiprocessors: int | None = None,
    find_eager: Callable[[Sequence[WorkItem], Sequence[UnitLimit]], tuple[AdviceGroup, ...]]
    | None = None,
) -> EfficiencyReport | Missing:
    """Analyze work in order of execution; Missing if none was timed.

    ``find_eager`` finds calls with faster eager kernels.
    """
    if all(item.duration_ns is None for item in items):
        return Missing(Fact.NODE_TIMES, "no kernel of the graph was timed")
    rates = None if isinstance(choice, Missing) else Rates(choice.ceilings)
    limits = compute_limits(items, group_items(items), rates)
    eager_choices = () if find_eager is None else find_eager(items, limits)
    advice = find_advice(items, limits, rates, multiprocessors, eager_choices)
    return EfficiencyReport(graph, items, limits, choice, advice)


def group_limits(report: EfficiencyReport, key: GroupKey) -> tuple[EfficiencyGroup, ...]:
    """Group the calls, most time above the limit first."""
    get_name = _GETTERS[key]
    by_name: defaultdict[str, list[UnitLimit]] = defaultdict(list)
    for limit in report.limits:
        by_name[get_name(limit, report.items) or NO_NAME].append(limit)
    groups = (
        EfficiencyGroup(
            name,
            len(limits),
            sum(len(limit.unit.items) for limit in limits),
            sum(limit.time_ns for limit in limits),
            sum(limit.above_ns for limit in limits),
            sum(limit.time_ns for limit in limits if limit.limit_ns is None),
            _sum_work(limits, lambda work: work.total_bytes),
            _sum_work(limits, lambda work: work.flops),
        )
        for name, limits in by_name.items()
    )
    return tuple(sorted(groups, key=lambda group: (-group.above_ns, -group.time_ns, group.name)))


def _sum_work(limits: Sequence[UnitLimit], get: Callable[[Work], int]) -> float | None:
    total = 0.0
    for limit in limits:
        if limit.unit.work is None:
            return None
        total += get(limit.unit.work) * limit.runs
    return total


def _get_operator(limit: UnitLimit, items: Sequence[WorkItem]) -> str | None:
    origin = items[limit.unit.items[0]].origin
    if origin is None:
        return None
    return (origin.call_operator if limit.unit.call else None) or origin.op


def _get_module(limit: UnitLimit, items: Sequence[WorkItem]) -> str | None:
    origin = items[limit.unit.items[0]].origin
    return None if origin is None else origin.module


def _get_line(limit: UnitLimit, items: Sequence[WorkItem]) -> str | None:
    origin = items[limit.unit.items[0]].origin
    return None if origin is None else origin.source


_GETTERS: Final[dict[GroupKey, Callable[[UnitLimit, Sequence[WorkItem]], str | None]]] = {
    GroupKey.OPERATOR: _get_operator,
    GroupKey.MODULE: _get_module,
    GroupKey.LINE: _get_line,
}
