"""Read ids of a captured graph from torch's get_graph_data, in the form documented for torch 2.12.

It needs a driver of CUDA 13.1, so the results are written here.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from graphviz_dash.model.node_ids import GraphIds


class Graph:
    """A torch.cuda.CUDAGraph of torch 2.12 with these nodes."""

    def __init__(self, exec_id: int, numbers: list[int]) -> None:
        self._exec_id = exec_id
        self._numbers = numbers

    def get_graph_data(self) -> dict[str, Any]:
        return {
            "exec_graph_id": self._exec_id,
            "nodes": [
                {
                    "index": index,
                    "node_type": "kernel",
                    "tools_id": (self._exec_id << 32) | number,
                    "graph_id": self._exec_id,
                    "node_id": number,
                    "kernel_name": "_Z1kv",
                    "event_ptr": 0,
                    "dependencies": [index - 1] if index else [],
                    "dependents": [],
                }
                for index, number in enumerate(self._numbers)
            ],
        }


class OldDriver:
    """An old driver, for which torch raises an error."""

    def get_graph_data(self) -> dict[str, Any]:
        raise RuntimeError("get_graph_data requires cudaGraphNodeGetToolsId")


@pytest.fixture(autouse=True)
def _no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces cuda-python if not installed; the result of torch does not need it."""
    try:
        import cuda.bindings.driver  # noqa: F401
    except ImportError:
        package, bindings = ModuleType("cuda"), ModuleType("cuda.bindings")
        bindings.driver = ModuleType("cuda.bindings.driver")  # type: ignore[attr-defined]
        topology = ModuleType("collectors.driver.topology")
        topology.call = None  # type: ignore[attr-defined]
        modules = {
            "cuda": package,
            "cuda.bindings": bindings,
            "collectors.driver.topology": topology,
        }
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.delitem(sys.modules, "collectors.driver.graph_ids", raising=False)


def test_ids_of_each_graph_that_has_nodes() -> None:
    from collectors.driver.graph_ids import get_torch_ids

    graphs = {"graph-0": Graph(4, []), "graph-1": Graph(7, [0, 1, 2]), "graph-2": Graph(9, [0, 2])}
    assert get_torch_ids(graphs) == (
        GraphIds("graph-1", (7,), (0, 1, 2)),
        GraphIds("graph-2", (9,), (0, 2)),
    )


def test_an_old_torch_and_an_old_driver_tell_none() -> None:
    from collectors.driver.graph_ids import get_torch_ids

    assert get_torch_ids({"graph-0": object()}) == ()
    assert get_torch_ids({"graph-0": OldDriver()}) == ()
