"""``superset``: one graph contains more nodes than a launch needs.

Unneeded nodes are disabled in the executable (cudaGraphNodeSetEnabled). The example is a model with
early exit.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Final

import torch
from cuda.bindings import driver

from collectors.driver.calls import call
from collectors.workloads.explicit import (
    INT,
    POINTER,
    Arguments,
    Kernels,
    continue_after,
    get_capture_builder,
)
from graphviz_dash.errors import InputError

COUNT: Final = 1 << 20
THREADS: Final = 256
LAYERS: Final = 8

SOURCE: Final = r"""
extern "C" __global__ void layer(float *data, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) data[at] = tanhf(data[at]) + 1.0f;
}
"""


@dataclass(frozen=True)
class Depth:
    """Number of the eight layers that run."""

    layers: int = 5


class Superset:
    """The step. ``result`` is its copy on the host, shape (COUNT,), float32."""

    def __init__(self, depth: Depth) -> None:
        if not 0 <= depth.layers <= LAYERS:
            raise InputError(f"--set layers={depth.layers}", "no such depth", f"0 to {LAYERS}")
        self._running = depth.layers
        self._layer = Kernels(SOURCE)["layer"]
        self._data = torch.zeros(COUNT, device="cuda")
        self.result = torch.empty(COUNT).pin_memory()
        self._nodes: list[Any] = []
        torch.cuda.synchronize()

    def __call__(self) -> torch.Tensor:
        """Run one step, or add its nodes to a capture."""
        stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        if not torch.cuda.is_current_stream_capturing():
            self._data.zero_()
            for _ in range(self._running):
                shape = (COUNT // THREADS, 1, 1, THREADS, 1, 1, 0)
                call(driver.cuLaunchKernel, self._layer, *shape, stream, self._get_arguments(), 0)
            self.result.copy_(self._data, non_blocking=True)
            return self.result
        graph, after = get_capture_builder(stream)
        last = graph.add_fill(self._data.data_ptr(), 0, COUNT, after)
        self._nodes = []
        for _ in range(LAYERS):
            blocks = COUNT // THREADS
            last = graph.add_kernel(self._layer, blocks, THREADS, self._get_arguments(), [last])
            self._nodes.append(last)
        source, target = self._data.data_ptr(), self.result.data_ptr()
        continue_after(stream, [graph.add_copy(target, source, 4 * COUNT, "DtoH", [last])])
        return self.result

    def adjust(self, executable: int) -> None:
        """Disable the layers that do not run."""
        for node in self._nodes[self._running :]:
            call(driver.cuGraphNodeSetEnabled, driver.CUgraphExec(executable), node, 0)

    def _get_arguments(self) -> Arguments:
        return (self._data.data_ptr(), ctypes.c_int(COUNT).value), (POINTER, INT)


def superset(depth: Depth) -> Superset:
    """Eight layers in the graph, of which ``depth`` run."""
    return Superset(depth)
