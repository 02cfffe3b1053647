"""Kernel parameters in the arguments of launch calls, which no table keeps.

ROCm adds them to the launch call (pytorch/kineto ``libkineto/src/RoctracerActivity_inl.h``), so
they are known for captured launches. CUPTI does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.kineto.json_stream import iter_element_spans
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.ingest.names import demangle_names
from graphviz_dash.model.graph import Dim3, KernelParams
from graphviz_dash.model.trace import EventOffsets, Trace

_MAX_VALUE = (1 << 31) - 1


def read_launched_kernels(
    trace: Trace, rows: Sequence[int], limits: Limits = DEFAULT_LIMITS
) -> dict[int, KernelParams]:
    """Read the kernels launched at ``rows`` of the runtime table, by row.

    Omits rows without kernel arguments. Reads the trace's file again.

    Raises:
        InputError: The file is no longer readable.
    """
    if trace.offsets is None or not rows:
        return {}
    event_index = trace.offsets.rows["runtime"]
    row_at = {int(event_index[row]): row for row in rows}
    kernels = {}
    for index, event in _iter_events(trace.offsets, sorted(row_at), limits):
        kernel = _parse_kernel(event.get("args"), limits)
        if kernel is not None:
            kernels[row_at[index]] = kernel
    texts = demangle_names({kernel.name for kernel in kernels.values()})
    return {row: _set_demangled_name(kernel, texts[kernel.name]) for row, kernel in kernels.items()}


def _iter_events(
    offsets: EventOffsets, requested: list[int], limits: Limits
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the events at the ascending indices ``requested`` of traceEvents."""
    pieces = offsets.pieces.with_columns(
        until=pl.col("first").shift(-1).fill_null(1 << 62)
    ).iter_rows()
    indices = iter(requested)
    index = next(indices, None)
    position = 0
    with ByteStream(offsets.path, limits, replaces_nul=True) as stream:
        for first, start, end, until in pieces:
            if index is None:
                return
            if index >= until:
                continue
            stream.skip(start - position)
            text = stream.read(end - start)
            position = end
            for number, (element_start, element_end) in enumerate(iter_element_spans(text), first):
                if number != index:
                    continue
                event = json.loads(
                    text[element_start:element_end].decode("utf-8", "replace"), strict=False
                )
                if isinstance(event, dict):
                    yield index, event
                index = next(indices, None)
                if index is None or index >= until:
                    break


def _parse_kernel(args: object, limits: Limits) -> KernelParams | None:
    if not isinstance(args, dict):
        return None
    name = args.get("kernel")
    if not isinstance(name, str) or not name or len(name) > limits.string_length:
        return None
    shared = args.get("shared memory")
    is_size = isinstance(shared, int) and not isinstance(shared, bool) and 0 <= shared <= _MAX_VALUE
    return KernelParams(
        name=name,
        demangled=name,
        grid=_parse_dim3(args.get("grid")),
        block=_parse_dim3(args.get("block")),
        dynamic_shared=shared if is_size else None,
    )


def _parse_dim3(value: object) -> Dim3 | None:
    if not isinstance(value, list) or len(value) != 3:
        return None
    if not all(type(extent) is int and 0 <= extent <= _MAX_VALUE for extent in value):
        return None
    return value[0], value[1], value[2]


def _set_demangled_name(kernel: KernelParams, demangled_name: str) -> KernelParams:
    return KernelParams(
        name=kernel.name,
        demangled=demangled_name,
        grid=kernel.grid,
        block=kernel.block,
        dynamic_shared=kernel.dynamic_shared,
    )
