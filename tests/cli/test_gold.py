from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.fixtures import Invoke
from tests.gold import assert_gold

GOLD = Path(__file__).parent / "gold"

COMMANDS = {
    "ls": ("ls", "sample_traces"),
    "compare-brief": ("compare", "sample_traces/mlp-train"),
    "compare": ("compare", "sample_traces/mlp-train", "--all"),
    "compare-baseline": (
        *("compare", "sample_traces/mlp-train", "--all"),
        *("--baseline=graph", "--kernels=2"),
    ),
    "compare-failed": ("compare", "sample_traces/sync-in-step", "--all", "--kernels", "0"),
    "show-brief": ("show", "sample_traces/mlp-train/graph"),
    "show-eager": ("show", "sample_traces/mlp-train/eager", "--all"),
    "show-graph": ("show", "sample_traces/mlp-train/graph", "--all", "--nodes", "3"),
    "show-failed": ("show", "sample_traces/sync-in-step/graph", "--all"),
    "launch": ("launch", "sample_traces/launch-h200"),
    "launch-two": ("launch", "sample_traces/launch-h200", "sample_traces/launch-h200"),
    "validate": ("validate", "sample_traces"),
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", COMMANDS)
def test_text(name: str, invoke: Invoke) -> None:
    result = invoke(*COMMANDS[name])
    assert result.code == 0
    assert_gold(result.out, GOLD / f"{name}.txt")
    assert result.err == ""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "name", [name for name in COMMANDS if name != "validate" and not name.endswith("-brief")]
)
def test_json(name: str, invoke: Invoke) -> None:
    result = invoke(*COMMANDS[name], "--json")
    assert result.code == 0
    assert result.out.isascii()
    document = json.loads(result.out)
    assert document["schema"] == f"graphviz-dash/{COMMANDS[name][0]}"
    assert document["version"] == 2
    assert_gold(result.out, GOLD / f"{name}.json")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", COMMANDS)
def test_lines_end_where_their_text_ends(name: str, invoke: Invoke) -> None:
    out = invoke(*COMMANDS[name]).out
    assert [line for line in out.splitlines() if line != line.rstrip()] == []
    assert "\x1b" not in out
