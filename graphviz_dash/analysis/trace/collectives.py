"""Communication between ranks in a trace: kernels, kinds and exposed time.

Collectives are identified by kernel name. In NCCL's names, only the operation is reliable: kernels
are compiled for few algorithms, protocols and reductions, and the others run in the nearest one
(nccl/src/device/generate.py, ``best_kernel``), so RING and LL in a name mean little.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from math import prod
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, encode, get_spans
from graphviz_dash.analysis.trace.kernel_categories import Category, categorise
from graphviz_dash.analysis.trace.steps import Step, measure_span_union
from graphviz_dash.model.trace import Trace


class Collective(StrEnum):
    """Operation of a communication kernel, named as in MPI and NCCL."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    ALL_TO_ALL = "all-to-all"
    SEND_RECEIVE = "send/receive"
    UNKNOWN = "unknown"


# First match wins, because "AllReduce" and "ReduceScatter" contain "Reduce".
_PATTERNS: Final = (
    (Collective.ALL_REDUCE, r"all_?reduce|cross_device_reduce"),
    (Collective.REDUCE_SCATTER, r"reduce_?scatter"),
    (Collective.ALL_GATHER, r"all_?gather"),
    # DeepEP: tokens to the ranks of their experts, and back.
    (Collective.ALL_TO_ALL, r"all_?to_?all|node(_ll)?::(dispatch|combine)"),
    (Collective.BROADCAST, r"broadcast|bcast"),
    (Collective.SEND_RECEIVE, r"send_?recv|sendreceive"),
    (Collective.REDUCE, r"reduce"),
)
_COMPILED: Final = tuple((kind, re.compile(text, re.IGNORECASE)) for kind, text in _PATTERNS)

SYNCHRONISING_COLLECTIVES: Final = (
    Collective.ALL_REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
)
"""Collectives that no rank can finish before the last has started, so they end together."""


@lru_cache(maxsize=65536)
def get_collective_kind(name: str) -> Collective | None:
    """Return the kind of a communication kernel by name; None for other kernels."""
    if categorise("kernel", name) is not Category.COMMUNICATION:
        return None
    return next((kind for kind, text in _COMPILED if text.search(name)), Collective.UNKNOWN)


_TYPE: Final = re.compile(r"_(?:bf|f|i|u)(8|16|32|64)(?:e\dm\d)?(?:_|\(|$)")


def compute_message_bytes(name: str, input_dims: str | None) -> int | None:
    """Return the number of bytes that a rank sends to a collective; None if unknown.

    Multiplies the elements of the operator's first argument (shapes as JSON text from the profiler)
    by the size of the type in the kernel's name. NCCL names the type of reductions only.
    """
    element_type = _TYPE.search(name)
    if element_type is None or input_dims is None:
        return None
    try:
        shapes = msgspec.json.decode(input_dims, type=list[list[Any]])
    except msgspec.MsgspecError:
        return None
    if not shapes or not shapes[0]:
        return None
    tensors = shapes[0] if isinstance(shapes[0][0], list) else [shapes[0]]
    sizes = [size for tensor in tensors for size in tensor]
    if not all(isinstance(size, int) and 0 <= size < 1 << 40 for size in sizes):
        return None
    elements: int = sum(prod(tensor) for tensor in tensors)
    return elements * int(element_type[1]) // 8


class StepCommunication(Struct, frozen=True):
    """Communication of one step on one rank, in the traced pass."""

    rows: Ints
    """Rows of ``trace.gpu`` by start, shape (n,)."""
    total_ns: int
    """Union of their intervals within the step's span."""
    exposed_ns: int
    """Part without other work on the rank's GPU."""
    compute_ns: int
    """Other GPU work in the same span."""


def measure_communication(
    trace: Trace, traced_steps: tuple[Step, ...]
) -> tuple[StepCommunication, ...]:
    """Return the communication of each step of ``trace``; near-linear in the rows."""
    is_communicating = find_communication(trace)
    start, end = get_spans(trace.gpu)

    by_step = []
    for step in traced_steps:
        rows = step.gpu_rows[is_communicating[step.gpu_rows]]
        others = step.gpu_rows[~is_communicating[step.gpu_rows]]
        compute = measure_span_union(step, start[others], end[others])
        total = measure_span_union(step, start[rows], end[rows])
        # Exposed communication is its contribution to the union of all work.
        by_step.append(StepCommunication(rows, total, step.busy_ns - compute, compute))
    return tuple(by_step)


def find_communication(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return a mask of the communication kernels in ``trace.gpu``, shape (rows,)."""
    kinds, kind_names = encode(trace.gpu["kind"])
    names, texts = encode(trace.gpu["name"])
    if not len(names):
        return np.zeros(0, dtype=np.bool_)
    is_kernel = np.array([name == "kernel" for name in kind_names], dtype=np.bool_)
    is_communication = np.array(
        [get_collective_kind(text) is not None for text in texts], dtype=np.bool_
    )
    return np.asarray(is_communication[names] & is_kernel[kinds])


def get_collective_kinds(trace: Trace, rows: Ints) -> list[Collective]:
    """Return the kind of each of ``rows`` of ``trace.gpu``, which must be communication."""
    names, texts = encode(trace.gpu["name"])
    kinds = [get_collective_kind(text) or Collective.UNKNOWN for text in texts]
    return [kinds[code] for code in names[rows].tolist()]
