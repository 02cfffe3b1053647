from __future__ import annotations

import msgspec

from graphviz_dash.features.prediction.analysis.measured import select_attempt
from graphviz_dash.features.prediction.stream_narrative import (
    build_attempt_row,
    describe_plan,
    describe_plan_origin,
)
from graphviz_dash.model.parallel import Attempt, Verdict
from tests.analysis.parallel.training import chain_plan

PLAN = chain_plan(4)


def test_a_faster_plan_says_by_how_much_and_how_it_was_checked() -> None:
    outcome, check = describe_plan("parallel", PLAN)
    assert "on 4 streams a replay takes 800 µs instead of 1.65 ms on one: 2.06x as fast" in outcome
    assert "prediction 800 µs (error +0.0%)" in outcome
    assert check.startswith("Checked on 20 replays with changed inputs, 5 of them")
    assert "equal in every bit (3 tensors each)" in check


def test_a_plan_is_compared_with_interleaved_replays_of_one_stream() -> None:
    chosen = select_attempt(PLAN)
    assert chosen is not None
    assert build_attempt_row(PLAN, chosen)[5] == "2.06x"
    slower_clock = msgspec.structs.replace(chosen, serial_ns=2_000_000)
    plan = msgspec.structs.replace(PLAN, attempts=(slower_clock,))
    assert build_attempt_row(plan, slower_clock)[5] == "2.50x"
    assert "instead of 2.00 ms on one: 2.50x as fast" in describe_plan("parallel", plan)[0]


def test_differences_are_compared_with_those_of_eager_steps() -> None:
    check = msgspec.structs.replace(
        PLAN.check, bitwise_replays=0, difference=2.2e-7, eager_difference=2e-7
    )
    said = describe_plan("parallel", msgspec.structs.replace(PLAN, check=check))[1]
    assert "0 equal in every bit, the others within 2.2e-07 of the largest value" in said
    assert "two eager steps differ by 2.0e-07" in said


def test_a_single_stream_verdict_has_a_reason() -> None:
    plan = msgspec.structs.replace(PLAN, verdict=Verdict.CHAIN, selected_streams=1)
    assert describe_plan("p", plan)[0] == (
        "p: one stream is as good: each operator depends on the previous one in nearly all of the "
        "step."
    )
    assert select_attempt(plan) is plan.serial


def test_the_gain_from_more_memory_is_stated() -> None:
    line = msgspec.structs.replace(PLAN.serial, memory_bytes=36 << 20)
    predicted = Attempt(2, 2, 0, 1_000_000, predicted_bytes=72 << 20)
    tried = Attempt(8, 8, 0, 300_000, (400_000,), 252 << 20, 238 << 20, serial_ns=1_600_000)
    slower = Attempt(3, 3, 0, 1_200_000, predicted_bytes=108 << 20)
    plan = msgspec.structs.replace(
        PLAN,
        serial=line,
        attempts=(predicted, slower, tried),
        memory_limit_bytes=54 << 20,
        verdict=Verdict.MEMORY,
        selected_streams=1,
        narrow_serial_ns=1_100_000,
    )
    outcome, memory, workspaces, _ = describe_plan("p", plan)
    assert outcome == (
        "p: one stream is as good within 54.0 MiB: the faster plans use more memory."
    )
    assert memory == (
        "With more memory: on 2 streams it should take 1.00 ms (1.65x as fast as one stream) and "
        "72.0 MiB, 2.00x of one stream; on 8 streams it takes 400 µs (4.00x as fast as one stream) "
        "and 252 MiB, 7.00x of one stream."
    )
    assert "CUBLAS_WORKSPACE_CONFIG=:1024:1" in workspaces
    assert build_attempt_row(plan, predicted)[6:] == ("72.0 MiB predicted", "–")
    slow = msgspec.structs.replace(plan, narrow_serial_ns=1_800_000)
    assert "CUBLAS_WORKSPACE_CONFIG" not in " ".join(describe_plan("p", slow))


def test_a_workspace_that_was_fitted_is_reported() -> None:
    fitted = msgspec.structs.replace(PLAN, workspace_bytes=1 << 20)
    assert "of cuBLAS workspace" not in describe_plan("p", PLAN)[0]
    predicted, tried = PLAN.attempts
    for wide, said in ((4, "Each of its streams has 1.00 MiB"), (3, "3 of its streams have 1.00")):
        attempts = (predicted, msgspec.structs.replace(tried, wide_streams=wide))
        plan = msgspec.structs.replace(fitted, attempts=attempts)
        assert f" {said}" in describe_plan("p", plan)[0]
    narrow = msgspec.structs.replace(tried, wide_streams=0)
    plan = msgspec.structs.replace(fitted, attempts=(predicted, narrow))
    assert describe_plan("p", plan)[0] == describe_plan("p", PLAN)[0]


def test_the_chosen_plan_fits_the_memory() -> None:
    fits = Attempt(4, 4, 0, 1, (900_000,), 50 << 20, 0, serial_ns=1_000_000)
    larger = msgspec.structs.replace(fits, replays_ns=(500_000,), memory_bytes=99 << 20)
    plan = msgspec.structs.replace(
        PLAN, attempts=(larger, fits), memory_limit_bytes=54 << 20, selected_streams=4
    )
    assert select_attempt(plan) is fits
    assert "With more memory: on 4 streams it takes 500 µs" in describe_plan("p", plan)[1]


def test_a_plan_that_was_not_tried_has_no_time() -> None:
    predicted, tried = PLAN.attempts
    assert build_attempt_row(PLAN, predicted)[:6] == ("2", "0", "900 µs", "–", "–", "–")
    assert build_attempt_row(PLAN, tried)[:6] == (
        "4, chosen",
        "0",
        "800 µs",
        "800 µs",
        "+0.0%",
        "2.06x",
    )
    wrong = msgspec.structs.replace(
        PLAN, attempts=(Attempt(3, 3, 0, 1, (1,), differs_at=7),), memory_limit_bytes=1 << 20
    )
    assert "1 gave different results and were dropped" in describe_plan_origin(wrong)
    assert "1.00 MiB of memory at most" in describe_plan_origin(wrong)
