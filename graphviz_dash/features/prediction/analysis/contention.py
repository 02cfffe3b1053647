"""Where a plan on several streams loses time because what runs together fills the GPU."""

from __future__ import annotations

from msgspec import Struct

from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction


class Contention(Struct, frozen=True):
    """A node that others slow down."""

    node: int
    """Its index in the measured graph."""
    slowed_ns: float
    """By how much."""
    share: float
    """The part of the GPU that it asks for."""
    beside: tuple[int, ...]
    """Those that run at the same time, the longest together with it first."""


_LEAST_NS = 1.0


def contentions(prediction: ParallelPrediction, most: int) -> tuple[Contention, ...]:
    """The nodes of the predicted plan that others slow down, the ``most`` slowed first."""
    schedule, operations = prediction.plan.schedule, prediction.work.operations
    slowed = [
        end - begin - operation.duration_ns
        for begin, end, operation in zip(schedule.begin, schedule.end, operations, strict=True)
    ]
    ranked = sorted(range(len(operations)), key=lambda index: -slowed[index])[:most]
    contended = []
    for index in ranked:
        if slowed[index] < _LEAST_NS:
            break
        together = {
            other: min(schedule.end[index], schedule.end[other])
            - max(schedule.begin[index], schedule.begin[other])
            for other in range(len(operations))
            if other != index and operations[other].engine == operations[index].engine
        }
        beside = sorted(
            (each for each in together if together[each] > 0), key=lambda each: -together[each]
        )
        contended.append(
            Contention(
                prediction.work.nodes[index][0],
                slowed[index],
                operations[index].share,
                tuple(prediction.work.nodes[other][0] for other in beside),
            )
        )
    return tuple(contended)
