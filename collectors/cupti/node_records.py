"""Convert CUPTI records to bundle rows with step, launch and kernel attributes."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from graphviz_dash.model.node_ids import GraphIds, NodeIdPass, NodeIdRow, NodeSignature

_LOW_BITS = 0xFFFF_FFFF


class Record(NamedTuple):
    """One CUPTI activity record."""

    look: NodeSignature
    """Its attributes besides times and ids."""
    graph: int
    """Id of the executable graph, or 0 for work outside graphs."""
    node: int
    """Node id, with the graph's id in the upper half."""
    correlation: int
    """Id shared by all work of one launch."""
    device: int
    stream: int
    start: int
    """ns on CUPTI's clock, like the end."""
    end: int


def build_node_id_pass(
    source: str,
    graphs: tuple[GraphIds, ...],
    records: list[Record],
    step_starts: tuple[int, ...],
    dropped: int,
) -> NodeIdPass:
    """Build the pass as stored in a bundle.

    ``records`` may be in any order and include those before the first step. Steps end synchronized.
    ``dropped`` is the number of lost records.
    """
    inside = sorted((record for record in records if record.start >= step_starts[0]), key=_sort_key)
    in_graphs = [record for record in inside if record.graph]
    steps = [bisect_right(step_starts, record.start) - 1 for record in in_graphs]
    launch_steps, numbers = _number_launches(in_graphs, steps)
    looks: dict[NodeSignature, int] = {}
    rows = tuple(
        NodeIdRow(
            launch=launch,
            graph=record.graph,
            node=record.node & _LOW_BITS,
            signature=looks.setdefault(record.look, len(looks)),
            device=record.device,
            stream=record.stream,
            start_ns=record.start - step_starts[0],
            duration_ns=record.end - record.start,
        )
        for record, launch in zip(in_graphs, numbers, strict=True)
    )
    return NodeIdPass(
        source=source,
        steps=len(step_starts),
        dropped_records=dropped,
        outside_records=len(inside) - len(in_graphs),
        graphs=graphs,
        signatures=tuple(looks),
        launch_steps=launch_steps,
        rows=rows,
    )


def _number_launches(
    graph_records: list[Record], steps: list[int]
) -> tuple[tuple[int, ...], list[int]]:
    """Return the step of each graph launch, in call order, and the launch of each record.

    Records of a launch share its correlation id. Records in conditional bodies have none and belong
    to the latest launch of their graph in the step.
    """
    keys: list[tuple[int, int, int]] = []
    latest: dict[tuple[int, int], int] = {}
    for record, step in zip(graph_records, steps, strict=True):
        if record.correlation:
            latest[step, record.graph] = record.correlation
        keys.append((step, latest.get((step, record.graph), 0), record.graph))
    launches = sorted(set(keys))
    number = {key: number for number, key in enumerate(launches)}
    return tuple(step for step, _, _ in launches), [number[key] for key in keys]


def _sort_key(record: Record) -> tuple[int, int]:
    return (record.start, record.end)
