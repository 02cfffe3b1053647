"""What the page says of a prediction."""

from __future__ import annotations

from pathlib import Path

from graphviz_dash.ui.page.prediction import idle_markup
from tests.analysis.predictions import line_trace, predicted


def test_the_idle_time_stands_there_by_its_causes(tmp_path: Path) -> None:
    told = idle_markup(predicted(line_trace(tmp_path / "marked")))
    assert '<th scope="row">launching</th>' in told
    assert "removed" in told
    assert "of a traced step" in told
    assert "of the trace" in idle_markup(predicted(line_trace(tmp_path / "un", marked=False)))
