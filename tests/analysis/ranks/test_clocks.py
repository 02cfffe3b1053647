from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.ranks.ranks import compare_ranks
from graphviz_dash.ingest.load import load_experiment
from tests.analysis.ranks.compared import measured
from tests.ranks import SLOW_RANK_1, make_ranks


def test_a_wrong_clock_is_found_by_the_ends_of_collectives(tmp_path: Path) -> None:
    found = measured(tmp_path / "tp", SLOW_RANK_1)
    first, second = found.clocks
    assert (first.offset, second.offset) == (0, -150_000)
    assert second.spread == 0
    # No collective takes less than the transfer after the last arrival, so the bound is that long.
    assert second.bound == 8_000
    assert second.samples == 12


def test_unlike_ends_widen_the_spread(tmp_path: Path) -> None:
    # Each place ends on rank 1 as much later as its own work is longer than planned.
    make_ranks(tmp_path / "tp", "graph", SLOW_RANK_1, only=[0])
    other = replace(SLOW_RANK_1, compute=((20_000, 20_000, 20_000), (20_500, 23_000, 24_500)))
    make_ranks(tmp_path / "tp", "graph", other, only=[1])
    (found,) = compare_ranks(load_experiment(tmp_path / "tp"))
    assert found.uncertainty == pytest.approx(250, abs=30)
