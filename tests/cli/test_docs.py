"""docs/cli.md: its examples run, and it names every field of the JSON documents."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphviz_dash.analysis.metrics.registry import METRICS
from graphviz_dash.model.launch import LaunchMeasure
from tests.cli.fixtures import Invoke

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
SAMPLES = Path(__file__).parents[2] / "sample_traces"
EXAMPLES = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.S)
    for line in block.splitlines()
    if line.startswith("$ ")
]

# Keys that are data: ids of metrics, names of runs, kinds, categories, methods.
DATA = {
    *METRICS,
    *LaunchMeasure,
    "Host",
    *("eager", "graph", "Kernel", "Memcpy", "Memset"),
    *("gemm", "attention", "elementwise", "reduction", "communication", "memory", "other"),
}


def keys(value: object) -> Iterator[str]:
    """All keys of a document, at any depth, less those of objects that map data to data."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in ("methods", "unavailable", "counts"):
                yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


def test_there_are_examples() -> None:
    commands = {shlex.split(example)[1] for example in EXAMPLES}
    assert {"ls", "show", "compare", "validate", "export"} <= commands


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example: str, folder: Path, invoke: Invoke) -> None:
    # What no builder of tests makes: a step that torch compiled.
    (folder / "sample_traces" / "compile-mends").symlink_to(SAMPLES / "compile-mends")
    words = shlex.split(example.partition(" > ")[0])
    assert words[0] == "graphviz-dash"
    result = invoke(*words[1:])
    assert result.code == 0, result.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", "sample_traces"),
        ("show", "sample_traces/mlp-train/graph"),
        ("show", "sample_traces/sync-in-step/graph"),
        ("compare", "sample_traces/mlp-train"),
        ("compare", "sample_traces/sync-in-step"),
        ("gate", "sample_traces/mlp-train", "--baseline", "sample_traces/mlp-train"),
        ("launch", "sample_traces/launch-h200"),
        ("predict", "sample_traces/mlp-train"),
        ("predict", "sample_traces/sync-in-step/eager"),
    ],
)
def test_every_field_is_described(arguments: tuple[str, ...], invoke: Invoke) -> None:
    document = json.loads(invoke(*arguments, "--json").out)
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.S)
    described = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`]+)`", prose))))
    assert set(keys(document)) - DATA - described == set()
