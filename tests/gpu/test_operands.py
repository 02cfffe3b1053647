from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphviz_dash.model.graph import GraphNode, NodeKind, Operand

UNREAD = {
    "aten.ones_like.default",
    "aten.native_layer_norm_backward.default",
    "aten.convolution_backward.default",
    "aten.cudnn_batch_norm_backward.default",
}
"""Operators that are given tensors of which they look at the shape alone, or not at all."""


class Given:
    """A tensor that an operator was given or gave, and the nodes that the operator launched."""

    def __init__(self, op: str, address: int, first: int, last: int) -> None:
        self.op, self.address, self.nodes = op, address, slice(first, last)


def watch(step: Callable[[], object]) -> tuple[tuple[GraphNode, ...], list[Given], Any]:
    """Capture ``step``: nodes with operands, operator inputs, and a resolver of addresses."""
    import torch
    from cuda.bindings import driver
    from torch.utils._python_dispatch import TorchDispatchMode

    from collectors.allocator.history import end_recording, read_segments, start_recording
    from collectors.driver.calls import call
    from collectors.driver.node_operands import find_extent
    from collectors.driver.operands import AllocationResolver, list_live_extents
    from collectors.driver.topology import read_graph_with_positions

    def launched() -> int:
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        _, _, graph, *_ = call(driver.cuStreamGetCaptureInfo, stream)
        return int(call(driver.cuGraphGetNodes, graph, 0)[1])

    found: list[Given] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            first = launched()
            result = func(*args, **(kwargs or {}))
            last = launched()
            read = () if str(func) in UNREAD else (args, kwargs)
            for one in torch.utils._pytree.tree_leaves((read, result)):
                if isinstance(one, torch.Tensor) and one.is_cuda and one.numel() and last > first:
                    found.append(Given(str(func), one.data_ptr(), first, last))
            return result

    torch.cuda.synchronize()
    before = read_segments()
    start_recording()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph), Watch():
        step()
    blocks = list_live_extents(before, end_recording())
    reach = AllocationResolver(read_segments(), blocks, find_extent)
    (read, *_), _ = read_graph_with_positions(graph.raw_cuda_graph(), "g", reach)
    return read.nodes, found, reach


def reaches(nodes: tuple[GraphNode, ...], operand: Operand) -> bool:
    """Return True if a node may reach part of ``operand`` or is unknown."""
    return any(
        node.operands is None
        or any(
            one.allocation == operand.allocation
            and one.offset < operand.offset + operand.bytes
            and operand.offset < one.offset + one.bytes
            for one in node.operands
        )
        for node in nodes
    )


def mlp() -> Callable[[], object]:
    import torch

    model = torch.nn.Sequential(
        *(
            layer
            for _ in range(3)
            for layer in (torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.LayerNorm(512))
        )
    ).cuda()
    data = torch.randn(256, 512, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), capturable=True, foreach=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(data).square().mean().backward()
        optimizer.step()

    return step


def attention() -> Callable[[], object]:
    import torch

    # Products of this size use the tensor memory accelerator, whose descriptors hold addresses.
    model = torch.nn.TransformerEncoderLayer(
        2048, 16, 8192, batch_first=True, dtype=torch.bfloat16, device="cuda", dropout=0.1
    )
    data = torch.randn(4, 1024, 2048, device="cuda", dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(data).float().square().mean().backward()
        optimizer.step()

    return step


def convolution() -> Callable[[], object]:
    import torch

    model = torch.nn.Sequential(
        torch.nn.Conv2d(16, 64, 3, padding=1),
        torch.nn.BatchNorm2d(64),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 32, 3),
    ).cuda()
    data = torch.randn(16, 16, 64, 64, device="cuda")
    return lambda: model(data).square().mean().backward()


@pytest.mark.parametrize("make", [mlp, attention, convolution], ids=lambda make: make.__name__)
def test_operators_reach_the_tensors_that_they_are_given(
    make: Callable[[], Callable[[], object]],
) -> None:
    import torch

    step = make()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    nodes, found, reach = watch(step)
    kernels = [node for node in nodes if node.kind is NodeKind.KERNEL]
    unknown = [node.label for node in kernels if node.operands is None]
    missed = {
        one.op
        for one in found
        if (operand := reach.resolve(one.address)) is None or not reaches(nodes[one.nodes], operand)
    }
    print(len(kernels), "kernels,", len(unknown), "unknown:", sorted(set(unknown))[:8])
    print(len({one.op for one in found}), "operators, missed:", sorted(missed))
    assert len(unknown) * 20 <= len(kernels)
    assert not missed


def test_work_on_different_tensors_shares_no_memory() -> None:
    import torch

    one, two, three = (torch.ones(4096, device="cuda") for _ in range(3))

    def step() -> None:
        one.add_(1)
        two.mul_(2)
        three.copy_(one)
        three.zero_()

    step()
    nodes, _, reach = watch(step)
    add, mul, copy, zero = nodes
    where = [reach.resolve(tensor.data_ptr()) for tensor in (one, two, three)]
    assert add.operands == (where[0],)
    assert mul.operands == (where[1],)
    assert copy.operands is not None
    assert set(copy.operands) == {where[0], where[2]}
    assert zero.operands == (where[2],)
    assert all(operand is not None and operand.bytes == 4 * 4096 for operand in where)
