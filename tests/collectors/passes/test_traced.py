from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

PLAN = object()


@contextmanager
def provide(value: Any) -> Iterator[Any]:
    yield value


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Calls of the pass to stubs that replace modules which need torch."""
    made: dict[str, list[Any]] = {"prepare_mode": [], "trace_steps": []}
    torch = ModuleType("torch")
    torch.cuda = SimpleNamespace(CUDAGraph=type("CUDAGraph", (), {}))  # type: ignore[attr-defined]
    account = SimpleNamespace(read_trees=lambda name: None)

    def prepare_mode(*arguments: object) -> str:
        made["prepare_mode"].append(arguments)
        return "iterate"

    neighbours: dict[str, dict[str, Any]] = {
        "collectors.compiled.account": {"save_compilation": lambda out: provide(account)},
        "collectors.driver.graph_ids": {"get_torch_ids": lambda graphs: ()},
        "collectors.passes.capture_listener": {
            "CaptureListener": object,
            "record_captures": lambda listener: provide({}),
        },
        "collectors.passes.executor": {"prepare_step": lambda request: ("step", None)},
        "collectors.passes.modes": {"prepare_mode": prepare_mode},
        "collectors.passes.traced_steps": {
            "trace_steps": lambda *arguments: made["trace_steps"].append(arguments)
        },
        "collectors.process.requests": {"TRACE_FILE": "trace.json.gz", "PassRequest": object},
        "collectors.process.results": {"write_result": lambda *arguments: None},
        "collectors.workloads": {"Step": object},
    }
    monkeypatch.setitem(sys.modules, "torch", torch)
    for name, content in neighbours.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "collectors.passes.traced", raising=False)
    return made


@pytest.mark.parametrize("reads_graphs", [True, False])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_the_plan_of_the_collection_is_traced(
    calls: dict[str, list[Any]], tmp_path: Path, is_compiled: bool, reads_graphs: bool
) -> None:
    if reads_graphs:
        sys.modules["torch"].cuda.CUDAGraph.get_graph_data = None
    mode = SimpleNamespace(is_compiled=is_compiled)
    request = SimpleNamespace(mode=mode, plan=PLAN, out=str(tmp_path), traced_iterations=7)
    importlib.import_module("collectors.passes.traced").run(request)
    sys.modules.pop("collectors.passes.traced")
    assert calls["prepare_mode"] == [(mode, "step", PLAN)]
    assert calls["trace_steps"] == [("iterate", 7, tmp_path / "trace.json.gz")]
