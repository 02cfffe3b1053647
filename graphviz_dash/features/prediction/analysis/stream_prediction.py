"""Predicted time of a captured graph by number of streams, with only its data dependencies.

The captured graph was measured. A planner distributes its work over streams, and a simulation
compares the result with the captured graph. The difference is subtracted from the measured time,
so that model errors common to both cancel.
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
"""Maximum number of streams; more gained less than a percent on any measured step."""

_MOST_NODES: Final = 20_000
"""Maximum number of nodes; beyond it, planning would need more than a few seconds."""

_MOST_GAP_NS: Final = 3_000.0
"""Maximum gap between nodes of a graph; longer ones have other causes."""

_FIXED_NS: Final = 6_700.0
"""Time from the call to the first node, and from the end of the last to the return."""

_AS_FAST: Final = 0.01
"""Minimum relative gain from more streams."""

HALF_WIDTH: Final = 0.11
"""Half width of the interval, as a fraction of the time.

It covered nine of ten plans of the steps used to fit the costs (docs/parallel.md).
"""

_NEARLY: Final = 0.8


class Outlook(StrEnum):
    """Verdict on parallel execution, with the obstacle if it does not gain."""

    FASTER = "faster"
    CHAIN = "chain"
    """Nearly all work must run in sequence."""
    FULL = "full"
    """Each piece of concurrent work alone fills the GPU."""
    CROSSINGS = "crossings"
    """Concurrent work is shorter than the switch between streams."""


class LineBasis(StrEnum):
    """Source of the captured graph's time."""

    CLEAN = "clean"
    """Steps timed without a profiler."""
    TRACED = "traced"
    """Replays in the trace, from the first node to the last."""


class OnStreams(Struct, frozen=True):
    """Predicted time of a replay on several streams."""

    streams: int
    """Maximum number of streams."""
    step: Estimate
    """Time in ns, with an interval."""
    speedup: float
    """Time of the captured graph divided by it."""


class ParallelPrediction(Struct, frozen=True):
    """Predicted times of a graph on several streams, in ns."""

    graph: str
    line_ns: float
    """Time of the graph as captured."""
    basis: LineBasis
    work: GraphWork
    costs: StreamCosts
    """Costs between its nodes."""
    beside_ns: float
    """Measured minus simulated time of the captured graph, such as launch and return.

    Negative if the simulation is longer.
    """
    least: LeastTime
    """Lower bound for any number of streams, without launch and return."""
    rows: tuple[OnStreams, ...]
    """Predictions by number of streams, from one to the largest useful number."""
    plan: StreamPlan
    """The plan of the best prediction."""
    outlook: Outlook

    @property
    def path_ns(self) -> float:
        """Length of the longest chain, a lower bound of all predictions.

        It is shortened by the excess if the simulation is longer than the measured graph.
        """
        return self.least.path_ns + min(self.beside_ns, 0.0)

    @property
    def best(self) -> OnStreams:
        """The prediction with the fewest streams that is as fast as any."""
        return self.rows[-1]


def predict_parallel(
    run: Run,
    concurrency: Concurrency,
    tables: Mapping[str, NodeTable],
    operators: Sequence[Operator] = (),
) -> ParallelPrediction | Missing:
    """Predict a measured graph of ``run``, or explain why this is impossible.

    ``tables`` maps the graph ids of the run to node tables; ``operators`` are those observed in
    its step.
    """
    measured, gpu = concurrency.measured, run.manifest.environment.gpu
    if measured.stitched:
        return _none("the trace stitches replays together, so node times are unknown")
    if len(measured.nodes) > _MOST_NODES:
        return _none(f"it has more than {_MOST_NODES:,} nodes")
    if gpu is None:
        return _none("the bundle does not record its GPU")
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
    """Predict the root graphs of ``run``.

    ``concurrency`` maps graph ids; ``tables`` are those of all its graphs.
    """
    by_id = {table.graph.id: table for table in tables}
    return {
        graph: outcome
        if isinstance(outcome, Missing)
        else predict_parallel(run, outcome, by_id, operators)
        for graph, outcome in concurrency.items()
    }


def step_operators(run: Run, others: Iterable[Run] = ()) -> tuple[Operator, ...]:
    """Return the operators observed in the step of ``run`` or one of the ``others`` of its rank.

    Empty if none were observed.
    """
    for other in (run, *others):
        if other.parallel is not None and other.manifest.rank == run.manifest.rank:
            return other.parallel.operators
    return ()


def _none(reason: str) -> Missing:
    return Missing(Fact.PREDICTION, reason)


def _line(run: Run, measured: MeasuredGraph) -> tuple[float, LineBasis]:
    """Return the measured time of the graph.

    This is a clean step if the graph is the whole step, else a traced replay, which is slower
    due to the profiler.
    """
    is_single = sum(graph.parent is None for graph in run.graphs) == 1
    clean_ns = clean_step_ns(run) if run.mode.captures_whole_step and is_single else None
    if clean_ns is None:
        return float(measured.span_ns), LineBasis.TRACED
    return clean_ns, LineBasis.CLEAN


def _costs(measured: MeasuredGraph, device_ns: float) -> StreamCosts:
    """Return costs between nodes: measured in this graph, plus general costs of several streams."""
    gaps = max(len(measured.path.nodes) - 1, 1)
    follow = min(max((device_ns - measured.path.length) / gaps, 0.0), _MOST_GAP_NS)
    difference_ns = follow - MEASURED_COSTS.follow_ns
    return replace(
        MEASURED_COSTS, follow_ns=follow, cross_ns=MEASURED_COSTS.cross_ns + difference_ns
    )


def as_captured(work: GraphWork, costs: StreamCosts) -> Schedule:
    """Simulate the captured graph.

    A node continues the stream of a predecessor that no other node continues, else it starts a
    new one.
    """
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
    """Return the plans up to the fewest streams that are within _MIN_GAIN of the fastest.

    A plan slower than the captured graph counts as equal to it.
    """
    times = [min(plan.schedule.total_ns + beside_ns, line_ns) for plan in plans]
    needed_streams = next(
        number for number, time in enumerate(times, 1) if time <= (1 + _AS_FAST) * min(times)
    )
    bound = least.capacity_ns + max(beside_ns, 0.0)
    # Edges kept for lack of knowledge are no bound.
    if source is NeedSource.OPERATORS:
        bound = max(bound, least.path_ns + beside_ns)
    floor = min(bound, line_ns)
    rows = []
    for streams, time in enumerate(times[:needed_streams], 1):
        gained = line_ns - time
        half = HALF_WIDTH * time if gained else 0.0
        low, high = max(time - half, floor), min(time + half, line_ns)
        if source is not NeedSource.OPERATORS and streams > 1:
            low = floor
        rows.append(OnStreams(streams, Estimate(time, min(low, time), high), line_ns / time))
    return tuple(rows)


def _outlook(rows: Sequence[OnStreams], plan: StreamPlan, least: LeastTime) -> Outlook:
    if rows[-1].speedup >= SLIGHT_SPEEDUP:
        return Outlook.FASTER
    line = plan.schedule.total_ns
    if least.ns < _NEARLY * line:
        return Outlook.CROSSINGS
    return Outlook.CHAIN if least.path_ns >= least.capacity_ns else Outlook.FULL
