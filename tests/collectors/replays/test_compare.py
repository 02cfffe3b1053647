from __future__ import annotations

import struct

import pytest

from collectors.replays.compare import (
    ForeignKernel,
    align_operators,
    find_changed_number,
    find_fact_differences,
    find_missing_orders,
    find_parameter_differences,
    find_tensor_differences,
)
from graphviz_dash.model.replay_check import FactKind, MissingOrder
from tests.collectors.replays.records import (
    chain,
    operator,
    output,
    row,
    run,
    tensor,
)


def test_equal_runs_do_not_differ() -> None:
    step = chain("aten::mm", "aten::mul", "aten::add")
    assert find_tensor_differences(run(step), run(step), run(step), 0, 1) == []


def test_a_difference_names_operator_size_and_noise() -> None:
    step = chain("aten::mm", "aten::mul", "aten::add")
    replay = run(step, {1: row(90, 100.0, 7.0)})
    eager = run(step, {1: row(91, 100.0, 5.0)})
    (difference,) = find_tensor_differences(replay, eager, eager, 0, 2)
    assert (difference.operator, difference.replay, difference.absent) == (1, 2, False)
    assert difference.relative == pytest.approx(0.02)
    assert difference.eager_difference == 0.0
    again = run(step, {1: row(92, 100.0, 5.5)})
    (difference,) = find_tensor_differences(replay, eager, again, 0, 2)
    assert difference.eager_difference == pytest.approx(0.005)
    (difference,) = find_tensor_differences(replay, eager, None, 1, 1)
    assert difference.eager_difference is None


def test_a_slot_that_a_replay_leaves_empty_is_absent() -> None:
    step = chain("aten::mm", "aten::add_")
    (difference,) = find_tensor_differences(run(step, {1: row(0, 0.0, 0.0)}), run(step), None, 0, 1)
    assert difference.absent


def test_infinities_have_no_relative_difference() -> None:
    step = chain("aten::exp")
    (difference,) = find_tensor_differences(run(step, {0: row(5, bad=3)}), run(step), None, 0, 1)
    assert difference.relative is None


def test_steps_with_another_operator_are_aligned_around_it() -> None:
    captured = chain("aten::mm", "aten::relu", "aten::add", "aten::sum")
    eager = chain("aten::mm", "aten::sigmoid", "aten::add", "aten::sum")
    assert align_operators(captured, eager) == {0: 0, 2: 2, 3: 3}
    (fact,) = find_fact_differences(captured, [eager])
    assert (fact.operator, fact.kind) == (1, FactKind.PATH)
    assert (fact.capture_value, fact.eager) == ("aten::relu", ("aten::sigmoid",))


def test_a_longer_step_differs_where_it_goes_on() -> None:
    captured, eager = chain("aten::mm"), chain("aten::mm", "aten::mul")
    (fact,) = find_fact_differences(captured, [eager])
    assert (fact.capture_value, fact.eager) == ("end of the step", ("aten::mul",))


def test_quiet_operators_are_no_other_path() -> None:
    captured = chain("aten::mm", "aten::add")
    eager = chain("aten::mm", "aten::empty", "aten::detach", "aten::add")
    assert find_fact_differences(captured, [eager]) == []


def test_scalars_are_compared_for_gpu_operators_only() -> None:
    def step(value: str) -> list:
        return [
            operator("aten::add_", scalars=[value], on_gpu=False),
            operator("aten::mul", scalars=["2", value]),
        ]

    (fact,) = find_fact_differences(step("0.5"), [step("0.5"), step("0.25")])
    assert (fact.operator, fact.position, fact.capture_value) == (1, 1, "0.5")
    assert fact.eager == ("0.5", "0.25")


def test_only_memory_from_outside_is_expected_to_stay() -> None:
    def step(address: int, *, external: bool) -> list:
        return [operator(tensors=[tensor(address, external=external)])]

    assert find_fact_differences(step(16, external=False), [step(32, external=False)]) == []
    (fact,) = find_fact_differences(step(16, external=True), [step(32, external=True)])
    assert (fact.kind, fact.capture_value, fact.eager) == (FactKind.ADDRESS, "0x10", ("0x20",))


def test_another_size_is_a_fact_and_not_another_address() -> None:
    captured = [operator(tensors=[tensor(16, external=True)])]
    eager = [operator(tensors=[tensor(32, external=True, shape=(5, 8))])]
    assert [fact.kind for fact in find_fact_differences(captured, [eager])] == [FactKind.SHAPE]


