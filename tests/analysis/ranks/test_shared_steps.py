from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from graphviz_dash.analysis.ranks.ranks import compare_ranks
from graphviz_dash.analysis.ranks.shared_steps import find_shared_steps
from graphviz_dash.analysis.trace.collectives import Collective
from graphviz_dash.ingest.load import load_experiment
from tests.ranks import SLOW_RANK_1, make_ranks


def test_steps_of_ranks_lie_on_the_first_ranks_clock(tmp_path: Path) -> None:
    make_ranks(tmp_path / "tp", "eager")
    make_ranks(tmp_path / "tp", "graph", replace(SLOW_RANK_1, clock=(0, -4_000)))
    shared = find_shared_steps(load_experiment(tmp_path / "tp"))
    assert list(shared) == ["eager-rank0", "eager-rank1", "graph-rank0", "graph-rank1"]
    for mode in ("eager", "graph"):
        first, second = (shared[f"{mode}-rank{rank}"] for rank in range(2))
        assert first.first_run == second.first_run == f"{mode}-rank0"
        assert first.delta == 0
        assert first.typical == second.typical
        # In the schedule all ranks begin a step together, so on one clock nothing is between them.
        for index, begin in first.starts.items():
            assert second.starts[index] + second.delta == begin


def test_ranks_whose_clocks_cannot_be_aligned_keep_their_own(tmp_path: Path) -> None:
    make_ranks(tmp_path / "alone", "graph", only=[0])
    assert find_shared_steps(load_experiment(tmp_path / "alone")) == {}
    sends = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    make_ranks(tmp_path / "p2p", "graph", replace(SLOW_RANK_1, collective=sends))
    loaded = load_experiment(tmp_path / "p2p")
    assert find_shared_steps(loaded) == {}
    (found,) = compare_ranks(loaded)
    assert found.reason is not None
    assert "their clocks cannot be aligned" in found.reason
    assert found.kinds == {Collective.SEND_RECEIVE: 3}
    assert found.ranks[0].communication == 32_000
    assert found.ranks[0].wait is None
