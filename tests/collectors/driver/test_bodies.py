from __future__ import annotations

import importlib
import sys
from enum import IntEnum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from graphviz_dash.model.graph import ConditionalType
from tests.bundle.test_debug_dot import TEXT

ROOT = [0xB61C280, 0xB61E020, 0xB620C90, 0xB624068, 0xC4911F8, 0xC492830]
IF, WHILE = 0xB624068, 0xC4911F8


class Status(IntEnum):
    CUDA_SUCCESS = 0


class Kind(IntEnum):
    CU_GRAPH_COND_TYPE_IF = 0
    CU_GRAPH_COND_TYPE_WHILE = 1


class FakeDriver(ModuleType):
    """Driver 580, which tells bodies in its debug DOT alone; :meth:`newer` is as of CUDA 13.2."""

    def __init__(self) -> None:
        super().__init__("cuda.bindings.driver")
        self.version = 13000
        self.printed = 0
        self.nodes = ROOT
        self.CUgraphDebugDot_flags = SimpleNamespace(
            CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES=1024,
            CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS=32768,
        )

    def newer(self) -> None:
        self.version = 13020
        params = SimpleNamespace(type=Kind.CU_GRAPH_COND_TYPE_WHILE, phGraph_out=["a graph"])
        answer = SimpleNamespace(conditional=params)
        vars(self)["cuGraphNodeGetParams"] = lambda _node: (Status.CUDA_SUCCESS, answer)

    def cuDriverGetVersion(self) -> tuple[Status, int]:  # noqa: N802  # the driver's name
        return Status.CUDA_SUCCESS, self.version

    def cuGraphGetNodes(self, _graph: Any, count: int) -> tuple[Status, list[int], int]:  # noqa: N802
        return Status.CUDA_SUCCESS, self.nodes[:count], len(self.nodes)

    def cuGraphDebugDotPrint(self, _graph: Any, path: bytes, flags: int) -> tuple[Status]:  # noqa: N802
        assert flags == 1024 | 32768
        Path(path.decode()).write_text(TEXT, encoding="utf-8")
        self.printed += 1
        return (Status.CUDA_SUCCESS,)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    bindings = ModuleType("cuda.bindings")
    vars(bindings)["driver"] = fake
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", fake)
    monkeypatch.delitem(sys.modules, "collectors.driver.bodies", raising=False)
    return fake


def bodies() -> Any:
    module = importlib.import_module("collectors.driver.bodies")
    # The next test imports it with another driver.
    del sys.modules["collectors.driver.bodies"]
    return module.BodyFinder("the graph")


def test_the_debug_dot_leads_to_the_nodes_of_each_body(driver: FakeDriver) -> None:
    found = bodies()
    branch = found.find(IF)
    assert branch.type is ConditionalType.IF
    assert branch.graphs == ()
    assert branch.nodes == ((0xB6247D0, 0xC48FBC0), ())
    assert found.find(WHILE).type is ConditionalType.WHILE
    assert driver.printed == 1


def test_a_text_that_disagrees_with_the_driver_is_not_believed(driver: FakeDriver) -> None:
    driver.nodes = [*ROOT[:-1], 0xDEAD]
    assert bodies().find(IF) is None


def test_a_node_that_the_text_does_not_have_has_no_bodies(driver: FakeDriver) -> None:
    assert bodies().find(0xDEAD) is None


def test_a_newer_driver_gives_the_graphs(driver: FakeDriver) -> None:
    driver.newer()
    found = bodies().find(WHILE)
    assert (found.type, found.graphs, found.nodes) == (ConditionalType.WHILE, ("a graph",), ())
    assert driver.printed == 0
