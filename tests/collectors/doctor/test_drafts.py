from __future__ import annotations

from dataclasses import replace

from collectors.doctor.drafts import (
    FindingDraft,
    find_cpu_work,
    find_differences,
    find_illegal_calls,
)
from collectors.doctor.events import Event, StepLog, TensorUse, Violation
from collectors.doctor.places import SourceLocation
from graphviz_dash.model.doctor import DetectionMethod, Evidence, RuleId, Severity


def spot(line: int) -> SourceLocation:
    return SourceLocation("model.py", line, "step")


def use(address: int, shape: tuple[int, ...] = (8,), *, inner: bool = False) -> TensorUse:
    return TensorUse(address, shape, "float32", "cuda", inner)


def op(name: str, line: int, *inputs: TensorUse, scalars: tuple[float, ...] = ()) -> Event:
    return Event(f"aten::{name}", spot(line), "0x1", True, None, inputs, scalars)


def values(draft: FindingDraft) -> dict[str, object]:
    return {evidence.name: evidence.value for evidence in draft.evidence}


def test_equal_steps_have_no_difference() -> None:
    events = [op("mul", 3, use(0x10), scalars=(2.0,)), op("sum", 4, use(0x20, inner=True))]
    assert find_differences([StepLog(events), StepLog(list(events))]) == []


def test_one_step_cannot_be_compared() -> None:
    assert find_differences([StepLog([op("mul", 3, use(1))])]) == []


def test_memory_made_within_the_step_may_lie_anywhere() -> None:
    logs = [StepLog([op("sum", 4, use(address, inner=True))]) for address in (0x10, 0x20)]
    assert find_differences(logs) == []


def test_a_moved_input_is_told_once_at_its_first_use() -> None:
    logs = [
        StepLog([op("mul", 3, use(address)), op("add", 5, use(address))])
        for address in (0x10, 0x20, 0x30)
    ]
    (found,) = find_differences(logs)
    assert (found.rule, found.severity, found.location) == (
        RuleId.MOVED_INPUT,
        Severity.SILENT,
        spot(3),
    )
    told = values(found)
    assert [told[f"address in step {n}"] for n in (1, 2, 3)] == ["0x10", "0x20", "0x30"]
    assert told["operators that read it"] == 2


def test_a_changed_shape_hides_what_follows_from_it() -> None:
    logs = [
        StepLog(
            [
                op("slice", 3, use(0x10, (64,)), scalars=(0, length)),
                op("mul", 4, use(0x20, (length,), inner=True)),
                op("mean", 5, use(0x30, (length,), inner=True), scalars=(length,)),
            ]
        )
        for length in (12, 20)
    ]
    (found,) = find_differences(logs)
    assert (found.rule, found.location, found.op) == (RuleId.CHANGING_SHAPE, spot(3), "aten::slice")
    assert values(found) == {
        "shape in step 1": "[12]",
        "shape in step 2": "[20]",
        "operators with other shapes": 2,
    }


def test_an_input_of_another_shape_is_told_where_it_comes_in() -> None:
    logs = [StepLog([op("mul", 9, use(0x10, shape))]) for shape in ((4, 8), (6, 8))]
    (found,) = find_differences(logs)
    assert (found.rule, found.location) == (RuleId.CHANGING_SHAPE, spot(9))


def test_a_number_that_changes_is_told_with_its_values() -> None:
    logs = [StepLog([op("add_", 7, use(0x10), scalars=(rate,))]) for rate in (-0.1, -0.05)]
    (found,) = find_differences(logs)
    assert (found.rule, found.op) == (RuleId.CHANGING_SCALAR, "aten::add_")
    assert values(found) == {"value in step 1": -0.1, "value in step 2": -0.05}


def test_a_number_that_is_nan_in_both_steps_has_not_changed() -> None:
    events = [op("add_", 7, use(0x10), scalars=(float("nan"),))]
    assert find_differences([StepLog(events), StepLog(list(events))]) == []


def test_another_path_is_told_at_its_first_operator_and_nothing_behind_it() -> None:
    one = StepLog([op("mul", 3, use(0x10)), op("sum", 5, use(0x20))])
    two = StepLog([op("mul", 3, use(0x10)), op("mul", 4, use(0x99)), op("sum", 5, use(0x77))])
    (found,) = find_differences([one, two])
    assert (found.rule, found.location) == (RuleId.CONTROL_FLOW, spot(4))
    told = values(found)
    assert (told["operators in step 1"], told["operators in step 2"]) == (2, 3)
    assert told["first operator that differs"] == 1


def test_a_step_that_ends_early_is_another_path() -> None:
    one = StepLog([op("mul", 3, use(0x10)), op("sum", 5, use(0x20))])
    (found,) = find_differences([one, StepLog(one.events[:1])])
    assert (found.rule, found.location) == (RuleId.CONTROL_FLOW, spot(5))
    assert values(found)["in step 2"] == "end of the step"


def test_a_place_that_is_illegal_many_times_is_one_finding() -> None:
    bad = replace(
        op("_local_scalar_dense", 6, use(0x10)),
        violation=Violation(RuleId.SYNC_VALUE, (Evidence("tensor read", "float32 []"),)),
    )
    other = replace(bad, spot=spot(8))
    found = find_illegal_calls(StepLog([bad, op("mul", 7), bad, other]), DetectionMethod.EAGER)
    assert [(draft.location, draft.calls_per_step) for draft in found] == [
        (spot(6), 2),
        (spot(8), 1),
    ]
    assert all(draft.severity is Severity.ILLEGAL for draft in found)


def test_a_call_of_which_only_the_line_is_known_has_no_operator() -> None:
    unknown = Event("", spot(4), "0x1", True, None, violation=Violation(RuleId.FORBIDDEN_CALL))
    assert find_illegal_calls(StepLog([unknown]), DetectionMethod.CAPTURE)[0].op is None


def test_cpu_operators_are_counted_by_line_and_those_that_compute_nothing_left_out() -> None:
    on_cpu = {"on_gpu": False, "makes_cpu": True}
    events = [replace(op(name, 3), **on_cpu) for name in ("mul", "add", "detach", "view")]
    events.append(replace(op("mul", 4), on_gpu=True, makes_cpu=False))
    (found,) = find_cpu_work(StepLog(events))
    assert (found.location, found.calls_per_step, found.op) == (spot(3), 2, "aten::mul")


def test_changed_python_variables_are_cpu_work() -> None:
    (found,) = find_cpu_work(StepLog([], state=(("count", 4, 5),)))
    assert found.op == "Python variable count"
    assert values(found) == {"count before the step": 4, "count after the step": 5}
