from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from graphviz_dash.analysis.prediction.uncertainty import Estimate
from graphviz_dash.features.prediction.page.panel import build_idle_markup, list_prediction_tiles
from tests.analysis.predictions import line_trace, predicted


def test_the_idle_time_stands_there_by_its_causes(tmp_path: Path) -> None:
    told = build_idle_markup(predicted(line_trace(tmp_path / "marked")))
    assert '<th scope="row">launching</th>' in told
    assert "removed" in told
    assert "of a traced step" in told
    assert "of the trace" in build_idle_markup(predicted(line_trace(tmp_path / "un", marked=False)))


def test_a_range_that_is_one_number_is_not_told_as_a_range(tmp_path: Path) -> None:
    made = predicted(line_trace(tmp_path / "marked"))
    sure = replace(made, break_even=Estimate(2, 2, 2))
    assert list_prediction_tiles(sure)[-1] == ("Break-even replays", "2", "")
    unsure = replace(made, break_even=Estimate(2, 1, None))
    assert list_prediction_tiles(unsure)[-1] == ("Break-even replays", "2", "1 to never")
    idle = next(note for title, _, note in list_prediction_tiles(made) if title == "GPU idle")
    assert idle.endswith(" of the step")
