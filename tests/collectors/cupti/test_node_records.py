from __future__ import annotations

import msgspec

from collectors.cupti.node_records import Record, build_node_id_pass
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass, NodeSignature

A = NodeSignature("kernel", "a", (1, 1, 1), (32, 1, 1), 0, 16, None)
B = NodeSignature("memset", "Memset", None, None, None, None, 4)
IDS = (GraphIds("graph-0", (5,), (0, 1)),)


def record(node: int, start: int, *, correlation: int = 8, graph: int = 5, look: NodeSignature = A):
    return Record(look, graph, (graph << 32) | node, correlation, 0, 7, start, start + 10)


def made(records: list[Record], begins: tuple[int, ...] = (100, 200)) -> NodeIdPass:
    return build_node_id_pass("a test", IDS, records, begins, dropped=3)


def test_rows_are_by_start_in_their_step_with_shared_looks() -> None:
    found = made(
        [
            record(1, 230, correlation=9, look=B),
            record(0, 110),
            record(1, 130, look=B),
            record(0, 210, correlation=9),
        ]
    )
    assert [(r.launch, r.node, r.signature, r.start_ns, r.duration_ns) for r in found.rows] == [
        (0, 0, 0, 10, 10),
        (0, 1, 1, 30, 10),
        (1, 0, 0, 110, 10),
        (1, 1, 1, 130, 10),
    ]
    assert found.launch_steps == (0, 1)
    assert found.signatures == (A, B)
    assert (found.steps, found.dropped_records, found.outside_records) == (2, 3, 0)
    assert msgspec.json.decode(msgspec.json.encode(found), type=NodeIdPass) == found


def test_work_outside_graphs_is_counted_and_not_kept_and_settling_is_neither() -> None:
    found = made([record(0, 90), record(0, 110, graph=0), record(0, 120), record(0, 220, graph=0)])
    assert [row.start_ns for row in found.rows] == [20]
    assert found.outside_records == 2


def test_launches_are_numbered_by_their_calls_not_by_who_began_first() -> None:
    found = made([record(0, 110, correlation=21, graph=6), record(0, 120, correlation=20)])
    assert [(row.graph, row.launch) for row in found.rows] == [(6, 1), (5, 0)]


def test_the_body_of_a_conditional_belongs_to_the_launch_of_its_graph() -> None:
    found = made(
        [
            record(0, 110, correlation=20),
            record(4, 120, correlation=0),
            record(0, 130, correlation=22),
            record(4, 140, correlation=0),
            # A graph that is nothing but a conditional shows no call at all.
            record(1, 150, correlation=0, graph=9),
            record(1, 210, correlation=0, graph=9),
        ]
    )
    launch = {row.start_ns + 100: row.launch for row in found.rows}
    assert launch[110] == launch[120]
    assert launch[130] == launch[140]
    assert len({launch[110], launch[130], launch[150], launch[210]}) == 4
    assert [found.launch_steps[launch[at]] for at in (110, 130, 150, 210)] == [0, 0, 0, 1]
