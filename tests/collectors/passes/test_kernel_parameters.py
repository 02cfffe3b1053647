from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.passes.capture_events import reduce_capture_trace
from collectors.passes.kernel_parameters import name_parameters

NAME = "triton_poi_fused_add_0"
CODE = f"""
import triton

@triton.jit
def triton_poi_fused_add_01(in_ptr9, out_ptr9, xnumel, XBLOCK : tl.constexpr):
    pass

def {NAME}(in_out_ptr0, in_ptr0, xnumel, XBLOCK : tl.constexpr):
    pass
"""


def build_event(file: Path | str, **changes: Any) -> bytes:
    arguments = {
        "External id": 7,
        "Input type": ["float", "float", "Scalar"],
        "Concrete Inputs": ["", "", "4096"],
        "kernel_name": NAME,
        "kernel_file": str(file),
    }
    event = {"ph": "X", "cat": "cpu_op", "name": NAME, "ts": 1.0, "dur": 2.0}
    return json.dumps(event | {"args": arguments | changes}).encode()


@pytest.fixture(name="code")
def write_code(tmp_path: Path) -> Path:
    file = tmp_path / "kernel.py"
    file.write_text(CODE)
    return file


def test_tensors_get_the_names_of_their_parameters(code: Path) -> None:
    event = build_event(code)
    content = json.loads(name_parameters(event))
    assert content["args"]["Concrete Inputs"] == ["in_out_ptr0", "in_ptr0", "4096"]
    before = json.loads(event)
    before["args"]["Concrete Inputs"] = content["args"]["Concrete Inputs"]
    assert content == before


@pytest.mark.parametrize(
    "changes",
    [
        {"kernel_file": "/missing.py"},
        {"kernel_file": "a\0b"},
        {"kernel_file": 7},
        {"kernel_name": "another_kernel"},
        {"Concrete Inputs": [""]},
        {"Concrete Inputs": None},
        {"Input type": ["float"] * 9, "Concrete Inputs": [""] * 9},
    ],
)
def test_events_without_readable_code_do_not_change(code: Path, changes: dict[str, Any]) -> None:
    event = build_event(code, **changes)
    assert name_parameters(event) == event
    other = b'{"name": "aten::add", "args": {}}'
    assert name_parameters(other) == other
    assert name_parameters(event[:-3]) == event[:-3]


def test_the_trace_of_a_capture_has_the_names(code: Path) -> None:
    trace = b'{"traceEvents": [%s]}' % build_event(code)
    (event,) = json.loads(reduce_capture_trace(trace))["traceEvents"]
    assert event["args"]["Concrete Inputs"][0] == "in_out_ptr0"
