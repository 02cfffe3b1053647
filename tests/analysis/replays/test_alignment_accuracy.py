from __future__ import annotations

from pathlib import Path

import msgspec

from graphviz_dash.analysis.replays.alignment_accuracy import MissCause, measure_agreement
from graphviz_dash.analysis.replays.matching import TURN_CONFIDENCE
from graphviz_dash.analysis.replays.replays import (
    BY_ORDER,
)
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass, NodeIdRow, NodeSignature
from graphviz_dash.model.run import Run
from tests.analysis.replays.layers import KERNEL, layers, node_id_pass
from tests.analysis.scenes import graph_of, kernel
from tests.bundle.examples import MANIFEST


class TestAgreement:
    def _run(self, found: NodeIdPass, graphs: tuple[CapturedGraph, ...]) -> Run:
        return Run(path=Path("run"), manifest=MANIFEST, graphs=graphs, node_ids=found)

    def test_without_a_pass_there_is_nothing_to_compare(self) -> None:
        run = Run(path=Path("run"), manifest=MANIFEST, graphs=layers())
        assert measure_agreement(run) is None

    def test_launches_in_the_order_of_captures_agree(self) -> None:
        found = measure_agreement(self._run(node_id_pass([0, 1, 2], [0, 1, 2]), layers()))
        assert found is not None
        assert (found.rows, found.agreeing, found.share) == (12, 12, 1.0)
        assert found.by_confidence == {TURN_CONFIDENCE: (12, 12)}
        assert found.by_method == {BY_ORDER: (12, 12)}
        assert (found.misses, found.unnamed, found.fork_join) == ({}, 0, False)

    def test_launches_in_another_order_are_misses_with_their_cause(self) -> None:
        found = measure_agreement(self._run(node_id_pass([1, 0, 2], [1, 0, 2]), layers()))
        assert found is not None
        assert (found.rows, found.agreeing) == (12, 4)
        assert found.by_confidence == {TURN_CONFIDENCE: (12, 4)}
        assert found.misses == {MissCause.GRAPH: 8}

    def test_parallel_branches_that_look_the_same_are_told_as_such(self) -> None:
        graph = graph_of([kernel(0), kernel(1)], [])
        rows = tuple(
            NodeIdRow(0, 10, node, 0, 0, stream, start, 5)
            for node, stream, start in ((1, 7, 0), (0, 13, 1))
        )
        ids = (GraphIds("graph-0", (10,), (0, 1)),)
        found = measure_agreement(
            self._run(NodeIdPass("t", 1, 0, 0, ids, (KERNEL,), (0,), rows), (graph,))
        )
        assert found is not None
        assert (found.rows, found.agreeing, found.fork_join) == (2, 0, True)
        assert found.by_confidence == {0.9: (2, 0)}
        assert found.misses == {MissCause.TWIN: 2}

    def test_ids_of_nodes_that_look_different_are_not_compared(self) -> None:
        other = msgspec.structs.replace(node_id_pass([0]), signatures=(NodeSignature(
            "kernel", "another", (1, 1, 1), (128, 1, 1), 16, 32, None),))  # fmt: skip
        found = measure_agreement(self._run(other, layers()))
        assert found is not None
        assert (found.rows, found.share, found.unnamed) == (0, None, 2)
