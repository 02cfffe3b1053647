from __future__ import annotations

import pytest

from tests.collectors.allocator.test_owners import run_program, run_text

PROGRAM = """
from collectors.ledger.samples import (
    OwnedTensor, build_state, convert_segment, select_surviving_tensors,
)
from graphviz_dash.model.memory import Owner

def block(size, state):
    return {{"size": size, "state": state}}

def segment(address, *blocks):
    total = sum(item["size"] for item in blocks)
    return convert_segment({{"address": address, "total_size": total, "blocks": list(blocks)}})

LIVE, FREE = "active_allocated", "inactive"
WEIGHT = OwnedTensor(Owner.WEIGHTS, (2, 3), 1)
CACHE = OwnedTensor(Owner.TENSORS, (5,), 1)
BEFORE = (segment(0, block(6, LIVE), block(4, FREE), block(5, LIVE)), segment(100, block(7, LIVE)))

def sum_bytes(state, owner):
    return sum(block.bytes for block in state.blocks if block.owner is owner)

{body}
"""


def compute(body: str) -> int:
    return run_program(PROGRAM.format(body=body))


def test_free_memory_counts_as_split_only_in_used_segments() -> None:
    body = """
segments = (
    segment(0, block(6, LIVE), block(4, FREE)),
    segment(100, block(20, FREE)),
    segment(200, block(2, "active_pending_free"), block(3, FREE), block(5, LIVE)),
)
print(build_state(segments, {}, (), is_search_complete=True).pools[0].split_bytes)
"""
    assert compute(body) == 7


def test_memory_without_a_tensor_is_a_workspace_only_after_a_complete_search() -> None:
    body = """
state = build_state(BEFORE, {{0: WEIGHT}}, (), is_search_complete={complete})
assert sum_bytes(state, Owner.WEIGHTS) == 6
assert state.pools[0].small_bytes == 18
print(sum_bytes(state, Owner.UNOWNED))
"""
    assert compute(body.format(complete=True)) == 12
    assert compute(body.format(complete=False)) == 0


def test_a_later_search_names_owners_only_of_blocks_that_survived() -> None:
    body = """
now = (segment(0, block(10, FREE), block(5, LIVE)), segment(100, block(8, LIVE)))
tensors = {0: WEIGHT, 10: CACHE, 100: CACHE}
print(*select_surviving_tensors(tensors, BEFORE, now))
"""
    assert compute(body) == 10


KEPT_LAYERS = """
from types import SimpleNamespace
from collectors.ledger import recorder as module
from graphviz_dash.model.ledger import LayerGroup

segments = (SimpleNamespace(pool=(0, 0), stream=0, bytes=6, live_blocks=((0, 6),)),)
recorder = module.LedgerRecorder(guard=None)
recorder._samples.append(object())
recorder.holders.find_objects = lambda: SimpleNamespace(modules={first})
module.list_tracked_objects = lambda collect: SimpleNamespace(modules={later})
module.read_segments = lambda: segments
module.describe_tensors = lambda objects: {{}}
module.find_layers = lambda modules: tuple(LayerGroup("Layer", count, 1) for count in modules)
recorder.record_known_state()
recorder.record_state(collect=False)
(_, before), (_, after) = recorder._states
print(*(group.layers for group in before.layers))
"""


def test_layers_that_the_program_dropped_later_stay_in_the_first_state() -> None:
    assert count_layers(first=[14], later=[]) == [14]
    assert count_layers(first=[], later=[12]) == [12]


def count_layers(first: list[int], later: list[int]) -> list[int]:
    """Return the layers of the state before the first capture."""
    text = run_text(KEPT_LAYERS.format(first=first, later=later))
    return [int(number) for number in text.split()]


ESTIMATE = """
from collectors.driver.nvml import DeviceMemory
from collectors.ledger.samples import estimate_others
MIB = 1 << 20
before = DeviceMemory(used=509 * MIB, others=500 * MIB, process=None)
memory = DeviceMemory(used=0, others={others} * MIB, process={process})
estimate = estimate_others({used} * MIB, memory, before)
print(None if estimate is None else estimate // MIB)
"""


@pytest.mark.parametrize(
    ("used", "others", "process", "estimate"),
    [
        # Equal to the lists, within the rounding of the driver.
        (1_512, 500, "1_000 * MIB", "509"),
        # Another process ended, but its memory is still in use.
        (1_512, 0, "1_000 * MIB", "512"),
        # Another process grew before the list did.
        (21_512, 500, "1_000 * MIB", "20512"),
        # The driver does not list this process.
        (1_512, 500, "None", "None"),
    ],
)
def test_memory_of_other_processes_while_they_start_and_end(
    used: int, others: int, process: str, estimate: str
) -> None:
    program = ESTIMATE.format(used=used, others=others, process=process)
    assert run_text(program).strip() == estimate


