from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.ingest.kineto.launch_arguments import read_launched_kernels
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.graph import KernelParams
from graphviz_dash.model.trace import Trace


def trace_of(folder: Path, *arguments: dict[str, Any], packed: bool = False) -> Trace:
    """A launch for each of ``arguments``, each behind two operators."""
    events = []
    for number, args in enumerate(arguments):
        common = {"ph": "X", "pid": 1, "tid": 1, "ts": 10.0 * number, "dur": 1.0}
        events += [common | {"cat": "cpu_op", "name": "aten::mul", "args": {}}] * 2
        call = common | {"cat": "cuda_runtime", "name": "hipLaunchKernel"}
        events.append(call | {"args": {"correlation": number} | args})
    text = json.dumps({"traceEvents": events}).encode()
    path = folder / "trace.json"
    path.write_bytes(gzip.compress(text) if packed else text)
    return read_trace(path)


@pytest.mark.parametrize("packed", [False, True])
def test_rows_that_say_it(tmp_path: Path, packed: bool) -> None:
    shape = {"kernel": "fill", "grid": [4, 1, 1], "block": [64, 1, 1], "shared memory": 32}
    trace = trace_of(tmp_path, shape, {}, shape | {"kernel": "copy"}, packed=packed)
    kernels = read_launched_kernels(trace, [0, 1, 2])
    assert kernels == {
        0: KernelParams("fill", "fill", (4, 1, 1), (64, 1, 1), 32),
        2: KernelParams("copy", "copy", (4, 1, 1), (64, 1, 1), 32),
    }
    assert read_launched_kernels(trace, [2]) == {2: kernels[2]}
    assert read_launched_kernels(trace, []) == {}


@pytest.mark.parametrize(
    ("shape", "grid", "shared"),
    [
        ({"grid": [1, 2]}, None, None),
        ({"grid": "4"}, None, None),
        ({"grid": [1, True, 1]}, None, None),
        ({"grid": [1 << 40, 1, 1]}, None, None),
        ({"grid": [1, 1, 1], "shared memory": -4}, (1, 1, 1), None),
        ({"grid": [1, 1, 1], "shared memory": True}, (1, 1, 1), None),
        ({"grid": [1, 1, 1], "shared memory": 0}, (1, 1, 1), 0),
    ],
)
def test_absurd_shapes_are_not_told(
    tmp_path: Path, shape: dict[str, Any], grid: tuple[int, ...] | None, shared: int | None
) -> None:
    trace = trace_of(tmp_path, {"kernel": "fill"} | shape)
    kernel = read_launched_kernels(trace, [0])[0]
    assert (kernel.grid, kernel.block, kernel.dynamic_shared) == (grid, None, shared)


@pytest.mark.parametrize("name", [None, 5, "", "x" * (1 << 21)])
def test_names_that_are_none(tmp_path: Path, name: object) -> None:
    assert read_launched_kernels(trace_of(tmp_path, {"kernel": name}), [0]) == {}