def test_the_content_of_cpu_tensors_is_compared() -> None:
    def step(content: int) -> list:
        return [operator("aten::_to_copy", tensors=[tensor(16, device="pinned", content=content)])]

    (fact,) = find_fact_differences(step(1), [step(2)])
    assert fact.kind is FactKind.HOST_VALUE


def make_kernel(*parameters: bytes, name: str = "scale(float*)") -> ForeignKernel:
    return ForeignKernel(3, name, b"".join(item.ljust(8, b"\0") for item in parameters))


def test_a_number_among_a_kernels_arguments_is_compared() -> None:
    def capture(address: int, factor: float) -> ForeignKernel:
        return make_kernel(
            struct.pack("<Q", address), struct.pack("<i", 8192), struct.pack("<f", factor)
        )

    first = capture(0x7F00_0000_1000, 1.25)
    assert find_parameter_differences([first], [capture(0x7F00_0000_2000, 1.25)]) == []
    (fact,) = find_parameter_differences([first], [capture(0x7F00_0000_2000, 1.5)])
    assert (fact.operator, fact.kind, fact.position) == (3, FactKind.PARAMETER, 4)
    assert (fact.capture_value, fact.eager) == ("1.25", ("1.5",))


def test_integers_among_arguments_are_shown_as_such() -> None:
    first, second = (make_kernel(struct.pack("<i", value)) for value in (16, 17))
    (fact,) = find_parameter_differences([first], [second])
    assert (fact.capture_value, fact.eager) == ("16", ("17",))


def test_other_kernels_are_not_compared() -> None:
    first = make_kernel(struct.pack("<i", 1))
    second = make_kernel(struct.pack("<i", 2), name="other(float*)")
    assert find_parameter_differences([first], [second]) == []


def test_a_read_that_does_not_wait_is_found_by_the_graph() -> None:
    # Nodes: 0 writer's start, 1 side stream, 2 reader on the main stream.
    operators = [
        operator("aten::mm", nodes=(0, 1), slots=[output(0)]),
        operator("aten::sin", nodes=(1, 1), stream=8, tensors=[tensor(writer=0)]),
        operator("aten::add", nodes=(2, 1), tensors=[tensor(writer=0), tensor(writer=1)]),
    ]
    assert find_missing_orders(operators, [(0, 1), (0, 2)]) == [MissingOrder(2, 1, 2)]
    assert find_missing_orders(operators, [(0, 1), (0, 2), (1, 2)]) == []


def test_an_order_may_lead_over_other_nodes() -> None:
    operators = [
        operator("aten::mm", nodes=(0, 2)),
        operator("aten::sin", nodes=(4, 1), stream=8, tensors=[tensor(writer=0)]),
    ]
    assert find_missing_orders(operators, [(0, 1), (1, 2), (2, 3), (3, 4)]) == []
    assert find_missing_orders(operators, [(0, 1), (0, 2), (2, 3), (3, 4)]) == [
        MissingOrder(1, 0, 4)
    ]


@pytest.mark.parametrize(
    ("pattern", "old", "new", "scalars", "word"),
    [
        ("<IfQ", (144, 2.0, 0), (128, 2.0, 0), ("2.0",), None),
        ("<IfQ", (144, 2.0, 0), (128, 3.0, 0), ("3.0",), 1),
        ("<IfQ", (144, 0.5, 0), (128, 0.25, 0), ("4",), 1),
        ("<IfQ", (7, 0.5, 0), (7, 0.75, 0), ("0.25",), 1),
        ("<Qd", (5, 2.0), (5, 3.25), ("3.25",), 3),
        ("<QQ", (144, 5), (128, 9), ("9",), 2),
        ("<QQ", (144, 5), (128, 1), ("0", "1"), None),
        ("<QQ", (144, 5), (0, 5), ("0", "text", "True"), None),
    ],
    ids=["undefined", "float", "inverse", "rest", "double", "integer", "one", "zero"],
)
def test_a_changed_number_comes_from_the_operator(
    pattern: str,
    old: tuple[float, ...],
    new: tuple[float, ...],
    scalars: tuple[str, ...],
    word: int | None,
) -> None:
    first, second = struct.pack(pattern, *old), struct.pack(pattern, *new)
    assert find_changed_number(first, second, scalars) == word
