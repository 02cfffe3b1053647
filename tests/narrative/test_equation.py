"""What is said of how an equation was made."""

from __future__ import annotations

from dataclasses import replace

from graphviz_dash.analysis.step.waterfall import CauseTimes, Waterfall, waterfall
from graphviz_dash.narrative.equation import ranks_method
from tests.analysis.typical_steps import eager_run, graphed_run, typical_of


def test_waiting_for_ranks_is_explained_where_there_was_any() -> None:
    run, baseline = graphed_run(), eager_run()
    equation = waterfall(run, baseline, typical_of(run), typical_of(baseline), 10)
    assert isinstance(equation, Waterfall)
    assert ranks_method(equation) == ""
    waiting = replace(equation, before=equation.before + CauseTimes(ranks=100))
    assert "among the ranks" in ranks_method(waiting)
