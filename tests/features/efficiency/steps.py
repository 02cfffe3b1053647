"""Steps and limits whose answers can be worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from graphviz_dash.analysis.attribution.origins import NodeOrigin
from graphviz_dash.analysis.trace.kernel_categories import categorise
from graphviz_dash.features.efficiency.analysis.items import WorkItem
from graphviz_dash.features.efficiency.analysis.operator_call import OperatorCall, parse_call
from graphviz_dash.model.ceilings import (
    CEILINGS_FORMAT,
    ArithmeticTime,
    Ceilings,
    MemoryTime,
    Pipe,
    Traffic,
)
from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.graph import NodeKind, Operand

LAUNCH_NS = 1_000
DRAM = 2_000.0
"""Bytes per ns."""
L2 = 4_000.0
FLOPS = {Pipe.FP32: 50.0, Pipe.TF32: 400.0, Pipe.BF16: 800.0}
"""Thousands of operations per ns."""
MULTIPROCESSORS = 100


def make_ceilings(gpu: str = "Test GPU") -> Ceilings:
    sizes = (1 << 20, 1 << 24, 1 << 28)
    memory = [
        MemoryTime(traffic, l2_hit, size, (LAUNCH_NS + round(size / rate),))
        for l2_hit, rate in ((True, L2), (False, DRAM))
        for traffic in Traffic
        for size in sizes
    ]
    arithmetic = [
        ArithmeticTime(pipe, True, 10**12, (round(10**12 / (rate * 1_000)),))
        for pipe, rate in FLOPS.items()
    ]
    return Ceilings(
        format=CEILINGS_FORMAT,
        version=1,
        tool_version="0",
        date="2026-11-26T00:00:00+00:00",
        gpu=Gpu(gpu, (9, 0), 1 << 36, MULTIPROCESSORS),
        driver="580",
        torch="2.11.0",
        l2_bytes=1 << 25,
        empty_kernel_ns=(LAUNCH_NS,),
        memory=tuple(memory),
        arithmetic=tuple(arithmetic),
    )


def tensor(*shape: int, dtype: str = "float", strides: Sequence[int] | None = None) -> Any:
    return ("tensor", list(shape), dtype, None if strides is None else list(strides))


def tensors(*shapes: Sequence[int]) -> Any:
    return ("list", [list(shape) for shape in shapes])


def encode_inputs(*arguments: Any) -> dict[str, str]:
    """Encode arguments like the profiler: tensors, lists of tensors and other values."""
    dims: list[Any] = []
    types: list[str] = []
    strides: list[Any] = []
    values: list[str] = []
    for argument in arguments:
        kind = argument[0] if isinstance(argument, tuple) else "value"
        if kind == "tensor":
            _, shape, dtype, steps = argument
            default = [_measure_product(shape[place + 1 :]) for place in range(len(shape))]
            dims.append(shape)
            types.append(dtype)
            strides.append(default if steps is None else steps)
            values.append("")
        elif kind == "list":
            dims.append(argument[1])
            types.append("TensorList")
            strides.append([[] for _ in argument[1]])
            values.append("")
        else:
            dims.append([])
            types.append("" if argument is None else "Scalar")
            strides.append([])
            values.append("" if argument is None else str(argument))
    return {
        "input_dims": json.dumps(dims),
        "input_types": json.dumps(types),
        "input_strides": json.dumps(strides),
        "input_values": json.dumps(values),
    }


def _measure_product(sizes: Sequence[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def call(name: str, *arguments: Any) -> OperatorCall:
    inputs = encode_inputs(*arguments)
    parsed = parse_call(f"aten::{name}", *inputs.values())
    assert parsed is not None
    return parsed


class StepBuilder:
    def __init__(self) -> None:
        self.items: list[WorkItem] = []
        self._calls = 0

    def add(
        self,
        kernel: str,
        duration_ns: float,
        operator: str | None = None,
        *arguments: Any,
        operands: Sequence[tuple[int, int]] | None = None,
        phase: str = "forward",
        blocks: int = 1,
        continues: bool = False,
    ) -> None:
        """Add a kernel of an operator; ``operands``: offset and bytes in one allocation.

        ``continues``: of the same call as the previous kernel.
        """
        self._calls += not continues
        origin = None
        if operator is not None:
            origin = NodeOrigin(
                "test",
                1.0,
                op=f"aten::{operator}",
                call_operator=f"aten::{operator}",
                call=self._calls,
                phase=phase,
                module="Model.layer",
                source="model.py:7",
                **encode_inputs(*arguments),
            )
        self.items.append(
            WorkItem(
                index=len(self.items),
                name=kernel,
                kind=NodeKind.KERNEL,
                category=categorise("kernel", kernel),
                duration_ns=duration_ns,
                runs=1.0,
                origin=origin,
                operands=None
                if operands is None
                else tuple(Operand(0, offset, size) for offset, size in operands),
                params=None,
                blocks=blocks,
                threads=256,
            )
        )
