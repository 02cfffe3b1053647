"""What several streams could give the graph of an eager step, from its trace alone.

An eager trace does not tell which operator needs which result, so that only bounds follow: all of
the work one after another, and all of it as independent as the GPU and its launches allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphviz_dash.analysis.prediction.replay_model import item_engines
from graphviz_dash.planning.operations import MEASURED_COSTS, Operation, least_time
from graphviz_dash.planning.share import KernelLaunch, lasting_share

if TYPE_CHECKING:
    from graphviz_dash.analysis.prediction.eager_step import EagerStep
    from graphviz_dash.analysis.prediction.predict import Prediction

STREAMS = (2, 4, 8)
"""The numbers of streams that bounds are given for."""


@dataclass(frozen=True)
class EagerBounds:
    """Between what the graph of a step would take on ``streams`` streams, in ns: if nothing needed
    anything, and if each piece of work needed the one before."""

    streams: int
    low_ns: float
    high_ns: float


def eager_bounds(prediction: Prediction) -> tuple[EagerBounds, ...]:
    """The bounds for the predicted graph of an eager step, by streams. Linear in its items."""
    replay, high = prediction.replay, prediction.step_ns.value
    operations = _operations(prediction)
    if not operations:
        return ()
    # What comes once, and what passes between nodes of one stream.
    once = replay.fixed_ns + replay.random_ns
    in_line = max(high - once, 0.0)
    least = least_time(operations, MEASURED_COSTS)
    floor = max(least.ns, least.issue_ns)
    return tuple(
        EagerBounds(streams, min(once + max(in_line / streams, floor), high), high)
        for streams in STREAMS
    )


def _operations(prediction: Prediction) -> list[Operation]:
    step, gpu = prediction.step, prediction.calibration.gpu
    operations = []
    for index, engine in enumerate(item_engines(step)):
        duration, share = float(step.alone[index]), float(engine > 0)
        if step.kind[index] == "kernel":
            launch = _launch(step, index)
            share = lasting_share(launch, duration, gpu.multiprocessors, gpu.compute_capability)
        operations.append(Operation(duration, share, engine=engine))
    return operations


def _launch(step: EagerStep, index: int) -> KernelLaunch:
    return KernelLaunch(
        step.name[index],
        int(step.blocks[index]),
        int(step.threads[index]),
        int(step.registers[index]),
        int(step.shared[index]),
    )
