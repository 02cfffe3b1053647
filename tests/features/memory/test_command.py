from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.bundle.examples import MEMORY_PASS
from tests.cli.fixtures import Invoke
from tests.experiments import make_experiment


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make_experiment(tmp_path / "mlp", memory_pass={"graph": MEMORY_PASS})


def test_a_run_in_parts(experiment: Path, invoke: Invoke) -> None:
    result = invoke("memory", str(experiment))
    assert result.code == 0
    assert result.out.startswith("graph reserves 4.00 MiB in steady state\n")
    assert "memory outside the allocator may belong to" in result.out
    assert re.search(r"^device memory +9\.00 MiB$", result.out, re.M)
    assert re.search(r"^outside the allocator +5\.00 MiB$", result.out, re.M)
    assert re.search(r"^graph-0 +1\.00 KiB +1\.00 KiB +0 B +512 B +1\.00 KiB +2$", result.out, re.M)
    assert "eager: the bundle has no memory pass" in result.out


def test_no_graphs_on_request(experiment: Path, invoke: Invoke) -> None:
    assert "graph-0" not in invoke("memory", str(experiment), "--graphs", "0").out


def test_json(experiment: Path, invoke: Invoke) -> None:
    document = json.loads(invoke("memory", str(experiment), "--json").out)
    assert document["schema"] == "graphviz-dash/memory"
    assert document["experiment"] == {"name": "mlp", "path": "mlp"}
    assert document["unavailable"] == {"eager": "the bundle has no memory pass"}
    (run,) = document["runs"]
    assert sum(run["parts"].values()) == run["total"] == 9 << 20
    (pool,) = run["pools"]
    inside = ("exclusive", "shared", "unused", "workspaces")
    assert sum(pool[part] for part in inside) + sum(pool["by_owner"].values()) == pool["reserved"]


def test_an_unknown_baseline_is_refused(experiment: Path, invoke: Invoke) -> None:
    result = invoke("memory", str(experiment), "--baseline", "partial")
    assert result.code == 2
    assert "no run or mode 'partial'" in result.err
