from __future__ import annotations

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.replay_check import (
    ReplayCause,
    WrongOperator,
    diagnose_replays,
    find_differing_ranks,
    find_wrong_operator,
)
from graphviz_dash.model.doctor import CodeLocation
from graphviz_dash.model.replay_check import (
    CheckedOperator,
    CheckedTensor,
    FactDifference,
    FactKind,
    ForeignNodes,
    HashedRole,
    MemoryFate,
    MissingOrder,
    NodeOwner,
    RankProgress,
    ReplayCheck,
    ReplayStop,
    TensorDifference,
    ValueCheck,
)
from graphviz_dash.narrative.replay_check import (
    CAUSE_ADVICE,
    CAUSE_TITLES,
    format_replay_verdict,
    format_wrong_operator,
    list_fault_sentences,
)

PLACE = CodeLocation("model.py", 7, "forward", 7, ("y = x * factor",))


def make_operator(name: str = "aten::mul", **changes: object) -> CheckedOperator:
    base = CheckedOperator(
        name=name,
        location=PLACE,
        module="net.3",
        stream=0,
        first_node=4,
        nodes=1,
        in_capture=True,
        random=False,
        on_gpu=True,
        writes_cpu=False,
        reads_cpu=False,
    )
    return replace(base, **changes)


def make_difference(
    operator: int = 1,
    *,
    role: HashedRole = "output",
    replay_number: int = 1,
    relative: float | None = 0.1,
    noise: float | None = 0.0,
    dtype: str = "float32",
    absent: bool = False,
) -> TensorDifference:
    tensor = CheckedTensor(role, 0, dtype, (4, 8))
    return TensorDifference(0, replay_number, operator, tensor, relative, noise, absent)


def make_check(
    *differences: TensorDifference,
    operators: tuple[CheckedOperator, ...] | None = None,
    facts: tuple[FactDifference, ...] = (),
    orders: tuple[MissingOrder, ...] = (),
    foreign: tuple[ForeignNodes, ...] = (),
    overwritten: tuple[int, ...] = (),
) -> ValueCheck:
    return ValueCheck(
        operators=operators or tuple(make_operator() for _ in range(4)),
        hash_count=4,
        nodes=8,
        rounds=2,
        replays=3,
        differences=differences,
        difference_count=len(differences),
        facts=facts,
        orders=orders,
        foreign=foreign,
        overwritten=overwritten,
    )


def explain(check: ValueCheck) -> WrongOperator:
    wrong = find_wrong_operator(check)
    assert wrong is not None
    return wrong


def test_equal_replays_have_no_fault() -> None:
    check = ReplayCheck("workload", (make_check(),), (), (), 1, ())
    diagnosis = diagnose_replays(check)
    assert (diagnosis.fault_count, diagnosis.exit_code) == (0, 0)
    assert "All 4 tensors of 4 operators agree with eager steps in 6 replays" in (
        format_replay_verdict(diagnosis)
    )


def make_fact(kind: FactKind, operator: int = 1) -> FactDifference:
    return FactDifference(operator, kind, 0, "1.5", ("1.25", "1.0"))


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (FactKind.SCALAR, ReplayCause.SCALAR_FROZEN),
        (FactKind.ADDRESS, ReplayCause.INPUT_REPLACED),
        (FactKind.HOST_VALUE, ReplayCause.HOST_WORK),
        (FactKind.SHAPE, ReplayCause.CHANGING_SHAPE),
        (FactKind.PATH, ReplayCause.CONTROL_FLOW),
    ],
)
def test_a_fact_of_the_operator_is_its_cause(kind: FactKind, cause: ReplayCause) -> None:
    wrong = explain(make_check(make_difference(), facts=(make_fact(kind),)))
    assert (wrong.cause, wrong.index) == (cause, 1)


