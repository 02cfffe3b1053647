from __future__ import annotations

import pytest

from graphviz_dash.analysis.comparison.verdict import Outcome, decide_outcome
from graphviz_dash.analysis.metrics.run_metrics import MetricValue, make_missing_value, make_value
from graphviz_dash.analysis.metrics.thresholds import MODEST_SPEEDUP, SLIGHT_SPEEDUP
from graphviz_dash.analysis.sample_statistics import Spread, SpreadKind
from graphviz_dash.model.absence import Fact, Missing

NO_BASELINE = Missing(Fact.BASELINE, "no baseline")


def speedup(value: float, low: float, high: float | None) -> MetricValue:
    return make_value("speedup", value, Spread(low, high, SpreadKind.INTERVAL, 40))


@pytest.mark.parametrize(
    ("figure", "replays_match", "failed", "expected"),
    [
        (speedup(2.0, 1.9, 2.1), True, False, Outcome.FASTER),
        (speedup(2.0, 1.9, 2.1), True, True, Outcome.FASTER),
        (speedup(MODEST_SPEEDUP, 1.1, 1.3), True, False, Outcome.FASTER),
        (speedup(SLIGHT_SPEEDUP, 1.01, 1.03), True, False, Outcome.MODESTLY_FASTER),
        (speedup(1.01, 1.005, 1.015), True, False, Outcome.SLIGHTLY_FASTER),
        (speedup(1.5, 1.0, 2.0), True, False, Outcome.NO_SIGNIFICANT_DIFFERENCE),
        (speedup(0.9, 0.8, 1.0), True, False, Outcome.NO_SIGNIFICANT_DIFFERENCE),
        (speedup(0.9, 0.8, 0.95), True, False, Outcome.SLOWER),
        (speedup(2.0, 1.9, 2.1), False, False, Outcome.WRONG_RESULT),
        (speedup(0.9, 0.8, 0.95), False, False, Outcome.SLOWER),
        (make_value("recorded_speedup", 2.0), True, False, Outcome.FASTER),
        (make_value("recorded_speedup", 0.5), True, False, Outcome.SLOWER),
        (
            make_value("recorded_speedup", 1.005),
            True,
            False,
            Outcome.NO_SIGNIFICANT_DIFFERENCE,
        ),
        (
            make_missing_value("speedup", Missing(Fact.BASELINE, "no baseline")),
            True,
            False,
            Outcome.NOT_COMPARED,
        ),
        (
            make_missing_value("speedup", Missing(Fact.CLEAN_PASS, "it failed")),
            True,
            True,
            Outcome.FAILED,
        ),
    ],
)
def test_outcomes(
    figure: MetricValue, replays_match: bool, failed: bool, expected: Outcome
) -> None:
    assert decide_outcome(figure, replays_match=replays_match, failed=failed) is expected
