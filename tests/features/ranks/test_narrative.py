from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.ranks.ranks import compare_ranks
from graphviz_dash.features.ranks.narrative import describe_ranks, has_balanced_ranks
from tests.analysis.ranks.compared import measured
from tests.ranks import SLOW_RANK_1, Truth
from tests.samples import compared_sample


def test_delays_within_noise_are_balanced() -> None:
    eager, graph = compare_ranks(compared_sample("tp-transformer").experiment)
    assert not has_balanced_ranks(eager)
    assert "rank 1 arrives last at 100% of the collectives" in describe_ranks(eager)
    assert has_balanced_ranks(graph)
    assert describe_ranks(graph) == (
        "graph: both ranks take 1.31 ms per step; balanced: no rank delays the others by more than "
        "3.00 µs per traced step (clock error ±481 ns per collective)"
    )


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        (SLOW_RANK_1, "its preceding GPU work takes longer (+8.00 µs)"),
        (
            Truth(((9_000, 9_000), (9_000, 9_000)), idle=((0, 0), (0, 4_000))),
            "its GPU is idle for longer beforehand (+4.00 µs)",
        ),
        (
            Truth(((9_000, 9_000), (11_000, 11_000)), idle=((0, 0), (2_000, 2_000))),
            # Of eight collectives the trace's first has none before it to count from.
            "both its preceding work and idle time are longer (+3.50 µs of work, +3.50 µs of idle)",
        ),
        (Truth(((9_000, 9_000), (9_000, 9_000))), "reach every collective at the same time"),
        (
            Truth(((9_000, 11_500), (11_000, 9_000))),
            "no rank is consistently late: total delays are 4.50 µs per traced step",
        ),
        (
            Truth(((10_000,), (13_000,), (11_000,))),
            "is 3.00 µs later than the first rank and 2.00 µs later than the second-to-last, per "
            "traced step: ",
        ),
    ],
)
def test_the_sentence_names_the_cause(tmp_path: Path, truth: Truth, words: str) -> None:
    assert words in describe_ranks(measured(tmp_path / "tp", truth))
