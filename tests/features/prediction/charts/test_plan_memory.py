from __future__ import annotations

from msgspec.structs import replace

from graphviz_dash.features.prediction.charts.plan_memory import draw_plan_memory
from graphviz_dash.model.parallel import Attempt
from tests.parallel_runs import PLAN

LARGER = Attempt(3, 3, 2, 9_000, predicted_bytes=72 << 20)


def test_plans_stand_at_their_memory_and_time() -> None:
    (tried,) = PLAN.attempts
    slower = replace(tried, streams=4, replays_ns=(16_000,), memory_bytes=48 << 20)
    plan = replace(PLAN, attempts=(tried, LARGER, slower))
    figure = draw_plan_memory(plan, "light")
    assert figure is not None
    points = {
        trace.name: list(zip(trace.text, trace.x, trace.y, strict=True)) for trace in figure.data
    }
    assert points == {
        "timed": [("1", 34, 18.2), ("4", 48, 16.0)],
        "predicted": [("3", 72, 9.0)],
        "chosen": [("2", 38, 14.05)],
    }
    assert [shape.x0 for shape in figure.layout.shapes] == [51]
    assert figure.data[1].customdata == ("3 streams: 9.00 µs, 72.0 MiB",)


def test_a_single_plan_is_no_curve() -> None:
    assert draw_plan_memory(PLAN, "light") is None
