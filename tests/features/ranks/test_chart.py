from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.ranks.ranks import ModeRanks, compare_ranks
from graphviz_dash.analysis.ranks.shared_steps import find_shared_steps
from graphviz_dash.features.ranks.chart import (
    MAX_COLLECTIVES,
    draw_arrivals,
    draw_rank_steps,
    get_rank_colour,
    select_collectives,
)
from graphviz_dash.features.timeline.view.run import build_run_timeline, choose_step
from graphviz_dash.ingest.load import load_experiment
from tests.ranks import SLOW_RANK_1, Truth, make_ranks


def ranks_of(folder: Path, truth: Truth = SLOW_RANK_1) -> ModeRanks:
    make_ranks(folder, "graph", truth)
    (found,) = compare_ranks(load_experiment(folder))
    return found


def parts(figure: Any) -> dict[str, list[float]]:
    return {bar.name: list(bar.x) for bar in figure.data}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_bars_add_up_to_the_traced_step(tmp_path: Path, theme: Literal["light", "dark"]) -> None:
    found = ranks_of(tmp_path / "tp")
    bars = parts(draw_rank_steps(found, theme))
    assert bars["computing"] == [60.0, 68.0]
    assert bars["transferring"] == [24.0, 24.0]
    assert bars["waiting for a rank"] == [8.0, 0.0]
    for place, row in enumerate(found.ranks):
        assert row.step is not None
        assert sum(values[place] for values in bars.values()) == pytest.approx(row.step / 1e3)


def test_arrivals_are_medians_after_the_first(tmp_path: Path) -> None:
    found = ranks_of(tmp_path / "tp")
    figure = draw_arrivals(found, "light")
    assert figure is not None
    assert [list(trace.y) for trace in figure.data] == [[0, 0, 0], [0, 3, 5]]
    colours = [trace.marker.color for trace in figure.data]
    assert colours == [get_rank_colour(0, "light"), get_rank_colour(1, "light")]
    assert len({trace.marker.symbol for trace in figure.data}) == 2
    assert "Net.layers.2" in figure.data[1].hovertemplate[2]


def test_of_many_collectives_the_most_uneven_are_drawn_in_order(tmp_path: Path) -> None:
    count = MAX_COLLECTIVES + 6
    slow = tuple(1_000 + 10 * (place % 7) for place in range(count))
    found = ranks_of(tmp_path / "tp", Truth(((1_000,) * count, slow), transfer=1_000, steps=1))
    drawn = select_collectives(found)
    assert len(drawn) == MAX_COLLECTIVES
    assert [row.ordinal for row in drawn] == sorted(row.ordinal for row in drawn)
    # Six of the ten without any skew are left out.
    assert sum(row.skew.median == 0 for row in drawn) == 4


def test_a_rank_alone_has_no_arrivals(tmp_path: Path) -> None:
    make_ranks(tmp_path / "tp", "graph", only=[0])
    (found,) = compare_ranks(load_experiment(tmp_path / "tp"))
    assert draw_arrivals(found, "light") is None
    assert draw_rank_steps(found, "light") is not None
    assert draw_rank_steps(replace(found, ranks=()), "light") is None


def test_ranks_share_step_and_clock_in_the_timeline(tmp_path: Path) -> None:
    late = replace(SLOW_RANK_1, clock=(0, 77_000), begin=(0, 3_000))
    make_ranks(tmp_path / "tp", "graph", late)
    loaded = load_experiment(tmp_path / "tp")
    shared = find_shared_steps(loaded)
    chosen = [
        choose_step(build_run_timeline(run, shared[run.name]), step)
        for step in (None, 2)
        for run in loaded.runs
    ]
    steps = [one.step.index if one.step else None for one in chosen]
    assert steps == [shared["graph-rank0"].typical] * 2 + [2, 2]
    # By their own traces both begin at their origin; on one clock the second comes 3 µs later.
    assert [one.step.start - one.origin for one in chosen if one.step] == [0, 3_000] * 2
    alone = choose_step(build_run_timeline(loaded.runs[1]), 2)
    assert alone.step is not None
    assert alone.origin == alone.step.start
