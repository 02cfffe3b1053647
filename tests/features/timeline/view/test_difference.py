from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.step_comparison.time_lost import TimeLost
from graphviz_dash.features.timeline.view.difference import (
    MAX_BINS,
    RunDifference,
    build_difference,
)
from graphviz_dash.features.timeline.view.lanes import ViewFrame
from graphviz_dash.model.absence import Fact, Missing

LEAD = TimeLost(
    times=np.array([0, 200, 500]),
    other_times=np.array([0, 150, 230]),
    idle=np.array([0, 50, 250]),
    busy=np.array([0, 0, 20]),
    waiting=np.array([0, 0, 0]),
    curve=np.array([[0.0, 200.0, 500.0], [0.0, 50.0, 250.0], [0.0, 0.0, 20.0], [0.0, 0.0, 0.0]]),
    methods={"order": 2},
    unpaired_counts=(0, 1),
    work_ns=0,
)


def _frame(begin: int, stop: int, pixels: int = 1000) -> ViewFrame:
    window = (begin, stop)
    return ViewFrame(window, window, window, window, pixels, 2)


@pytest.mark.parametrize("begin", [0, 70, -30])
@pytest.mark.parametrize("window", [(-100, 900), (100, 350), (0, 7)])
def test_bins_add_up_to_what_is_lost_in_the_window(begin: int, window: tuple[int, int]) -> None:
    lane = build_difference(RunDifference("graph", LEAD, begin=begin), _frame(*window), 1)
    for values, before, place in ((lane.idle, lane.before[0], 0), (lane.busy, lane.before[1], 1)):
        low, high = (
            int(LEAD.interpolate_losses(np.array([at - begin]))[place][0]) for at in window
        )
        assert before == low
        assert before + sum(values) == high
    assert lane.total == (250, 20)
    assert lane.most == 270
    assert lane.text == "2 operations matched (2 by order); 1 only in the other run"


def test_waiting_for_other_ranks_is_a_loss_of_its_own() -> None:
    curve = np.array([*LEAD.curve[:3], [0.0, 0.0, 30.0]])
    waiting = replace(LEAD, waiting=np.array([0, 0, 30]), curve=curve)
    lane = build_difference(RunDifference("graph", waiting), _frame(300, 500), 1)
    assert (lane.waiting_before, sum(lane.waiting), lane.waiting_total) == (10, 20, 30)
    assert build_difference(RunDifference("graph", LEAD), _frame(300, 500), 1).waiting == []


def test_lanes_share_a_bounded_number_of_bins() -> None:
    for lanes in (1, 3, 7):
        lane = build_difference(RunDifference("graph", LEAD), _frame(0, 500, 4096), lanes)
        assert len(lane.idle) == len(lane.busy) <= MAX_BINS // lanes


def test_a_missing_difference_has_a_reason() -> None:
    lane = build_difference(
        RunDifference("graph", Missing(Fact.TYPICAL_STEP, "it marks no step")),
        _frame(0, 10),
        1,
    )
    assert (lane.problem, lane.idle) == ("it marks no step", [])