CAPTURES = """
from collectors.driver.nvml import DeviceMemory
from collectors.guard import Guard
from collectors.ledger import recorder
from collectors.ledger.samples import DeviceNumbers
from graphviz_dash.model.ledger import SampleKind
MIB = 1 << 20
reads = []
others = 0
allocated = 0

def read_device_memory(pid):
    reads.append(pid)
    return {"GPU-1": DeviceMemory(used=9 * MIB, process=1_000 * MIB, others=others * MIB)}

recorder.read_device_memory = read_device_memory
recorder.read_module_loading = lambda: "lazy"
ledger = recorder.LedgerRecorder(Guard())
ledger._uuid = "GPU-1"
ledger._used_before = {"GPU-1": DeviceMemory(used=9 * MIB, process=None)}

def sample(kind, outside):
    reserved = 200 * MIB
    used = outside * MIB + reserved
    recorder.read_numbers = lambda: DeviceNumbers(used, 0, reserved, 0, 0, 0)
    recorder.read_used_bytes = lambda: used + allocated * MIB
    ledger.sample(kind)
    rows = ledger._samples
    print(len(reads), len(rows), rows[-1].others_bytes // MIB)

sample(SampleKind.CONTEXT, 800)
sample(SampleKind.CAPTURE_BEGIN, 800)
sample(SampleKind.CAPTURE_END, 800)
others = 300
sample(SampleKind.INSTANTIATION, 1_100)
sample(SampleKind.CAPTURE_BEGIN, 1_100)
sample(SampleKind.PERIODIC, 1_100)
others = 0
allocated = 64
sample(SampleKind.PERIODIC, 1_164)
allocated = 0
sample(SampleKind.CAPTURE_END, 800)
"""


def test_captures_read_other_processes_only_after_a_change() -> None:
    rows = [tuple(map(int, line.split())) for line in run_text(CAPTURES).splitlines()]
    # Number of readings and of samples, memory of other processes and the driver.
    assert rows == [
        (1, 1, 9),
        (1, 2, 9),
        (1, 3, 9),
        (2, 4, 309),
        (2, 5, 309),
        # A periodic sample that repeats the last, and one during an allocation.
        (3, 5, 309),
        (4, 5, 309),
        (5, 6, 9),
    ]


OPERATIONS = """
from collectors.allocator.expandable import AllocationHistory, AllocatorEvent
from collectors.guard import Guard
from collectors.ledger import recorder, samples
from collectors.ledger.samples import DeviceNumbers
MIB = 1 << 20
operations = 0

class Allocations:
    def start(self):
        global operations
        operations += 1

    def finish(self):
        rows = (("alloc", 0), ("free_requested", 0), ("free_completed", 0), ("alloc", MIB))
        events = [AllocatorEvent(action, at, MIB, 0) for action, at in rows]
        end = {"address": 0, "segment_pool_id": (0, 1), "stream": 0, "total_size": 2 * MIB}
        rows = [{"state": "inactive", "size": MIB, "requested_size": 0}]
        rows.append({"state": "active_allocated", "size": MIB, "requested_size": MIB})
        segments = [AllocatorEvent("segment_alloc", 0, 2 * MIB, 0)]
        return AllocationHistory([], segments + events, [end | {"blocks": rows}])

recorder.read_numbers = lambda: DeviceNumbers(MIB, MIB, 0, 0, 0, 0, operations)
recorder.read_module_loading = lambda: "lazy"
recorder.read_device_memory = lambda pid: {}
recorder.read_segments = lambda: ()
recorder.torch.cuda.memory_snapshot = lambda *_, **__: []
guard = Guard()
ledger = recorder.LedgerRecorder(guard)
ledger.allocations = Allocations()
operations = 700
ledger.begin_capture("graph-0")
ledger.end_capture("graph-0", (0, 1), 0, 0)
# Two operations of the first capture.
operations += 2
ledger.begin_capture("graph-1")
ledger.end_capture("graph-1", (0, 1), 0, 0)
ledger.record_first_launch("graph-0", 0, 1)
ledger.end_startup()
print([graph.pool_operations for graph in ledger.build().graphs], guard.errors)
print(samples._count_operations({}))
counts = {"allocated": 7, "freed": 3}
print(samples._count_operations({"allocation": {"all": counts}}))
"""


def test_captures_have_the_operations_of_their_pools() -> None:
    operations, *counts = run_text(OPERATIONS).splitlines()
    assert operations == "[(1048576, -1), (1048576,)] 0"
    assert counts == ["0", "10"]
