"""Find the operators that need cuBLAS workspace and measure how much they write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import torch

from collectors.parallel.capture import StepGraph
from collectors.parallel.follow import Follower
from collectors.parallel.observer import count_nodes
from collectors.parallel.streams import (
    allocate_workspaces,
    compute_fitted_bytes,
    find_workspace,
    get_streams,
)
from collectors.workloads import Step
from graphviz_dash.model.graph import CapturedGraph, GraphNode, KernelParams, NodeKind
from graphviz_dash.model.parallel import Operator, Storage

Kernels: TypeAlias = tuple[object, ...]
"""Nodes of an operator; for a kernel its name, grid, block and shared memory."""

_PATTERNS: Final = (0x5A, 0xA5)
"""Two patterns without equal bytes."""
_GRAIN: Final = 512


class _NodeCounter(Follower):
    def __init__(self, operators: Sequence[Operator], storages: Sequence[Storage]) -> None:
        super().__init__(operators, storages)
        self.nodes = [0] * len(operators)

    def run_operator(self, index: int, function: Callable[[], Any]) -> Any:
        before = count_nodes()
        result = function()
        self.nodes[index] = count_nodes() - before
        return result


def split_kernels(graph: CapturedGraph, sizes: Sequence[int]) -> tuple[Kernels, ...]:
    """Return the kernels of each operator in ``graph``, given node counts ``sizes``."""
    kernels, begin = [], 0
    for size in sizes:
        kernels.append(tuple(map(_describe_node, graph.nodes[begin : begin + size])))
        begin += size
    return tuple(kernels)


def find_workspace_users(
    step: Step,
    operators: Sequence[Operator],
    storages: Sequence[Storage],
    kernels: Sequence[Kernels],
    stream: torch.cuda.Stream,
) -> tuple[set[int], StepGraph]:
    """Return operators that run other ``kernels`` on ``stream``, and the capture there."""
    counted = _NodeCounter(operators, storages)
    captured = StepGraph(step, stream, counted)
    sizes = [
        counted.nodes[index] if operator.name else operator.nodes
        for index, operator in enumerate(operators)
    ]
    return find_changed_kernels(kernels, split_kernels(captured.read_graph(), sizes)), captured


def find_changed_kernels(kernels: Sequence[Kernels], others: Sequence[Kernels]) -> set[int]:
    """Return the operators whose kernels differ."""
    return {
        index
        for index, operator_kernels_before in enumerate(kernels)
        if operator_kernels_before != others[index]
    }


def fit_workspace(
    step: Step,
    operators: Sequence[Operator],
    storages: Sequence[Storage],
    kernels: Sequence[Kernels],
    line: StepGraph,
    stream: torch.cuda.Stream,
) -> int | None:
    """Return the workspace bytes that a wide stream needs, measured by replaying ``line``.

    None if no reduced size works: kernels and written bytes must be the same there.
    """
    full = find_workspace(stream)
    used = 0 if full is None else _measure_written_bytes(line, full)
    size = compute_fitted_bytes(used, full.numel()) if full is not None and used else None
    if size is None:
        return None
    (fitted,) = get_streams([True], size)
    allocate_workspaces([fitted])
    reduced = find_workspace(fitted)
    # A torch version may pass the real size to cuBLAS, or allocate more.
    if reduced is None or reduced.numel() != size:
        return None
    differing, captured = find_workspace_users(step, operators, storages, kernels, fitted)
    return size if not differing and _measure_written_bytes(captured, reduced) == used else None


def _measure_written_bytes(captured: StepGraph, memory: torch.Tensor) -> int:
    """Measure how many bytes of ``memory`` a replay writes, rounded up to 512."""
    written = torch.zeros(memory.numel() // _GRAIN, dtype=torch.bool, device=memory.device)
    for pattern in _PATTERNS:
        memory.fill_(pattern)
        torch.cuda.synchronize()
        captured.graph.replay()
        torch.cuda.synchronize()
        written |= (memory != pattern).view(-1, _GRAIN).any(1)
    touched = written.nonzero()
    return (int(touched[-1]) + 1) * _GRAIN if touched.numel() else 0


def _describe_node(node: GraphNode) -> object:
    params = node.params
    if node.kind is NodeKind.KERNEL and isinstance(params, KernelParams):
        return params.name, params.grid, params.block, params.dynamic_shared
    return node.kind
