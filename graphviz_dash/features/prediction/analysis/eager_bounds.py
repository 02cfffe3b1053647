"""What several streams could give the graph of an eager step, from its trace alone.

An eager trace does not tell which operator needs which result. Bounds follow without that: all of
the work one after another, and all of it as independent as the GPU and its launches allow. Between
them lies what follows from the meaning of operators: the parts of a product's backward need the
incoming gradient and not each other. What is only not known to be independent keeps its order, so
that more may run side by side than is estimated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.nodes.needless_edges import needless_edges
from graphviz_dash.analysis.prediction.replay_model import item_dependencies, item_engines
from graphviz_dash.features.prediction.analysis.stream_prediction import HALF_WIDTH, as_captured
from graphviz_dash.features.prediction.analysis.work import GraphWork, NeedSource
from graphviz_dash.planning.operations import MEASURED_COSTS, Operation, least_time
from graphviz_dash.planning.share import KernelLaunch, lasting_share
from graphviz_dash.planning.streams import plan_streams

if TYPE_CHECKING:
    from graphviz_dash.analysis.prediction.eager_step import EagerStep
    from graphviz_dash.analysis.prediction.predict import Prediction

STREAMS = (2, 4, 8)
"""The numbers of streams that bounds are given for."""


class EagerBounds(Struct, frozen=True):
    """Between what the graph of a step would take on several streams, in ns."""

    streams: int
    """How many."""
    low_ns: float
    """If nothing needed anything."""
    value_ns: float | None
    """With what is known to be independent side by side; None where nothing is."""
    high_ns: float
    """As long as that may take; if nothing is known, with each piece of work behind the one
    before."""


def eager_bounds(prediction: Prediction) -> tuple[EagerBounds, ...]:
    """The bounds for the predicted graph of an eager step, by streams. Near-linear in its items,
    for each number of streams."""
    replay, line_ns = prediction.replay, prediction.step_ns.value
    work = _work(prediction)
    if not work.operations:
        return ()
    # What comes once, and what passes between nodes of one stream.
    once = replay.fixed_ns + replay.random_ns
    in_line = max(line_ns - once, 0.0)
    least = least_time(work.operations, MEASURED_COSTS)
    floor = max(least.capacity_ns, least.issue_ns, *(each.duration_ns for each in work.operations))
    known = any(operation.after for operation in work.operations)
    values = _values(work, line_ns) if known else {}
    bounds = []
    for streams in STREAMS:
        low = min(once + max(in_line / streams, floor), line_ns)
        value = values.get(streams)
        if value is not None:
            value = max(value, low)
        high = line_ns if value is None else min((1 + HALF_WIDTH) * value, line_ns)
        bounds.append(EagerBounds(streams, low, value, high))
    return tuple(bounds)


def _values(work: GraphWork, line_ns: float) -> dict[int, float]:
    """What is left of ``line_ns`` by streams."""
    captured_ns = as_captured(work, MEASURED_COSTS).total_ns
    plans = plan_streams(work.operations, max(STREAMS), MEASURED_COSTS)
    return {
        streams: min(line_ns - captured_ns + plans[streams - 1].schedule.total_ns, line_ns)
        for streams in STREAMS
    }


def _work(prediction: Prediction) -> GraphWork:
    """The items of the step, with what they need as far as their operators' meaning tells; they
    need nothing where it tells nothing."""
    step, gpu = prediction.step, prediction.calibration.gpu
    captured = item_dependencies(step)
    edges = np.array(
        [(source, target) for target, sources in enumerate(captured) for source in sources],
        dtype=np.int64,
    ).reshape(-1, 2)
    needless = needless_edges(edges, step.alone, prediction.origins)
    needs: list[list[int]] = [[] for _ in captured]
    for source, target in needless.needed if needless.groups else ():
        needs[target].append(source)
    operations = []
    for index, engine in enumerate(item_engines(step)):
        duration, share = float(step.alone[index]), float(engine > 0)
        if step.kind[index] == "kernel":
            launch = _launch(step, index)
            share = lasting_share(launch, duration, gpu.multiprocessors, gpu.compute_capability)
        operations.append(Operation(duration, share, tuple(needs[index]), engine=engine))
    return GraphWork(
        tuple(operations),
        tuple((index,) for index in range(len(operations))),
        tuple(map(tuple, captured)),
        NeedSource.MEANING,
    )


def _launch(step: EagerStep, index: int) -> KernelLaunch:
    return KernelLaunch(
        step.name[index],
        int(step.blocks[index]),
        int(step.threads[index]),
        int(step.registers[index]),
        int(step.shared[index]),
    )