def test_facts_of_other_operators_explain_nothing() -> None:
    facts = (make_fact(FactKind.SCALAR, 0), make_fact(FactKind.SCALAR, 2))
    operators = tuple(make_operator(nodes=1) for _ in range(4))
    wrong = explain(make_check(make_difference(), facts=facts, operators=operators))
    assert wrong.cause is ReplayCause.UNKNOWN


def test_another_branch_names_where_it_leaves() -> None:
    wrong = explain(make_check(make_difference(3), facts=(make_fact(FactKind.PATH, 2),)))
    assert (wrong.cause, wrong.index) == (ReplayCause.CONTROL_FLOW, 2)
    assert "an eager step runs 1.25 here" in format_wrong_operator(wrong)


def test_a_moved_view_is_a_frozen_number() -> None:
    operators = (make_operator(), make_operator("aten::slice", nodes=0), make_operator())
    facts = (make_fact(FactKind.SCALAR, 1), make_fact(FactKind.ADDRESS, 2))
    wrong = explain(make_check(make_difference(2), operators=operators, facts=facts))
    assert (wrong.cause, wrong.index) == (ReplayCause.SCALAR_FROZEN, 2)
    assert wrong.fact is not None
    assert wrong.fact.operator == 1


def test_work_on_another_stream_is_missing() -> None:
    wrong = explain(make_check(make_difference(relative=None, absent=True)))
    assert wrong.cause is ReplayCause.ESCAPED_WORK


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"reads_cpu": True}, ReplayCause.HOST_WORK),
        ({"reads_cpu": True, "cpu_writer": 0}, ReplayCause.RANDOM_NUMBERS),
        ({"random": True}, ReplayCause.RANDOM_NUMBERS),
        ({"in_capture": False}, ReplayCause.ESCAPED_WORK),
    ],
)
def test_the_operator_itself_tells_the_cause(
    changes: dict[str, object], cause: ReplayCause
) -> None:
    operators = (make_operator("aten::normal_", random=True), make_operator(**changes))
    assert explain(make_check(make_difference(), operators=operators)).cause is cause


def test_a_missing_wait_is_a_fault_even_if_values_agree() -> None:
    wrong = explain(make_check(orders=(MissingOrder(2, 1, 9),)))
    assert (wrong.cause, wrong.index, wrong.difference) == (ReplayCause.MISSING_JOIN, 2, None)
    assert "Values agreed in this check" in format_wrong_operator(wrong)
    wrong = explain(make_check(make_difference(3), orders=(MissingOrder(2, 1, 9),)))
    assert (wrong.cause, wrong.index) == (ReplayCause.MISSING_JOIN, 2)


def test_a_kernel_outside_operators_is_named() -> None:
    foreign = (ForeignNodes(1, 3, 1, ("scale(float*)",)),)
    wrong = explain(make_check(make_difference(role="input"), foreign=foreign))
    assert (wrong.cause, wrong.kernels) == (ReplayCause.FOREIGN_KERNEL, ("scale(float*)",))


def test_later_replays_may_be_wrong_alone() -> None:
    assert explain(make_check(make_difference(replay_number=2))).cause is ReplayCause.SECOND_REPLAY
    operators = (make_operator(), make_operator(), make_operator(writes_cpu=True))
    difference = make_difference(role="input", replay_number=2)
    wrong = explain(make_check(difference, operators=operators))
    assert wrong.cause is ReplayCause.HOST_WORK
    check = make_check(difference, overwritten=(1,))
    assert explain(check).cause is ReplayCause.MEMORY_CHANGE


def test_noise_of_two_eager_steps_is_no_fault() -> None:
    noisy = make_difference(relative=3e-5, noise=1e-5)
    downstream = make_difference(2, relative=2e-6, noise=0.0)
    assert find_wrong_operator(make_check(noisy, downstream)) is None
    beyond = make_difference(2, relative=1e-2, noise=0.0)
    assert explain(make_check(noisy, beyond)).index == 2
    # A number that changes makes eager steps differ too, and is no noise.
    assert explain(make_check(noisy, facts=(make_fact(FactKind.SCALAR),))).index == 1


