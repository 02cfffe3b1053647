"""Slowdowns in a plan on several streams from concurrent work that fills the GPU."""

from __future__ import annotations

from msgspec import Struct

from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction


class Contention(Struct, frozen=True):
    """A node slowed by concurrent nodes."""

    node: int
    """Index in the measured graph."""
    slowed_ns: float
    share: float
    """Fraction of the GPU that it needs."""
    concurrent_nodes: tuple[int, ...]
    """Concurrent nodes, longest overlap first."""


_MIN_SLOWDOWN_NS = 1.0


def find_contentions(prediction: ParallelPrediction, max_count: int) -> tuple[Contention, ...]:
    """Return the most slowed nodes of the predicted plan."""
    schedule, operations = prediction.plan.schedule, prediction.work.operations
    slowed = [
        end - begin - operation.duration_ns
        for begin, end, operation in zip(schedule.start, schedule.end, operations, strict=True)
    ]
    ranked = sorted(range(len(operations)), key=lambda index: -slowed[index])[:max_count]
    contended = []
    for index in ranked:
        if slowed[index] < _MIN_SLOWDOWN_NS:
            break
        overlaps = {
            other: min(schedule.end[index], schedule.end[other])
            - max(schedule.start[index], schedule.start[other])
            for other in range(len(operations))
            if other != index and operations[other].engine == operations[index].engine
        }
        concurrent = sorted(
            (other_index for other_index in overlaps if overlaps[other_index] > 0),
            key=lambda other_index: -overlaps[other_index],
        )
        contended.append(
            Contention(
                prediction.work.nodes[index][0],
                slowed[index],
                operations[index].share,
                tuple(prediction.work.nodes[other][0] for other in concurrent),
            )
        )
    return tuple(contended)
