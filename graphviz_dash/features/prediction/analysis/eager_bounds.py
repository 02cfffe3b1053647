"""Bounds on the gain from several streams for the graph of an eager step, from its trace only.

An eager trace does not show data dependencies. The bounds need none: all work in sequence, and all
work as independent as the GPU and its launches allow. The estimate between them follows from
operator semantics: the parts of a product's backward need the incoming gradient but not each other.
Work of unknown independence keeps its order, so the estimate is conservative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.nodes.needless_edges import find_redundant_edges
from graphviz_dash.analysis.prediction.replay_model import find_item_dependencies, get_item_engines
from graphviz_dash.features.prediction.analysis.stream_prediction import (
    HALF_WIDTH,
    simulate_captured,
)
from graphviz_dash.features.prediction.analysis.work import GraphWork, NeedSource
from graphviz_dash.planning.operations import MEASURED_COSTS, Operation, compute_time_bounds
from graphviz_dash.planning.share import KernelLaunch, estimate_lasting_share
from graphviz_dash.planning.streams import plan_streams

if TYPE_CHECKING:
    from graphviz_dash.analysis.prediction.eager_step import EagerStep
    from graphviz_dash.analysis.prediction.predict import Prediction

STREAMS = (2, 4, 8)


class EagerBounds(Struct, frozen=True):
    """Bounds on the time of a step's graph on several streams, in ns."""

    streams: int
    low_ns: float
    """Time without any dependencies."""
    value_ns: float | None
    """Estimate with the known independent work in parallel; None if there is none."""
    high_ns: float
    """Upper bound of the estimate; without one, all work in sequence."""


def compute_eager_bounds(prediction: Prediction) -> tuple[EagerBounds, ...]:
    """Compute the bounds by number of streams; each is near-linear in the step's items."""
    replay, line_ns = prediction.replay, prediction.step_ns.value
    work = _build_work(prediction)
    if not work.operations:
        return ()
    # Time that occurs once, and gaps between nodes on one stream.
    once_ns = replay.fixed_ns + replay.random_ns
    sequential_ns = max(line_ns - once_ns, 0.0)
    least = compute_time_bounds(work.operations, MEASURED_COSTS)
    floor = max(least.capacity_ns, least.issue_ns, *(item.duration_ns for item in work.operations))
    has_independent_work = any(operation.dependencies for operation in work.operations)
    values = _estimate_times(work, line_ns) if has_independent_work else {}
    bounds = []
    for streams in STREAMS:
        low = min(once_ns + max(sequential_ns / streams, floor), line_ns)
        value = values.get(streams)
        if value is not None:
            value = max(value, low)
        high = line_ns if value is None else min((1 + HALF_WIDTH) * value, line_ns)
        bounds.append(EagerBounds(streams, low, value, high))
    return tuple(bounds)


def _estimate_times(work: GraphWork, line_ns: float) -> dict[int, float]:
    captured_ns = simulate_captured(work, MEASURED_COSTS).total_ns
    plans = plan_streams(work.operations, max(STREAMS), MEASURED_COSTS)
    return {
        streams: min(line_ns - captured_ns + plans[streams - 1].schedule.total_ns, line_ns)
        for streams in STREAMS
    }


def _build_work(prediction: Prediction) -> GraphWork:
    """Use the dependencies implied by operator semantics, or else none."""
    step, gpu = prediction.step, prediction.calibration.gpu
    captured = find_item_dependencies(step)
    edges = np.array(
        [(source, target) for target, sources in enumerate(captured) for source in sources],
        dtype=np.int64,
    ).reshape(-1, 2)
    needless = find_redundant_edges(edges, step.exclusive_duration, prediction.origins)
    needs: list[list[int]] = [[] for _ in captured]
    for source, target in needless.needed if needless.groups else ():
        needs[target].append(source)
    operations = []
    for index, engine in enumerate(get_item_engines(step)):
        duration, share = float(step.exclusive_duration[index]), float(engine > 0)
        if step.kind[index] == "kernel":
            launch = _get_launch(step, index)
            share = estimate_lasting_share(
                launch, duration, gpu.multiprocessors, gpu.compute_capability
            )
        operations.append(Operation(duration, share, tuple(needs[index]), engine=engine))
    return GraphWork(
        tuple(operations),
        tuple((index,) for index in range(len(operations))),
        tuple(map(tuple, captured)),
        NeedSource.MEANING,
    )


def _get_launch(step: EagerStep, index: int) -> KernelLaunch:
    return KernelLaunch(
        step.name[index],
        int(step.blocks[index]),
        int(step.threads[index]),
        int(step.registers[index]),
        int(step.shared[index]),
    )
