"""From CUPTI's records of a pass to the rows of a bundle: which step, which launch, which look."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from graphviz_dash.model.node_ids import GraphIds, NodeIdPass, NodeIdRow, NodeLook

_LOW = 0xFFFF_FFFF


class Record(NamedTuple):
    """One activity record of CUPTI."""

    look: NodeLook
    """What it shows besides times and ids."""
    graph: int
    """The id of the executable graph that ran the work; 0 for work that no graph ran."""
    node: int
    """The id of the node, with the graph's id in its upper half."""
    correlation: int
    """Shared by all work of one launch."""
    device: int
    """The device's ordinal."""
    stream: int
    """The stream's number."""
    start: int
    """In ns of CUPTI's clock."""
    end: int
    """In ns of CUPTI's clock."""


def node_id_pass(
    source: str,
    graphs: tuple[GraphIds, ...],
    records: list[Record],
    begins: tuple[int, ...],
    dropped: int,
) -> NodeIdPass:
    """The pass as a bundle holds it.

    Args:
        source: who gave the records.
        graphs: the ids of the graphs in this process.
        records: in any order, those before the first step included.
        begins: when each step began; a step ends synchronised, before the next begins.
        dropped: records that were lost.
    """
    inside = sorted((record for record in records if record.start >= begins[0]), key=_time)
    ran = [record for record in inside if record.graph]
    steps = [bisect_right(begins, record.start) - 1 for record in ran]
    launch_steps, numbers = _launches(ran, steps)
    looks: dict[NodeLook, int] = {}
    rows = tuple(
        NodeIdRow(
            launch=launch,
            graph=record.graph,
            node=record.node & _LOW,
            look=looks.setdefault(record.look, len(looks)),
            device=record.device,
            stream=record.stream,
            start_ns=record.start - begins[0],
            duration_ns=record.end - record.start,
        )
        for record, launch in zip(ran, numbers, strict=True)
    )
    return NodeIdPass(
        source=source,
        steps=len(begins),
        dropped=dropped,
        outside=len(inside) - len(ran),
        graphs=graphs,
        looks=tuple(looks),
        launch_steps=launch_steps,
        rows=rows,
    )


def _launches(ran: list[Record], steps: list[int]) -> tuple[tuple[int, ...], list[int]]:
    """The step of each graph launch, by the order of the calls, and the launch of each record.

    All records of a launch share its correlation, which counts up with each call, but for those in
    the bodies of conditional nodes, which have none: they belong to the latest launch of their
    graph in the step.
    """
    keys: list[tuple[int, int, int]] = []
    latest: dict[tuple[int, int], int] = {}
    for record, step in zip(ran, steps, strict=True):
        if record.correlation:
            latest[step, record.graph] = record.correlation
        keys.append((step, latest.get((step, record.graph), 0), record.graph))
    launches = sorted(set(keys))
    number = {key: number for number, key in enumerate(launches)}
    return tuple(step for step, _, _ in launches), [number[key] for key in keys]


def _time(record: Record) -> tuple[int, int]:
    return (record.start, record.end)
