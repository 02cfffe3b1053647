from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from graphviz_dash.analysis.ranks.ranks import compare_ranks
from graphviz_dash.features.ranks.narrative import list_rank_caveats
from graphviz_dash.ingest.load import load_experiment
from tests.analysis.ranks.compared import measured
from tests.ranks import SLOW_RANK_1, make_ranks


def test_a_collective_leads_to_its_node_module_and_line(tmp_path: Path) -> None:
    found = measured(tmp_path / "tp", SLOW_RANK_1)
    origin = found.collectives[1].origin
    assert (origin.graph, origin.node) == ("graph-0", 3)
    assert origin.op == "c10d::allreduce_"
    assert origin.module == "Net.layers.1"
    assert origin.source == "parallel.py:31"
    # The builder gives every operator one input of 64 by 64.
    assert origin.bytes == 64 * 64 * 4
    assert found.collectives[1].bandwidth == 64 * 64 * 4 / 8_000 * 1e9
    eager = measured(tmp_path / "eager", SLOW_RANK_1, "eager").collectives[1].origin
    assert (eager.graph, eager.node, eager.op) == (None, None, "c10d::allreduce_")


def test_graphs_of_ranks_are_held_against_the_first(tmp_path: Path) -> None:
    make_ranks(tmp_path / "tp", "graph", SLOW_RANK_1)
    (same,) = compare_ranks(load_experiment(tmp_path / "tp"))
    assert [one.first_difference for one in same.graphs] == [None]
    make_ranks(tmp_path / "x", "graph", SLOW_RANK_1, only=[0])
    gather = replace(SLOW_RANK_1, collective="ncclDevKernel_AllGather_RING_LL(x)")
    make_ranks(tmp_path / "x", "graph", gather, only=[1])
    (other,) = compare_ranks(load_experiment(tmp_path / "x"))
    assert other.graphs[0].rank == 1
    difference = other.graphs[0].first_difference
    assert difference is not None
    assert (difference.aspect, difference.nodes and difference.nodes[1].index) == ("node", 1)
    assert "node 1 of graph-0: ncclDevKernel_AllGather" in " ".join(list_rank_caveats(other))
    assert other.reason == "the ranks' traced steps have no collective in common"
