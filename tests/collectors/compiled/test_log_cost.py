"""Log readers inside a recorded program: linear time, and values that a bundle can hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest

from collectors.collection.source_code import read_source_code
from collectors.compiled.account import CompileRecorder
from collectors.compiled.trees import find_user_line
from collectors.guard import Guard
from graphviz_dash.bundle.compile_log import CompileLog
from graphviz_dash.bundle.debug_dot import parse_dot_nodes
from graphviz_dash.model.compilation import Compilation

_SECONDS: Final = 2
"""Most of these inputs cost less than 0.3 s; with quadratic time, 6 s or more."""
_CREATED: Final = "Created 3 graph partitions: 2 cudagraphable, 1 non-cudagraphable"
_PARTITION: Final = "  Partition 0: 3 nodes, cudagraphable, inputs=1, outputs=1"
_OPERATOR: Final = "    buf3: reason=DeviceCopy ops, ir=DeviceCopy, fx=prims.device_put.default"
_LINE: Final = '           File "/app/model/steps.py", line 41, in forward'

MESSAGES: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "partitions": lambda: iter([_CREATED, *[_PARTITION] * 40_000]),
    "operators": lambda: iter([_CREATED, _PARTITION, *[_OPERATOR] * 30_000]),
    "tracebacks": lambda: iter([_CREATED, _PARTITION, *[_OPERATOR, *[_LINE] * 400] * 50]),
    "skips": lambda: (f"skipping cudagraphs due to reason {number}" for number in range(25_000)),
    "moved inputs": lambda: iter(
        ["Re-recording function=f, reason=" + "input name: a. data pointer changed " * 30_000]
    ),
    "one word": lambda: iter(["   " + ":" * 1_000_000, "[" + "a" * 1_000_000]),
}


def _create_recorder() -> CompileRecorder:
    return CompileRecorder(Guard())


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_of_cuda_graphs_cost_linear_time(name: str) -> None:
    recorder = _create_recorder()
    messages = list(MESSAGES[name]())
    start_s = time.process_time()
    for message in messages:
        recorder._handle_message(message, "0/0")
    result = recorder.get_result()
    assert time.process_time() - start_s < _SECONDS
    if result is not None:
        assert msgspec.json.decode(msgspec.json.encode(result), type=Compilation) == result


def _make_start(frame: int, file: int) -> dict[str, Any]:
    stack = [{"name": "f", "filename": file, "line": 1}]
    return {"frame_id": frame, "frame_compile_id": 0, "dynamo_start": {"stack": stack}}


def test_unknown_file_numbers_cost_linear_time() -> None:
    table = {f"/app/file_{number}.py": number for number in range(10_000)}
    log = CompileLog(str, lambda: table)
    start_s = time.process_time()
    for number in range(10_000):
        log.record(_make_start(number, 9_999 + number), "")
    assert time.process_time() - start_s < _SECONDS
    first, second = list(log.frames.values())[:2]
    assert (first.location and first.location.file, second.location) == ("/app/file_9999.py", None)
    # A name that torch adds later is found.
    table["/app/new.py"] = 77_777
    log.record(_make_start(10_000, 77_777), "")
    location = log.frames["10000/0"].location
    assert location is not None
    assert location.file == "/app/new.py"


@pytest.mark.parametrize(
    "content",
    [
        b'"name": "' * 300_000,
        b'"name": "' + b"(1" * 1_500_000,
        b'"name":' + b" " * 3_000_000,
        b'"name": "(' + b"1" * 3_000_000,
    ],
    ids=["quotes", "numbers", "blanks", "digits"],
)
def test_lines_of_a_trace_are_found_in_linear_time(tmp_path: Path, content: bytes) -> None:
    trace = tmp_path / "trace.json"
    trace.write_bytes(content)
    start_s = time.process_time()
    read_source_code(trace)
    assert time.process_time() - start_s < _SECONDS


@pytest.mark.parametrize("text", ['"graph_1_node_0"[', "{", '"graph_1_node_0" -> '])
def test_bodies_of_conditional_nodes_are_found_in_linear_time(text: str) -> None:
    content = "subgraph cluster_1 {\n" + text * (2_000_000 // len(text))
    start_s = time.process_time()
    parse_dot_nodes(content)
    assert time.process_time() - start_s < _SECONDS


_LONE: Final = "\udcff"
"""A byte of a path that is not UTF-8, as Python decodes it."""
_HUGE: Final = "9" * 30

UNUSUAL: Final[Mapping[str, tuple[str, ...]]] = {
    "a huge count": (_CREATED, _PARTITION.replace("3 nodes", f"{_HUGE} nodes"), _PARTITION),
    "a count of 5,000 digits": (_CREATED, _PARTITION.replace("3 nodes", f"{'9' * 5000} nodes")),
    "an operator": (_CREATED, _PARTITION, _OPERATOR.replace("buf3", _LONE), _OPERATOR),
    "a traceback": (_CREATED, _PARTITION, _OPERATOR, _LINE.replace("steps", _LONE)),
    "a line number": (_CREATED, _PARTITION, _OPERATOR, _LINE.replace("41", _HUGE)),
    "a skip": (f"skipping cudagraphs due to {_LONE}",),
    "a warning": (f"CUDAGraph supports dynamic shapes {_LONE}",),
    "a recording": (f"Re-recording function={_LONE}, reason=x",),
    "a limit": (f"torch._dynamo hit config.recompile_limit (8)\n   last reason: {_LONE}",),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_message_costs_no_other(name: str) -> None:
    guard = Guard()
    recorder = CompileRecorder(guard)
    for message in (*UNUSUAL[name], "skipping cudagraphs due to cpu device"):
        with guard:
            recorder._handle_message(message, "0/0")
    # The recorder stops after several errors.
    assert guard.errors == 0
    result = recorder.get_result()
    assert result is not None
    assert msgspec.json.decode(msgspec.json.encode(result), type=Compilation) == result
    assert [skip.reason for skip in result.skips] == ["cpu device"]
    partitions = [part for split in result.partitionings for part in split.partitions]
    assert [part.nodes for part in partitions] == [3] * UNUSUAL[name].count(_PARTITION)
    operators = [operator.name for part in partitions for operator in part.operators]
    assert operators == ["buf3"] * UNUSUAL[name].count(_OPERATOR)


def test_a_line_that_no_bundle_can_hold_is_passed_over() -> None:
    good = '  File "/app/model/steps.py", line 41, in forward\n    h = a.mean()'
    users = [SimpleNamespace(stack_trace=good)]
    holder = SimpleNamespace(stack_trace=good.replace("steps", _LONE), users=users)
    line = find_user_line(holder)
    assert line is not None
    assert (line.file, line.line) == ("steps.py", 41)
