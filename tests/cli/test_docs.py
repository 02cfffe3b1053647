"""Examples of docs/cli.md and of the guides run, and cli.md names every field of JSON documents."""

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

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text()
SAMPLES = ROOT / "sample_traces"
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


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", page.read_text(), re.S | re.M)


def _tried(page: Path) -> Iterator[str]:
    """The commands of a page that read samples and end without a GPU."""
    blocks = "\n".join(_blocks(page, r"\w*"))
    inline = re.findall(r"`(graphviz-dash [^`]+)`", page.read_text())
    for line in (*blocks.splitlines(), *(" ".join(each.split()) for each in inline)):
        if line.startswith("graphviz-dash ") and " sample_traces/" in line:
            yield line


GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("[!_]*/*.md"))]
GUIDE_EXAMPLES = sorted({line for page in GUIDES for line in _tried(page)})


def test_guides_have_examples() -> None:
    commands = {shlex.split(example)[1] for example in GUIDE_EXAMPLES}
    assert {"compare", "compile", "doctor", "gate", "ladder", "memory", "predict"} <= commands


@pytest.mark.parametrize("example", GUIDE_EXAMPLES)
def test_an_example_of_a_guide_runs(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    (tmp_path / "sample_traces").symlink_to(SAMPLES)
    monkeypatch.chdir(tmp_path)
    words = shlex.split(example)[1:]
    result = invoke(*words)
    # The doctor of a failed capture exits with 1.
    assert result.code == (1 if words[0] == "doctor" else 0), result.err


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_python_of_a_guide_compiles(page: Path) -> None:
    for block in _blocks(page, "python"):
        compile(block, str(page), "exec")