def test_a_library_may_choose_another_algorithm() -> None:
    operators = (make_operator(), make_operator("aten::addmm"), make_operator())
    rounding = make_difference(relative=1e-7)
    downstream = make_difference(2, relative=1e-7)
    assert find_wrong_operator(make_check(rounding, downstream, operators=operators)) is None
    wrong = explain(make_check(make_difference(relative=1e-3), operators=operators))
    assert wrong.index == 1
    # Elementwise operators have one algorithm.
    assert explain(make_check(make_difference(relative=1e-7))).index == 1


def test_exact_types_must_agree_unless_noise_decides_them() -> None:
    assert explain(make_check(make_difference(relative=None, dtype="int64"))).index == 1
    noisy = make_difference(0, relative=1e-6, noise=1e-6)
    decided = make_difference(relative=0.5, noise=0.5, dtype="int64")
    assert find_wrong_operator(make_check(noisy, decided)) is None


def make_node(index: int, collective: int | None = None) -> NodeOwner:
    name = "ncclDevKernel" if collective else "gather"
    return NodeOwner("graph-0", index, "kernel", name, "aten::index", PLACE, None, collective)


def make_stop(**changes: object) -> ReplayStop:
    base = ReplayStop(
        kind="crash",
        graph="graph-0",
        capture_location=PLACE,
        rank=None,
        replay=21,
        is_running=True,
        suspects=(make_node(5),),
        last=(make_node(4),),
        completions=5,
        nodes=9,
        collectives=0,
        collectives_passed=0,
        waited_ns=None,
        error="CUDA_ERROR_ILLEGAL_ADDRESS",
    )
    return replace(base, **changes)


FATE = MemoryFate("graph-0", make_node(5), "tensor", "float32 [8]", "freed", PLACE, 20, 21)


def make_replay_check(*stops: ReplayStop, memory: tuple[MemoryFate, ...] = ()) -> ReplayCheck:
    return ReplayCheck("program", (), stops, memory, 1, ())


def test_a_crash_names_node_kernel_operator_and_line() -> None:
    diagnosis = diagnose_replays(make_replay_check(make_stop()))
    assert diagnosis.exit_code == 3
    assert [fault.cause for fault in diagnosis.stops] == [ReplayCause.CRASH]
    assert format_replay_verdict(diagnosis) == (
        "Replay 21 of graph-0 crashed in node 5, gather (aten::index at model.py:7) "
        "(CUDA_ERROR_ILLEGAL_ADDRESS)."
    )


def test_a_crash_in_freed_memory_names_the_line_that_freed_it() -> None:
    diagnosis = diagnose_replays(make_replay_check(make_stop(), memory=(FATE,)))
    (fault,) = diagnosis.stops
    assert (fault.cause, fault.memory) == (ReplayCause.MEMORY_FREED, FATE)
    assert diagnosis.fault_count == 1
    assert "it uses float32 [8], freed at model.py:7" in list_fault_sentences(diagnosis)[0]


@pytest.mark.parametrize(
    ("owner", "fate", "cause"),
    [
        ("tensor", "freed", ReplayCause.MEMORY_FREED),
        ("tensor", "moved", ReplayCause.MEMORY_MOVED),
        ("graph-pool", "freed", ReplayCause.OTHER_GRAPH),
        ("workspace", "freed", ReplayCause.MEMORY_FREED),
    ],
)
def test_memory_that_ended_is_a_fault(owner: str, fate: str, cause: ReplayCause) -> None:
    memory = replace(FATE, owner=owner, fate=fate)
    (fault,) = diagnose_replays(make_replay_check(memory=(memory,))).memory
    assert fault.cause is cause


