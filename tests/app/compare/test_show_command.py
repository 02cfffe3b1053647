from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.cli.fixtures import Invoke, invoke
from tests.samples import SAMPLES

__all__ = ["invoke"]


def get_dependency_source(invoke: Invoke, run: Path) -> str:
    document = json.loads(invoke("show", str(run), "--json").out)
    return str(document["graphs"][0]["parallel"]["dependency_source"])


def test_the_plan_of_another_run_shows_the_data_flow(invoke: Invoke, tmp_path: Path) -> None:
    run = SAMPLES / "experts" / "graph"
    assert get_dependency_source(invoke, run) == "operators"
    alone = shutil.copytree(run, tmp_path / "graph")
    assert get_dependency_source(invoke, alone) == "memory"


def test_an_unreadable_run_next_to_it_does_not_matter(invoke: Invoke, tmp_path: Path) -> None:
    run = shutil.copytree(SAMPLES / "experts" / "graph", tmp_path / "graph")
    broken = shutil.copytree(SAMPLES / "experts" / "parallel", tmp_path / "parallel")
    (broken / "parallel.json.gz").write_bytes(b"no gzip")
    assert get_dependency_source(invoke, run) == "memory"


def test_only_graphs_of_which_json_has_all_say_so(invoke: Invoke) -> None:
    """The document has no list of captures, and the recorder stops counting steps at the window."""
    run = str(SAMPLES / "recorded-server" / "vllm-sizes")
    lines = invoke("show", run, "--all", "--nodes", "0").out.splitlines()
    graphs = json.loads(invoke("show", run, "--json", "--nodes", "0").out)["graphs"]
    assert [line for line in lines if line.startswith("and ")] == [
        "and 155 more",
        f"and {len(graphs) - 16} more; --json has all",
    ]
    # The first graphs were not replayed in the traced window.
    assert not any("0 of 0 GPU records" in line for line in lines)
    assert "iterations  301 timed, 40 traced, of the first 378 steps" in lines
