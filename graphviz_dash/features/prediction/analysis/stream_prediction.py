"""Predicted time of a captured graph by number of streams, with only its data dependencies.

A planner distributes the measured work over streams, and a simulation compares the result with the
captured graph. The difference is subtracted from the measured time, so that model errors common to
both cancel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.metrics.run_metrics import compute_clean_step_ns
from graphviz_dash.analysis.metrics.thresholds import SLIGHT_SPEEDUP
from graphviz_dash.analysis.nodes.concurrency import Concurrency
from graphviz_dash.analysis.nodes.measured_graph import MeasuredGraph
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.prediction.uncertainty import Estimate
from graphviz_dash.features.prediction.analysis.work import (
    GraphWork,
    NeedSource,
    build_graph_work,
    build_operator_work,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.parallel import Operator
from graphviz_dash.model.run import Run
from graphviz_dash.planning.operations import (
    MEASURED_COSTS,
    StreamCosts,
    TimeBounds,
    compute_time_bounds,
)
from graphviz_dash.planning.simulation import Schedule, Wait, simulate
from graphviz_dash.planning.streams import StreamPlan, plan_streams

MAX_STREAMS: Final = 8
"""More streams gained less than a percent on any measured step."""

_MAX_NODES: Final = 20_000
"""Planning more would need more than a few seconds."""

_MAX_GAP_NS: Final = 3_000.0
"""Between nodes of a graph; longer gaps have other causes."""

_FIXED_NS: Final = 6_700.0
"""Time from the call to the first node, and from the end of the last to the return."""

_MIN_GAIN: Final = 0.01
"""Minimum relative gain from more streams."""

HALF_WIDTH: Final = 0.11
"""Half width of the interval, as a fraction of the time.

It covered nine of ten plans of the steps used to fit the costs
(evaluation/reports/2026-11-24-parallel.md).
"""

_CROSSINGS_SHARE: Final = 0.8


class ParallelVerdict(StrEnum):
    """Verdict on parallel execution, with the obstacle if it does not gain."""

    FASTER = "faster"
    CHAIN = "chain"
    """Nearly all work must run in sequence."""
    FULL = "full"
    """Each piece of concurrent work alone fills the GPU."""
    CROSSINGS = "crossings"
    """Concurrent work is shorter than the switch between streams."""


class BaselineBasis(StrEnum):
    """Source of the captured graph's time."""

    CLEAN = "clean"
    """Steps timed without a profiler."""
    TRACED = "traced"
    """Replays in the trace, from the first node to the last."""


class StreamPrediction(Struct, frozen=True):
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
    captured_ns: float
    basis: BaselineBasis
    work: GraphWork
    costs: StreamCosts
    unmodelled_ns: float
    """Measured minus simulated time of the captured graph, such as launch and return.

    Negative if the simulation is longer.
    """
    lower_bound: TimeBounds
    """For any number of streams, without launch and return."""
    rows: tuple[StreamPrediction, ...]
    """From one stream to the largest useful number."""
    plan: StreamPlan
    """Plan of the best prediction."""
    verdict: ParallelVerdict

    @property
    def path_ns(self) -> float:
        """Length of the longest chain, a lower bound of all predictions.

        Shortened by the excess if the simulation is longer than the measured graph.
        """
        return self.lower_bound.path_ns + min(self.unmodelled_ns, 0.0)

    @property
    def best(self) -> StreamPrediction:
        """Prediction with the fewest streams that is as fast as any."""
        return self.rows[-1]


def predict_parallel(
    run: Run,
    concurrency: Concurrency,
    tables: Mapping[str, NodeTable],
    operators: Sequence[Operator] = (),
) -> ParallelPrediction | Missing:
    """Predict a measured graph of ``run``, or explain why this is impossible.

    ``tables`` maps graph ids to node tables; ``operators`` were observed in its step.
    """
    measured, gpu = concurrency.measured, run.manifest.environment.gpu
    if measured.is_stitched:
        return _make_missing("the trace stitches replays together, so node times are unknown")
    if concurrency.loops is not None:
        return _make_missing("the trace shows only the last iteration of its While nodes")
    if len(measured.nodes) > _MAX_NODES:
        return _make_missing(f"it has more than {_MAX_NODES:,} nodes")
    if gpu is None:
        return _make_missing("the bundle does not record its GPU")
    work = build_operator_work(operators, measured, tables, gpu) if operators else None
    if work is None:
        work = build_graph_work(concurrency, tables, gpu)
    line_ns, basis = _measure_baseline(run, measured)
    costs = _estimate_costs(
        measured, line_ns - (_FIXED_NS if basis is BaselineBasis.CLEAN else 0.0)
    )
    plans = plan_streams(work.operations, MAX_STREAMS, costs)
    overlapped_ns = line_ns - simulate_captured(work, costs).total_ns
    least = compute_time_bounds(work.operations, costs)
    rows = _build_rows(plans, line_ns, overlapped_ns, least, work.source)
    plan = plans[rows[-1].streams - 1]
    return ParallelPrediction(
        graph=measured.graph,
        captured_ns=line_ns,
        basis=basis,
        work=work,
        costs=costs,
        unmodelled_ns=overlapped_ns,
        lower_bound=least,
        rows=rows,
        plan=plan,
        verdict=_determine_verdict(rows, plan, least),
    )