def test_ranks_that_wait_for_one_collective_are_one_fault() -> None:
    progress = (RankProgress(0, 21, True, 6, 5), RankProgress(1, 21, True, 6, 4))
    ranks = [
        make_stop(
            ranks=progress,
            kind="hang",
            rank=rank,
            suspects=(make_node(3, collective=completions + 1),),
            collectives=6,
            collectives_passed=completions,
            waited_ns=30_000_000_000,
            error=None,
        )
        for rank, completions in ((0, 5), (1, 4))
    ]
    diagnosis = diagnose_replays(make_replay_check(*ranks))
    (fault,) = diagnosis.stops
    assert fault.cause is ReplayCause.COLLECTIVE
    sentence = format_replay_verdict(diagnosis)
    assert "rank 0 passed 5 of 6 collectives, rank 1 passed 4 of 6 collectives" in sentence
    assert sentence.endswith("the others wait for rank 1.")


def test_the_skipped_collective_is_named() -> None:
    progress = (RankProgress(0, 1, True, 6, 5), RankProgress(1, 1, False, 5, 5, (3,)))
    stop = make_stop(kind="hang", rank=0, ranks=progress, suspects=(make_node(3, collective=6),))
    sentence = format_replay_verdict(diagnose_replays(make_replay_check(stop)))
    assert sentence.endswith("; the others wait for rank 1, whose graph lacks collective 3.")


@pytest.mark.parametrize(
    ("ranks", "differing"),
    [
        ([(0, 3, 6, 5), (1, 3, 5, 5)], [1]),
        ([(0, 3, 6, 0), (1, 2, 6, 6)], [1]),
        ([(0, 3, 6, 2), (1, 3, 6, 2), (2, 3, 6, 1)], [2]),
        ([(0, 3, 6, 2), (1, 3, 6, 2)], []),
        ([(0, 3, 6, 2)], []),
    ],
)
def test_the_rank_that_keeps_others_waiting(
    ranks: list[tuple[int, int, int, int]], differing: list[int]
) -> None:
    progress = tuple(
        RankProgress(rank, replay_number, True, total, passes)
        for rank, replay_number, total, passes in ranks
    )
    waiting = make_stop(kind="hang", rank=0, ranks=progress, suspects=(make_node(3, collective=1),))
    assert find_differing(waiting) == differing
    # A rank that hangs outside a collective keeps the others waiting although all are equally far.
    equal = len({item[1:] for item in ranks}) == 1 and len(ranks) > 1
    assert find_differing(replace(waiting, suspects=(make_node(3),))) == (
        [0] if equal else differing
    )
    other = replace(waiting, rank=1, suspects=(make_node(3),))
    assert find_differing(waiting, other) == ([1] if equal else differing)


def test_a_rank_that_hangs_outside_a_collective_is_the_cause() -> None:
    progress = tuple(RankProgress(rank, 3, True, 8, 6) for rank in (0, 1))
    waiting = make_stop(kind="hang", rank=0, ranks=progress, suspects=(make_node(3, collective=7),))
    spinning = replace(waiting, rank=1, suspects=(make_node(4),))
    for stops in ((waiting, spinning), (spinning, waiting)):
        diagnosis = diagnose_replays(make_replay_check(*stops))
        (fault,) = diagnosis.stops
        # Its advice is about this node, not about the order of collectives.
        assert (fault.cause, fault.stop.rank) == (ReplayCause.HANG, 1)
        assert "rank 0 is in node 3" in format_replay_verdict(diagnosis)
    late = replace(waiting, rank=1, suspects=(), is_running=False)
    (fault,) = diagnose_replays(make_replay_check(waiting, late)).stops
    assert (fault.cause, fault.stop.rank) == (ReplayCause.COLLECTIVE, 0)


def find_differing(*stops: ReplayStop) -> list[int]:
    """The differing ranks of hangs that are one fault."""
    (fault,) = diagnose_replays(make_replay_check(*stops)).stops
    return [item.rank for item in find_differing_ranks(fault)]


def test_every_cause_has_a_title_and_advice() -> None:
    assert set(CAUSE_TITLES) == set(CAUSE_ADVICE) == set(ReplayCause)
