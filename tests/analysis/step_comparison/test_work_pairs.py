from __future__ import annotations

from graphviz_dash.analysis.step_comparison.waterfall import Waterfall
from graphviz_dash.analysis.step_comparison.work_pairs import PairKind, pair_work
from tests.analysis.typical_steps import eager_run, graphed_run, typical_of
from tests.samples import compared_sample


class TestPairs:
    def test_every_piece_of_work_is_in_one_row(self) -> None:
        pairs = pair_work(typical_of(eager_run(extra=True)), typical_of(graphed_run()))
        assert sorted(place for row in pairs.rows for place in row.before) == [0, 1, 2]
        assert sorted(place for row in pairs.rows for place in row.after) == [0, 1]
        assert pairs.baseline_rows == (0, 1, 2)


def test_compiled_work_is_paired_with_what_it_replaced() -> None:
    """Kernels of the inductor replace eager kernels by name; the optimizer is the same."""
    run = compared_sample("mlp-train")["compile"]
    assert isinstance(run.waterfall, Waterfall)
    counts = run.waterfall.pairs.counts
    assert counts[PairKind.SAME] > 40
    assert counts[PairKind.OTHER] > 5
    assert "fused operators" in run.waterfall.pairs.methods
    assert sum(len(row.after) for row in run.waterfall.pairs.rows) == 62


def test_static_inputs_of_callables_are_added_copies() -> None:
    run = compared_sample("mlp-train")["callables"]
    assert isinstance(run.waterfall, Waterfall)
    assert run.waterfall.pairs.counts[PairKind.ADDED] == 2
    assert run.waterfall.pairs.counts[PairKind.SAME] == 69
