from __future__ import annotations

import json
from typing import Any

import pytest

from tests.collectors.allocator.test_owners import run_text

PROGRAM = """
import json, os, torch
from collectors.allocator import history
calls = []
segment = {{"device": 0, "address": 0}}
trace = [{{"action": "alloc", "addr": 1, "size": 2, "stream": 3}}]

def record({arguments}):
    calls.append({call})

memory = torch.cuda.memory
memory._record_memory_history = record
memory._snapshot = lambda: {{"segments": [segment], "device_traces": [trace * {count}]}}
torch.cuda.memory_snapshot = lambda {parameters}: [segment, {{"device": 1}}]
torch.cuda.current_device = lambda: 0
torch.cuda.get_allocator_backend = lambda: "{backend}"
torch._C._cuda_isHistoryEnabled = lambda: {is_enabled}
os.environ |= {environment}
history.MAX_EVENTS = 3
watch = history.AllocationWatch()
watch.start()
if {is_recording}:
    memory._record_memory_history("all")
result = watch.finish()
watch.cancel()
print(json.dumps([calls, result, memory._record_memory_history is record]))
"""


def run(**changes: Any) -> list[Any]:
    """Return the calls of torch's recorder, the history, and True if torch is restored."""
    options = {
        "backend": "native",
        "count": 1,
        "parameters": "include_traces=True",
        "is_enabled": False,
        "is_recording": False,
        "environment": {},
        "arguments": "*args, **options",
        "call": "args[0]",
    }
    program = PROGRAM.format(**options | changes)
    result: list[Any] = json.loads(run_text(program))
    return result


def test_all_allocations_of_a_device_are_recorded() -> None:
    segments = [{"device": 0, "address": 0}]
    assert run() == [["all", None], [segments, [["alloc", 1, 2, 3]], segments], True]


def test_another_thread_can_remove_torchs_callback() -> None:
    """Otherwise torch warns in the program's output, and the callback stays in its thread."""
    calls = run(
        arguments="*args, global_record_annotations=False, **options",
        call="[args[0], global_record_annotations]",
    )[0]
    assert calls == [["all", True], [None, False]]


def test_a_history_that_lost_events_is_dropped() -> None:
    assert run(count=3) == [["all", None], None, True]


def test_the_history_of_the_program_stays() -> None:
    # The program's own call is the last one.
    assert run(is_recording=True) == [["all", "all"], None, True]
    assert run(is_enabled=True) == [[], None, True]


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
        {"environment": {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}},
        {"backend": "cudaMallocAsync"},
        # Each reading of segments would convert the complete history.
        {"parameters": ""},
    ],
)
def test_other_allocators_are_not_recorded(changes: dict[str, Any]) -> None:
    assert run(**changes) == [[], None, True]
