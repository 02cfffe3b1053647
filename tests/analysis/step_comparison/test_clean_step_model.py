from __future__ import annotations

import pytest

from graphviz_dash.analysis.step_comparison.clean_step_model import model_step
from graphviz_dash.model.run import Run
from tests.analysis.typical_steps import eager_run, graphed_run, typical_of


@pytest.mark.parametrize("run", [eager_run(), eager_run(sync=True, extra=True), graphed_run()])
def test_the_times_of_a_modelled_step_add_up_to_its_length(run: Run) -> None:
    model = model_step(typical_of(run), 5_000, 10)
    items = model.busy + model.ranks + model.waiting + model.blocked
    assert int(items.sum()) + model.cpu_tail_ns + model.return_ns == model.end_ns


def test_launches_are_as_early_as_without_the_profiler() -> None:
    """10,000 ns of traced launch CPU time become 5,000. A call is 2 ns long, and its kernel begins
    8 ns after it: those stay as they are."""
    model = model_step(typical_of(eager_run()), 5_000, 10)
    assert model.scale == 0.5
    assert model.start.tolist() == [2_002 // 2 + 8, 8_002 // 2 + 8]
    assert model.waiting.tolist() == [1_009, 4_009 - 1_509]
    assert model.busy.tolist() == [500, 300]
    assert (model.cpu_tail_ns, model.end_ns) == (5_000 - 4_309, 5_010)


def test_a_synchronising_call_blocks_until_its_work_has_ended() -> None:
    model = model_step(typical_of(eager_run(sync=True)), 5_000, 10)
    assert model.blocked.tolist()[0] == 0
    assert model.blocked.tolist()[1] > 0
