"""``creation-order``: one graph whose nodes can be created in two orders with different run times.

Independent chains of a copy and a kernel that needs it. Copies queue for one copy engine, so the
order decides how much overlaps. The shortest copies should come first (S. M. Johnson, "Optimal two-
and three-stage production schedules", 1954). The driver starts independent nodes in creation order.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Final

import torch
from cuda.bindings import driver

from collectors.driver.calls import call
from collectors.workloads.explicit import (
    Arguments,
    GraphBuilder,
    Kernels,
    continue_after,
    get_capture_builder,
)
from graphviz_dash.errors import InputError

CHAINS: Final = ((16, 50), (8, 100), (4, 200), (2, 400))
"""Copy size in MiB and kernel duration in us: chains with long copies compute little."""

ORDERS: Final = {"longest-copy": CHAINS, "shortest-copy": CHAINS[::-1]}

SOURCE: Final = r"""
extern "C" __global__ void busy(long long ns) {
    long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begin < ns);
}
"""
_MIB: Final = 1 << 20


@dataclass(frozen=True)
class ChainOrder:
    """The chain created ``first``: "longest-copy" or "shortest-copy"; the others follow sorted by
    copy."""

    first: str = "longest-copy"


class CreationOrder:
    """The step: all chains, each on a separate stream when run eagerly."""

    def __init__(self, order: ChainOrder) -> None:
        if order.first not in ORDERS:
            raise InputError(
                f"--set first={order.first}", "no such order", f"one of {', '.join(ORDERS)}"
            )
        self._chains = ORDERS[order.first]
        self._busy = Kernels(SOURCE)["busy"]
        self._blocks = torch.cuda.get_device_properties().multi_processor_count
        self._source = [
            torch.zeros(mib * _MIB, dtype=torch.uint8).pin_memory() for mib, _ in CHAINS
        ]
        self._target = [torch.empty_like(tensor, device="cuda") for tensor in self._source]
        self._streams = [torch.cuda.Stream() for _ in CHAINS]
        torch.cuda.synchronize()

    def __call__(self) -> None:
        """Run one step, or add its nodes to a capture."""
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        if torch.cuda.is_current_stream_capturing():
            graph, after = get_capture_builder(stream)
            continue_after(stream, [self._build_graph(graph, after)])
        else:
            self._run_eagerly()

    def _build_graph(self, graph: GraphBuilder, after: list[Any]) -> Any:
        ends = []
        for mib, us in self._chains:
            target, source = self._get_buffers(mib)
            copied = graph.add_copy(target.data_ptr(), source.data_ptr(), mib * _MIB, "HtoD", after)
            ends.append(
                graph.add_kernel(self._busy, self._blocks, 1, _get_busy_arguments(us), [copied])
            )
        return graph.add_empty(ends)

    def _run_eagerly(self) -> None:
        main = torch.cuda.current_stream()
        for (mib, us), stream in zip(self._chains, self._streams, strict=True):
            stream.wait_stream(main)
            target, source = self._get_buffers(mib)
            with torch.cuda.stream(stream):
                target.copy_(source, non_blocking=True)
            shape = (self._blocks, 1, 1, 1, 1, 1, 0)
            handle = driver.CUstream(stream.cuda_stream)
            call(driver.cuLaunchKernel, self._busy, *shape, handle, _get_busy_arguments(us), 0)
        for stream in self._streams:
            main.wait_stream(stream)

    def _get_buffers(self, mib: int) -> tuple[torch.Tensor, torch.Tensor]:
        index = next(at for at, (size, _) in enumerate(CHAINS) if size == mib)
        return self._target[index], self._source[index]


def creation_order(order: ChainOrder) -> CreationOrder:
    """Four chains of a copy and a kernel, created in the given order."""
    return CreationOrder(order)


def _get_busy_arguments(us: int) -> Arguments:
    return (us * 1000,), (ctypes.c_longlong,)
