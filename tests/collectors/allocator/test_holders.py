from __future__ import annotations

import pytest

from tests.collectors.allocator.test_owners import run_program

PROGRAM = """
import gc, time, weakref, torch
from collectors.allocator import holders
from collectors.allocator.holders import TensorHolders

class Layer(torch.nn.Module):
    def __init__(self):
        self.weight = torch.nn.Parameter(4)
        self.caches = {{"keys": [torch.Tensor(8)]}}

class Net(torch.nn.Module):
    def __init__(self):
        self.layer = Layer()

class Pool:
    def __init__(self):
        self.buffers = [torch.Tensor(2), torch.Tensor(3)]

class Runner:
    def __init__(self):
        self.pool = Pool()

earlier = Net()
registry = TensorHolders()
registry.start()
{body}
"""


def count(body: str) -> int:
    return run_program(PROGRAM.format(body=body))


def test_modules_that_the_program_builds_lead_to_their_tensors() -> None:
    assert count("net = Net(); print(len(registry.find_objects().tensors))") == 2
    assert count("net = Net(); print(len(registry.find_objects().modules))") == 2


def test_a_module_from_before_the_start_is_unknown() -> None:
    assert count("print(len(registry.find_objects().modules))") == 0


def test_caches_of_other_objects_are_found_through_them() -> None:
    body = "runner = Runner(); registry.add(runner); print(len(registry.find_objects().tensors))"
    assert count(body) == 2


def test_inputs_of_modules_are_found_such_as_caches() -> None:
    body = """
caches, step = [torch.Tensor(1), torch.Tensor(2)], torch.Tensor(3)
registry.add_inputs((caches, step, Pool(), 5))
pool = Pool()
registry.add_inputs((pool,))
print(len(registry.find_objects().tensors))
"""
    assert count(body) == 5


def test_inputs_of_few_calls_are_remembered() -> None:
    body = """
kept = [torch.Tensor(1) for _ in range(100)]
for item in kept:
    registry.add_inputs((item,))
print(len(registry.find_objects().tensors))
"""
    assert count(body) == 16


def test_modules_do_not_lead_to_tensors_of_other_objects() -> None:
    """A module may refer to its engine, and so to each object of the program."""
    body = "net = Net(); net.runner = Runner(); print(len(registry.find_objects().tensors))"
    assert count(body) == 2


@pytest.mark.parametrize("holder", ["Net()", "Runner()"])
def test_holders_are_not_kept_alive(holder: str) -> None:
    body = f"""
holder = {holder}
registry.add(holder)
dead = weakref.ref(holder)
del holder
found = registry.find_objects()
print(int(dead() is None and not found.modules and not found.tensors))
"""
    assert count(body) == 1


def test_objects_without_weak_references_and_classes_are_ignored() -> None:
    assert count("registry.add([1]); registry.add(Net); print(len(registry._holders))") == 0


def test_nothing_is_remembered_after_the_pause_and_torch_is_restored() -> None:
    body = "registry.pause(); net = Net(); print(len(registry._holders) + len(torch.MODULE_HOOKS))"
    assert count(body) == 2
    assert count("registry.stop(); net = Net(); print(len(torch.MODULE_HOOKS))") == 0


def test_a_search_does_not_grow_with_the_objects_of_the_program() -> None:
    """A search among all objects would read each of two million lists."""
    body = """
net = Net()
ballast = [[number] for number in range(2_000_000)]
begin = time.process_time()
found = registry.find_objects()
known = time.process_time() - begin
begin = time.process_time()
gc.get_objects()
print(int(len(found.tensors) == 2 and known < (time.process_time() - begin) / 10))
"""
    assert count(body) == 1


def test_a_search_ends_after_a_number_of_objects() -> None:
    body = """
holders.MAX_OBJECTS = 100
runner = Runner()
runner.pool.items = [[number] for number in range(100_000)]
registry.add(runner)
registry.find_objects()
search = holders._Search(holders.TrackedObjects([], [], [], []))
search.run([runner], 7, holders._is_object)
print(len(search.visits))
"""
    assert count(body) < 100_100
