"""What a captured graph would take with only the dependencies that its data needs, by streams.

The captured graph was measured; a planner lays the same work onto streams, and a simulation says by
how much that is shorter than the simulation of the graph as it was captured. The difference is
taken off the measured time, so that what the model does not know of both cancels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.metrics.run_metrics import clean_step_ns
from graphviz_dash.analysis.metrics.thresholds import SLIGHT_SPEEDUP
from graphviz_dash.analysis.prediction.uncertainty import Estimate
from graphviz_dash.features.prediction.analysis.work import (
    GraphWork,
    NeedSource,
    graph_work,
    operator_work,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.planning.operations import (
    MEASURED_COSTS,
    LeastTime,
    StreamCosts,
    least_time,
)
from graphviz_dash.planning.simulation import Schedule, Wait, simulate
from graphviz_dash.planning.streams import StreamPlan, plan_streams

if TYPE_CHECKING:
    from graphviz_dash.analysis.nodes.concurrency import Concurrency
    from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
    from graphviz_dash.analysis.nodes.node_table import NodeTable
    from graphviz_dash.model.parallel import Operator
    from graphviz_dash.model.run import Run

MOST_STREAMS: Final = 8
"""Streams that are looked at: more gave less than a percent on any step that was measured."""

_MOST_NODES: Final = 20_000
"""Nodes beyond which planning would take more than some seconds."""

_MOST_GAP_NS: Final = 3_000.0
"""No more than that passes between nodes of a graph; what is left is something else."""

_FIXED_NS: Final = 6_700.0
"""From the call to the first node, and from the end of the last to the return."""

_AS_FAST: Final = 0.01
"""Streams that bring less than that part of the time are not taken."""

HALF_WIDTH: Final = 0.11
"""Of the interval, as a part of the time: nine of ten plans of the steps that the costs were fitted
to were within it (evaluation/reports/2026-11-24-parallel.md)."""

_NEARLY: Final = 0.8


class Outlook(StrEnum):
    """Whether running in parallel would gain, and if not why."""

    FASTER = "faster"
    CHAIN = "chain"
    """The work needs to be done one after another, nearly all of it."""
    FULL = "full"
    """What could run together fills the GPU by itself."""
    CROSSINGS = "crossings"
    """What could run together is shorter than the way from one stream to another."""


class LineBasis(StrEnum):
    """What the captured graph's time is of."""

    CLEAN = "clean"
    """Steps timed with no profiler attached."""
    TRACED = "traced"
    """Replays in the trace, from the first node to the last."""


class OnStreams(Struct, frozen=True):
    """What a replay on some streams would take."""

    streams: int
    """How many are used at most."""
    step: Estimate
    """Its time in ns, with an interval."""
    speedup: float
    """The captured graph's time over it."""


class ParallelPrediction(Struct, frozen=True):
    """What a graph would take on several streams; times in ns."""

    graph: str
    """Id of the graph."""
    line_ns: float
    """What the graph takes as it was captured."""
    basis: LineBasis
    """What that is of."""
    work: GraphWork
    """What it does."""
    costs: StreamCosts
    """What passes between its nodes."""
    beside_ns: float
    """What it takes beside what the simulation of it as captured does, such as launch and return;
    below 0 where the simulation takes longer."""
    least: LeastTime
    """What no number of streams can undercut, without launch and return."""
    rows: tuple[OnStreams, ...]
    """By the number of streams, from one to the most that bring something."""
    plan: StreamPlan
    """The plan of the best of these."""
    outlook: Outlook
    """Whether that gains, and if not why."""

    @property
    def path_ns(self) -> float:
        """The longest chain, in ns, where the simulation takes longer than the graph as much
        shorter: no prediction undercuts it."""
        return self.least.path_ns + min(self.beside_ns, 0.0)

    @property
    def best(self) -> OnStreams:
        """The fewest streams that are as fast as any."""
        return self.rows[-1]


def predict_parallel(
    run: Run,
    concurrency: Concurrency,
    tables: Mapping[str, NodeTable],
    operators: Sequence[Operator] = (),
) -> ParallelPrediction | Missing:
    """The prediction for a measured graph of ``run``, or why there is none. ``tables`` are those of
    its graphs by id; ``operators`` are those of its step, where they were observed."""
    measured, gpu = concurrency.measured, run.manifest.environment.gpu
    if measured.stitched:
        return _none("the trace stitches replays together: it does not tell what nodes take")
    if len(measured.nodes) > _MOST_NODES:
        return _none(f"it has more than {_MOST_NODES:,} nodes")
    if gpu is None:
        return _none("the bundle does not say what GPU it ran on")
    work = operator_work(operators, measured, tables, gpu) if operators else None
    if work is None:
        work = graph_work(concurrency, tables, gpu)
    line_ns, basis = _line(run, measured)
    costs = _costs(measured, line_ns - (_FIXED_NS if basis is LineBasis.CLEAN else 0.0))
    plans = plan_streams(work.operations, MOST_STREAMS, costs)
    beside_ns = line_ns - as_captured(work, costs).total_ns
    least = least_time(work.operations, costs)
    rows = _rows(plans, line_ns, beside_ns, least, work.source)
    plan = plans[rows[-1].streams - 1]
    return ParallelPrediction(
        graph=measured.graph,
        line_ns=line_ns,
        basis=basis,
        work=work,
        costs=costs,
        beside_ns=beside_ns,
        least=least,
        rows=rows,
        plan=plan,
        outlook=_outlook(rows, plan, least),
    )


