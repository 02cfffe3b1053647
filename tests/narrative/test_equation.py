from __future__ import annotations

from msgspec.structs import replace

from graphviz_dash.analysis.step_comparison.waterfall import CauseTimes, Waterfall, build_waterfall
from graphviz_dash.narrative.equation import describe_rank_wait_method, describe_waterfall_method
from tests.analysis.typical_steps import eager_run, graphed_run, typical_of
from tests.samples import compared_sample


def test_waiting_for_ranks_is_explained_where_there_was_any() -> None:
    run, baseline = graphed_run(), eager_run()
    equation = build_waterfall(run, baseline, typical_of(run), typical_of(baseline), 10)
    assert isinstance(equation, Waterfall)
    assert describe_rank_wait_method(equation) == ""
    waiting = replace(equation, before=equation.before + CauseTimes(ranks=100))
    assert "among the ranks" in describe_rank_wait_method(waiting)


def test_a_difference_that_steps_under_the_profiler_do_not_show_is_said_so() -> None:
    run = compared_sample("compile-generate")["fixed-2"]
    assert isinstance(run.waterfall, Waterfall)
    assert describe_waterfall_method(run, run.waterfall).startswith(
        "In the program's loop, a step of fixed-2 takes 35.6 µs less than one of fixed-0, "
        "under the profiler 496 ns less: the trace does not explain this difference. From the "
        "traces alone"
    )
    run = compared_sample("recorded-resnet")["graphed"]
    assert isinstance(run.waterfall, Waterfall)
    assert describe_waterfall_method(run, run.waterfall).startswith("From the traces alone")
