from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from collectors.parallel.candidates import (
    Candidate,
    build_candidates,
    filter_fitting,
    filter_larger,
)
from tests.recorded_plans import DATA, read_plan, split_recorded

MIB = 1 << 20


def observed(name: str) -> Any:
    recorded = read_plan(DATA / f"{name}.json.gz")
    plan = recorded.plan
    return SimpleNamespace(
        operators=plan.operators,
        storages=plan.storages,
        pieces=split_recorded(recorded),
        serial_ns=recorded.line_ns,
        fixed_ns=10_000,
        serial_bytes=plan.serial.memory_bytes,
        stream_workspace_bytes=plan.serial.workspace_bytes,
        wide_bytes=plan.serial.workspace_bytes,
        narrow_bytes=2 * MIB,
    )


@pytest.fixture(scope="module")
def cells() -> tuple[Any, list[Candidate]]:
    """Stacked LSTM cells, whose products need a whole workspace each."""
    step = observed("lstm2")
    return step, build_candidates(step)


def test_larger_plans_form_a_curve_if_little_memory_fits(
    cells: tuple[Any, list[Candidate]],
) -> None:
    step, plans = cells
    limit = round(1.5 * step.serial_bytes)
    line_ns = step.serial_ns - step.fixed_ns
    assert all(each.expected_ns > 0.9 * line_ns for each in filter_fitting(plans, limit))
    curve = filter_larger(plans, limit, line_ns)
    assert len(curve) >= 4
    sizes = [each.expected_bytes for each in curve]
    times = [each.expected_ns for each in curve]
    assert sizes == sorted(sizes)
    assert times == sorted(times, reverse=True)
    assert limit < sizes[0] <= 2 * step.serial_bytes
    assert times[-1] < 0.4 * step.serial_ns


def test_with_fitted_workspaces_the_fastest_fit() -> None:
    step = observed("lstm2")
    step.wide_bytes = step.narrow_bytes
    plans = build_candidates(step)
    limit = round(1.5 * step.serial_bytes)
    best, *_ = filter_fitting(plans, limit)
    assert best.expected_ns < 0.3 * step.serial_ns
    assert best.expected_bytes < step.serial_bytes
    assert filter_larger(plans, limit, step.serial_ns - step.fixed_ns) == []


def test_with_any_amount_of_memory_nothing_is_too_large(
    cells: tuple[Any, list[Candidate]],
) -> None:
    step, plans = cells
    assert {each.plan.streams for each in filter_fitting(plans, None)} > {2, 3, 4}
    assert filter_larger(plans, None, step.serial_ns) == []


def test_a_larger_plan_must_be_worth_more_than_what_fits() -> None:
    step = observed("mlp-train")
    plans = build_candidates(step)
    limit = round(1.5 * step.serial_bytes)
    best = filter_fitting(plans, limit)[0]
    assert best.expected_bytes <= limit
    for each in filter_larger(plans, limit, step.serial_ns - step.fixed_ns):
        assert each.expected_ns < 0.9 * best.expected_ns
