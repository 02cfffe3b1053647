from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from graphviz_dash.bundle.compile_stacks import shorten_paths, strip_folders
from graphviz_dash.ingest.formats.torch_trace import read_torch_trace
from graphviz_dash.ingest.limits import DEFAULT_LIMITS
from graphviz_dash.model.compilation import Compilation

_PREFIX: Final = "V0101 00:00:00.000000 1 torch/_dynamo/x.py:1] "
_MAX_SECONDS: Final = 10.0
"""Generous: the slowest takes a second, and each took from 14 s to forever."""
_FRAME: Final[dict[str, Any]] = {"frame_id": 0, "frame_compile_id": 0}
_START: Final[dict[str, Any]] = {
    **_FRAME,
    "dynamo_start": {"stack": [{"name": "f", "filename": "a.py", "line": 1}]},
}


def _record(metadata: dict[str, Any], payload: str = "") -> str:
    lines = "".join(f"\n\t{line}" for line in payload.split("\n")) if payload else ""
    return f"{_PREFIX}{json.dumps(metadata)}{lines}\n"


def _artifact(name: str, payload: str) -> str:
    return _record({**_FRAME, "artifact": {"name": name}}, payload)


def _metrics(**metrics: Any) -> str:
    return _record({**_FRAME, "compilation_metrics": metrics})


def _read(tmp_path: Path, *records: str) -> Compilation:
    file = tmp_path / "x.log"
    file.write_text("".join(records), encoding="utf-8")
    result = read_torch_trace(file, DEFAULT_LIMITS)
    # A bundle must be able to hold it.
    assert msgspec.json.decode(msgspec.json.encode(result), type=Compilation) == result
    return result


@pytest.mark.parametrize(
    "count", ["many", 1 << 63, 1 << 70, -1, 1.5, [1], {"a": 1}, None, True], ids=str
)
def test_a_fact_of_another_type_costs_no_other(tmp_path: Path, count: Any) -> None:
    result = _read(tmp_path, _record(_START), _metrics(graph_op_count=count, graph_input_count=3))
    (frame,) = result.frames
    assert (frame.nodes, frame.inputs) == (None, 3)


def test_text_with_lone_surrogates_is_skipped(tmp_path: Path) -> None:
    lone = "\ud800"
    result = _read(
        tmp_path,
        _record(_START),
        _artifact("recompile_reasons", json.dumps([lone])),
        _artifact("torch_version", json.dumps({"pytorch_version": lone})),
        _artifact("fx_graph_cache_miss", json.dumps({"key": lone})),
        _artifact("dynamo_graph_break_reason", "Reason: fine"),
        _record(
            {**_FRAME, "dynamo_start": {"stack": [{"name": lone, "filename": "a", "line": 1}]}}
        ),
        _metrics(fail_reason="x", guard_count=2),
    )
    assert (result.recompiles, result.torch, result.graphs) == ((), None, ())
    assert [frame.guards for frame in result.frames] == [2]
    assert [found.reason for found in result.breaks] == ["fine"]


LONG: dict[str, Callable[[], list[str]]] = {
    "guard of blanks": lambda: [_artifact("recompile_reasons", "a" + " " * 3_000_000 + "b")] * 3,
    "notes": lambda: [_artifact("recompile_reasons", "a  # " + "b # " * 500_000)],
    "note without blanks": lambda: [_artifact("recompile_reasons", "a  # " + "x.py" * 500_000)],
    "blank lines": lambda: (
        [_artifact("dynamo_graph_break_reason", "Reason: x\n" + "\n" * 99_000)] * 30
    ),
    "blank lines after a hint": lambda: (
        [_artifact("dynamo_graph_break_reason", "Reason: x\nHint: y" + "\n \n " * 20_000)] * 30
    ),
    "traceback of blank lines": lambda: (
        [_artifact("dynamo_graph_break_reason", "x\nUser code traceback:\n" + "\n" * 99_000)] * 30
    ),
    "slashes": lambda: [_artifact("recompile_reasons", "/" * 3_000_000)] * 3,
    "continuations": lambda: (
        [
            _record(
                {
                    **_FRAME,
                    "dynamo_start": {
                        "stack": [
                            {
                                "name": "torch_dynamo_resume_in_" * 50_000 + "_at_1" * 50_000,
                                "filename": "a.py",
                                "line": 1,
                            }
                        ]
                    },
                }
            )
        ]
        * 10
    ),
    "limits": lambda: [
        _record(
            {
                "frame_id": n,
                "frame_compile_id": 0,
                "compilation_metrics": {"fail_type": "RecompileLimit"},
            }
        )
        for n in range(20_000)
    ],
    "unknown files": lambda: [
        _record({"str": [f"f{n}.py", n]})
        + _record(
            {
                "frame_id": n,
                "frame_compile_id": 0,
                "dynamo_start": {"stack": [{"name": "f", "filename": -1, "line": 1}]},
            }
        )
        for n in range(10_000)
    ],
    "a long line": lambda: [_PREFIX, "x" * 63_000_000],
}


@pytest.mark.parametrize("name", LONG)
def test_time_grows_with_the_size_alone(tmp_path: Path, name: str) -> None:
    records = [_record(_START), *LONG[name]()]
    begun = time.process_time()
    _read(tmp_path, *records)
    assert time.process_time() - begun < _MAX_SECONDS


def test_so_does_that_of_the_logs_of_a_running_program() -> None:
    begun = time.process_time()
    assert shorten_paths("/" * 3_000_000 + "a.py", strip_folders) == "a.py"
    assert shorten_paths("in /a/b.py:1 and /c.pyx/d.py.", strip_folders) == "in b.py:1 and d.py."
    assert time.process_time() - begun < _MAX_SECONDS
