from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.bindings")

import torch
from torch import distributed
from torch.distributed import _functional_collectives as functional

from collectors.parallel import observer as observer_module
from collectors.parallel.capture import RefusedError
from collectors.parallel.collectives import wait_for_collective
from collectors.parallel.observer import OperatorObserver
from graphviz_dash.planning.operators import DependencyKind, find_dependencies


class Launches:
    """The nodes of a capture, where each call that computes makes one."""

    def __init__(self) -> None:
        self.count = 0


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Launches]:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    launched = Launches()

    def nodes_so_far() -> int:
        launched.count += 1
        return launched.count

    monkeypatch.setattr(observer_module, "count_nodes", nodes_so_far)
    monkeypatch.setattr(observer_module, "_count_large_blocks", lambda: 0)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: 0)
    yield launched
    distributed.destroy_process_group()


def observed(step: object) -> OperatorObserver:
    observer = OperatorObserver()
    observer.start()
    # What is launched between operators is not asked for here.
    observer.finish = lambda: None  # type: ignore[method-assign]
    with observer:
        step()  # type: ignore[operator]
    return observer


def access(observer: OperatorObserver, name: str) -> list[tuple[int, bool]]:
    (operator,) = (each for each in observer.operators if each.name == name)
    return [(each.storage, each.writes) for each in operator.accesses]


@pytest.mark.usefixtures("launches")
def test_collectives_are_a_chain_and_their_readers_need_them() -> None:
    x, y, out = torch.ones(4), torch.ones(4), torch.ones(4)

    def step() -> None:
        work = distributed.all_reduce(x, async_op=True)
        other = y * 2
        distributed.all_gather_into_tensor(out, y)
        work.wait()
        torch.add(x, other)

    observer = observed(step)
    assert access(observer, "c10d.allreduce_.default") == [(0, False), (0, True)]
    gathered = access(observer, "c10d._allgather_base_.default")
    assert [(storage, writes) for storage, writes in gathered if writes] == [(3, True)]
    names = [operator.name for operator in observer.operators]
    needs = {
        (names[need.source], names[index], need.kind)
        for index, own in enumerate(find_dependencies(observer.operators))
        for need in own
    }
    reduced, gathered_name = "c10d.allreduce_.default", "c10d._allgather_base_.default"
    assert needs == {
        (reduced, gathered_name, DependencyKind.COLLECTIVE),
        (reduced, "aten.add.Tensor", DependencyKind.READ_AFTER_WRITE),
        ("aten.mul.Tensor", "aten.add.Tensor", DependencyKind.READ_AFTER_WRITE),
    }
    assert not any(operator.opaque for operator in observer.operators)


class Handle:
    """As NCCL's where a call is not asynchronous: none inside, so that asking it crashes."""

    def wait(self) -> None:
        raise AssertionError


@pytest.mark.parametrize("asynchronous", [True, False])
def test_only_what_is_asynchronous_is_waited_for(
    asynchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "ScriptObject", Handle)
    reduce = torch.ops.c10d.allreduce_.default
    args = ([torch.ones(4)], None, None, None)
    if "async_op" not in {argument.name for argument in reduce._schema.arguments}:
        pytest.skip("this torch has a handle for every collective")
    with pytest.raises(AssertionError) if asynchronous else nullcontext():
        wait_for_collective(reduce, (*args, asynchronous), {}, ([], Handle()))
    # As the schema has it where nothing is given.
    with pytest.raises(AssertionError):
        wait_for_collective(reduce, args, {}, ([], Handle()))


@pytest.mark.usefixtures("launches")
def test_a_functional_collective_makes_its_result() -> None:
    x = torch.ones(4)

    def step() -> None:
        torch.ops._c10d_functional.all_reduce(x, "sum", distributed.group.WORLD.group_name)

    observer = observed(step)
    assert access(observer, "_c10d_functional.all_reduce.default") == [(0, False), (1, True)]


@pytest.mark.usefixtures("launches")
def test_a_reader_of_a_collective_tensor_is_opaque() -> None:
    x = torch.ones(4)

    def step() -> None:
        first = functional.all_reduce(x, "sum", distributed.group.WORLD)
        second = functional.all_reduce(x + 1, "sum", distributed.group.WORLD)
        torch.add(first, second)

    observer = observed(step)
    *_, last = observer.operators
    assert (last.name, last.opaque) == ("aten.add.Tensor", True)
    reduced = [each for each in observer.operators if "all_reduce" in each.name]
    made = {each.storage for operator in reduced for each in operator.accesses if each.writes}
    assert {each.storage for each in last.accesses if not each.writes} == made


def test_collectives_launched_together_later_are_refused(
    launches: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer_module, "count_nodes", lambda: launches.count)
    x = torch.ones(4)
    observer = OperatorObserver()
    observer.start()
    with observer:
        distributed.all_reduce(x)
        launches.count += 2
        with pytest.raises(
            RefusedError, match=r"after their calls return \(.*test_collectives.py:\d+\)"
        ):
            x.add_(1)