def run_parallel(
    run: Run,
    concurrency: Mapping[str, Concurrency | Missing],
    tables: Sequence[NodeTable],
    operators: Sequence[Operator] = (),
) -> dict[str, ParallelPrediction | Missing]:
    """The predictions for the graphs of ``run`` that are launched by themselves, whose
    ``concurrency`` is given by id; ``tables`` are those of all its graphs."""
    by_id = {table.graph.id: table for table in tables}
    return {
        graph: outcome
        if isinstance(outcome, Missing)
        else predict_parallel(run, outcome, by_id, operators)
        for graph, outcome in concurrency.items()
    }


def step_operators(run: Run, others: Iterable[Run] = ()) -> tuple[Operator, ...]:
    """The operators of the step of ``run``, as it or one of the ``others`` of its rank had them
    observed; empty where none had."""
    for other in (run, *others):
        if other.parallel is not None and other.manifest.rank == run.manifest.rank:
            return other.parallel.operators
    return ()


def _none(reason: str) -> Missing:
    return Missing(Fact.PREDICTION, reason)


def _line(run: Run, measured: MeasuredGraph) -> tuple[float, LineBasis]:
    """What the graph takes: a clean step where the graph is the whole step, else a traced replay,
    which the profiler lengthens."""
    alone = sum(graph.parent is None for graph in run.graphs) == 1
    clean = clean_step_ns(run) if run.mode.captures_whole_step and alone else None
    if clean is None:
        return float(measured.span_ns), LineBasis.TRACED
    return clean, LineBasis.CLEAN


def _costs(measured: MeasuredGraph, device_ns: float) -> StreamCosts:
    """What passes between nodes: in this graph as it was measured, and what several streams add as
    measured elsewhere."""
    gaps = max(len(measured.path.nodes) - 1, 1)
    follow = min(max((device_ns - measured.path.length) / gaps, 0.0), _MOST_GAP_NS)
    more = follow - MEASURED_COSTS.follow_ns
    return replace(MEASURED_COSTS, follow_ns=follow, cross_ns=MEASURED_COSTS.cross_ns + more)


def as_captured(work: GraphWork, costs: StreamCosts) -> Schedule:
    """The simulation of the graph as it was captured: a node goes on the stream of one that it
    waits for and that no other goes on, else on a new one."""
    stream: list[int] = []
    tail: list[int] = []
    for index, sources in enumerate(work.captured):
        lane = next((stream[source] for source in sources if tail[stream[source]] == source), -1)
        if lane < 0:
            lane = len(tail)
            tail.append(index)
        tail[lane] = index
        stream.append(lane)
    waits: list[list[Wait]] = [
        [
            (source, costs.follow_ns if stream[source] == stream[index] else costs.cross_ns)
            for source in sources
        ]
        for index, sources in enumerate(work.captured)
    ]
    issue_ns = costs.issue_ns if len(tail) > 1 else 0.0
    return simulate(work.operations, waits, issue_ns, costs.crowding, costs.start_ns)


def _rows(
    plans: Sequence[StreamPlan],
    line_ns: float,
    beside_ns: float,
    least: LeastTime,
    source: NeedSource,
) -> tuple[OnStreams, ...]:
    """The plans up to the fewest streams that are as fast as any, but for _AS_FAST. A plan slower
    than the graph as captured is not taken: that one is then as good."""
    times = [min(plan.schedule.total_ns + beside_ns, line_ns) for plan in plans]
    enough = next(
        number for number, time in enumerate(times, 1) if time <= (1 + _AS_FAST) * min(times)
    )
    bound = least.capacity_ns + max(beside_ns, 0.0)
    # What is kept for want of knowledge bounds nothing.
    if source is NeedSource.OPERATORS:
        bound = max(bound, least.path_ns + beside_ns)
    floor = min(bound, line_ns)
    rows = []
    for streams, time in enumerate(times[:enough], 1):
        gained = line_ns - time
        half = HALF_WIDTH * time if gained else 0.0
        low, high = max(time - half, floor), min(time + half, line_ns)
        if source is not NeedSource.OPERATORS and streams > 1:
            low = floor
        rows.append(OnStreams(streams, Estimate(time, min(low, time), high), line_ns / time))
    return tuple(rows)


def _outlook(rows: Sequence[OnStreams], plan: StreamPlan, least: LeastTime) -> Outlook:
    """Whether the best of ``rows`` gains, and if not what is in the way."""
    if rows[-1].speedup >= SLIGHT_SPEEDUP:
        return Outlook.FASTER
    line = plan.schedule.total_ns
    if least.ns < _NEARLY * line:
        return Outlook.CROSSINGS
    return Outlook.CHAIN if least.path_ns >= least.capacity_ns else Outlook.FULL
