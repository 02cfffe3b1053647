from __future__ import annotations

from pathlib import Path

from tests.builders import make_experiment
from tests.ranks import make_ranks
from tests.ui.views.apptests import (
    LookIn,
    chosen,
    markup,
    shown,
)


def test_ranks_say_who_comes_last_and_why(roots: Path) -> None:
    for mode in ("eager", "graph"):
        make_ranks(roots / "tp", mode)
    page = shown("ranks", experiment="tp")
    told = markup(page)
    # The graphed mode is what one looks for.
    assert chosen(page, "mode").value == "graph"
    assert "both ranks take 110 µs per step" in told
    assert (
        "rank 1 arrives last at 66.7% of the collectives and costs 8.00 µs per traced step" in told
    )
    assert "its preceding GPU work takes longer (+8.00 µs)" in told
    assert "largest at number 3 of 3, by 5.00 µs" in told
    assert "captured graphs of all ranks have the same" in told
    assert len(page.get("plotly_chart")) == 2
    table = page.dataframe[0].value
    assert list(table["Skew (µs)"]) == [0.0, 3.0, 5.0]
    assert list(table["Node"]) == [1, 3, 5]
    assert list(table["Module"]) == [f"Net.layers.{place}" for place in range(3)]
    assert "eager: both ranks" in markup(shown("ranks", experiment="tp", mode="eager"))


def test_ranks_of_one_process_say_how_to_record_them(roots: Path) -> None:
    make_experiment(roots / "toy")
    assert "torchrun --nproc-per-node 2 -m collectors" in markup(shown("ranks", experiment="toy"))


def test_programs_of_one_rank_each_are_no_ranks(look_in: LookIn) -> None:
    look_in(Path("sample_traces"))
    told = markup(shown("ranks", experiment="recorded-megatron"))
    assert "Each run of recorded-megatron has one process" in told


def test_a_rank_without_the_others_says_so(roots: Path) -> None:
    make_ranks(roots / "tp", "graph", only=[1])
    told = markup(shown("ranks", experiment="tp"))
    assert "skew not available: only one of several ranks is" in told
    assert "No run of rank 0 is available" in told


def test_the_doctor_says_that_it_examines_no_ranks(roots: Path) -> None:
    make_ranks(roots / "tp", "graph")
    told = markup(shown("doctor", experiment="tp"))
    assert "The doctor did not examine the 2 ranks" in told
    assert "All captures succeeded" not in told
    assert "It examines one process only" in told