def predict_run_parallel(
    run: Run,
    concurrency: Mapping[str, Concurrency | Missing],
    tables: Sequence[NodeTable],
    operators: Sequence[Operator] = (),
) -> dict[str, ParallelPrediction | Missing]:
    """Predict the root graphs of ``run``; ``tables`` are those of all its graphs."""
    by_id = {table.graph.id: table for table in tables}
    return {
        graph: outcome
        if isinstance(outcome, Missing)
        else predict_parallel(run, outcome, by_id, operators)
        for graph, outcome in concurrency.items()
    }


def find_step_operators(run: Run, others: Iterable[Run] = ()) -> tuple[Operator, ...]:
    """Return the operators observed in the step of ``run``, or of ``others`` of its rank."""
    for other in (run, *others):
        if other.parallel is not None and other.manifest.rank == run.manifest.rank:
            return other.parallel.operators
    return ()


def _make_missing(reason: str) -> Missing:
    return Missing(Fact.PREDICTION, reason)


def _measure_baseline(run: Run, measured: MeasuredGraph) -> tuple[float, BaselineBasis]:
    """Use a clean step if the graph is the whole step, else a traced replay, which is slower due to
    the profiler."""
    is_single = sum(graph.parent is None for graph in run.graphs) == 1
    clean_ns = compute_clean_step_ns(run) if run.mode.captures_entire_step and is_single else None
    if clean_ns is None:
        return float(measured.span_ns), BaselineBasis.TRACED
    return clean_ns, BaselineBasis.CLEAN


def _estimate_costs(measured: MeasuredGraph, device_ns: float) -> StreamCosts:
    """Combine costs in this graph with general costs of several streams."""
    gaps = max(len(measured.path.nodes) - 1, 1)
    follow = min(max((device_ns - measured.path.length) / gaps, 0.0), _MAX_GAP_NS)
    difference_ns = follow - MEASURED_COSTS.same_stream_gap_ns
    return replace(
        MEASURED_COSTS,
        same_stream_gap_ns=follow,
        cross_stream_gap_ns=MEASURED_COSTS.cross_stream_gap_ns + difference_ns,
    )


def simulate_captured(work: GraphWork, costs: StreamCosts) -> Schedule:
    """Simulate the captured graph.

    A node continues the stream of a predecessor that no other node continues, else it starts a new
    one.
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
            (
                source,
                costs.same_stream_gap_ns
                if stream[source] == stream[index]
                else costs.cross_stream_gap_ns,
            )
            for source in sources
        ]
        for index, sources in enumerate(work.captured)
    ]
    issue_ns = costs.issue_ns if len(tail) > 1 else 0.0
    return simulate(work.operations, waits, issue_ns, costs.contention, costs.start_ns)


def _build_rows(
    plans: Sequence[StreamPlan],
    line_ns: float,
    overlapped_ns: float,
    lower_bound: TimeBounds,
    source: NeedSource,
) -> tuple[StreamPrediction, ...]:
    """Return the plans up to the fewest streams that are within _MIN_GAIN of the fastest.

    A plan slower than the captured graph counts as equal to it.
    """
    times = [min(plan.schedule.total_ns + overlapped_ns, line_ns) for plan in plans]
    needed_streams = next(
        number for number, time in enumerate(times, 1) if time <= (1 + _MIN_GAIN) * min(times)
    )
    bound = lower_bound.capacity_ns + max(overlapped_ns, 0.0)
    # Edges kept for lack of knowledge are no bound.
    if source is NeedSource.OPERATORS:
        bound = max(bound, lower_bound.path_ns + overlapped_ns)
    floor = min(bound, line_ns)
    rows = []
    for streams, time in enumerate(times[:needed_streams], 1):
        gained = line_ns - time
        half = HALF_WIDTH * time if gained else 0.0
        low, high = max(time - half, floor), min(time + half, line_ns)
        if source is not NeedSource.OPERATORS and streams > 1:
            low = floor
        rows.append(StreamPrediction(streams, Estimate(time, min(low, time), high), line_ns / time))
    return tuple(rows)


def _determine_verdict(
    rows: Sequence[StreamPrediction], plan: StreamPlan, lower_bound: TimeBounds
) -> ParallelVerdict:
    if rows[-1].speedup >= SLIGHT_SPEEDUP:
        return ParallelVerdict.FASTER
    line = plan.schedule.total_ns
    if lower_bound.lower_bound_ns < _CROSSINGS_SHARE * line:
        return ParallelVerdict.CROSSINGS
    return (
        ParallelVerdict.CHAIN
        if lower_bound.path_ns >= lower_bound.capacity_ns
        else ParallelVerdict.FULL
    )
