from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.break_even import FIRST_LAUNCH_PART, BreakEven
from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.comparison.verdict import Outcome
from graphviz_dash.app.compare.charts.comparison import draw_break_even
from graphviz_dash.app.overview.experiment_card import build_card
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.narrative.answer import build_run_answer, format_answer
from graphviz_dash.narrative.break_even import format_break_even
from tests.experiments import LIFE_NS, make_experiment, make_run

SAMPLES = Path(__file__).parents[3] / "sample_traces"


def compared(folder: Path) -> Comparison:
    return compare_runs(load_experiment(folder))


def break_even_of(result: Comparison, name: str) -> BreakEven:
    found = result[name].break_even
    assert isinstance(found, BreakEven), found
    return found


@pytest.fixture
def toy(tmp_path: Path) -> Comparison:
    return compared(make_experiment(tmp_path / "toy", ("eager", "graph", "callables", "compile")))


class TestCost:
    def test_the_parts_add_up_to_the_one_off_cost(self, toy: Comparison) -> None:
        graph = break_even_of(toy, "graph")
        assert dict(graph.parts) == {
            "capture": LIFE_NS["capture"],
            "instantiation": LIFE_NS["instantiate"],
            "first launch beyond a step": 100_000,
        }
        assert dict(break_even_of(toy, "callables").parts)["upload"] == LIFE_NS["upload"]
        for name in ("graph", "callables"):
            found = break_even_of(toy, name)
            assert sum(ns for _, ns in found.parts) == found.one_off_ns
            assert found.one_off_ns == toy[name]["one_off_cost"].value

    def test_none_where_nothing_is_paid_back(self, tmp_path: Path, toy: Comparison) -> None:
        assert toy["eager"].break_even.reason == "this run is the baseline"
        assert "compilation" in toy["compile"].break_even.reason
        make_run(tmp_path / "slow", "eager")
        make_run(tmp_path / "slow", "graph", wall_ns=500_000)
        slow = compared(tmp_path / "slow")["graph"]
        assert slow.break_even.reason == "a replay is not faster than a step of eager"


class TestCurve:
    def test_it_crosses_zero_at_the_break_even(self, toy: Comparison) -> None:
        graph = break_even_of(toy, "graph")
        assert graph.replays == 8  # 2.4 ms over 300 µs
        assert graph.compute_net_saving(7)[1] < 0 <= graph.compute_net_saving(8)[1]
        assert graph.compute_net_saving(0) == (-2_400_000,) * 3
        assert graph.min_replays <= graph.replays <= (graph.max_replays or 0)
        assert graph.replays_without_warmup == 38  # 9 ms of warm-up more

    def test_the_interval_widens_with_the_replays(self) -> None:
        graph = break_even_of(compared(SAMPLES / "mlp-train"), "graph")
        widths = [high - low for low, _, high in map(graph.compute_net_saving, (1, 10, 100))]
        assert widths == sorted(widths)
        assert graph.compute_net_saving(graph.max_replays or 0)[0] >= 0

    def test_a_saving_that_may_be_none_has_no_end(self, tmp_path: Path) -> None:
        walls = [400_000 + 5_000 * (place * 8 % 21 - 10) for place in range(21)]
        make_run(tmp_path / "unsure", "eager", wall_ns=walls)
        make_run(tmp_path / "unsure", "callables", wall_ns=[wall - 10_000 for wall in walls[::-1]])
        callables = break_even_of(compared(tmp_path / "unsure"), "callables")
        assert callables.low_ns < 0
        assert callables.max_replays is None
        assert "to never)" in format_break_even(callables)

    def test_wrong_results_are_never_paid_back(self) -> None:
        result = compared(SAMPLES / "moved-inputs")
        graph = result["graph"]
        assert graph.outcome is Outcome.WRONG_RESULT
        assert graph["break_even"].missing == graph.break_even
        assert graph.break_even == Missing(Fact.SAVING, "replays compute a different result")
        assert "Break-even" not in build_card(result, result.experiment, "light").facts_markup
        assert "paid back" not in format_answer(build_run_answer(graph))

    def test_a_gain_within_noise_is_not_paid_back(self, tmp_path: Path) -> None:
        walls = [400_000 + 5_000 * (place * 8 % 21 - 10) for place in range(21)]
        make_run(tmp_path / "noise", "eager", wall_ns=walls)
        make_run(tmp_path / "noise", "graph", wall_ns=[wall - 500 for wall in walls[::-1]])
        result = compared(tmp_path / "noise")
        graph = result["graph"]
        assert graph.outcome is Outcome.NO_SIGNIFICANT_DIFFERENCE
        assert graph["break_even"].value is not None
        assert graph.payback is None
        assert "Break-even" not in build_card(result, result.experiment, "light").facts_markup

    def test_a_first_launch_that_took_less_than_a_step_is_no_negative_cost(
        self, toy: Comparison
    ) -> None:
        graph = break_even_of(toy, "graph")
        assert "(95%: 8)" in format_break_even(replace(graph, min_replays=8, max_replays=8))
        parts = (*graph.parts[:-1], (FIRST_LAUNCH_PART, -4_810.0))
        told = format_break_even(replace(graph, parts=parts))
        assert "instantiation 300 µs, first launch 4.81 µs less than a step. " in told

    def test_powers_of_ten(self, toy: Comparison) -> None:
        assert break_even_of(toy, "graph").list_replay_powers() == (1, 10, 100)


class TestChart:
    def test_lines_and_band(self, toy: Comparison) -> None:
        figure = draw_break_even(toy, toy["graph"], "light")
        assert figure is not None
        high, low, eager, graph = figure.data
        assert low.fill == "tonexty"
        last = low.x[-1]
        assert eager.y[-1] == pytest.approx(0.4 * last)
        assert graph.y[-1] == pytest.approx(0.1 * last + 2.4)
        assert high.y[-1] <= graph.y[-1] <= low.y[-1]
