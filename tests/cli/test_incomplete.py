from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.cli.fixtures import Invoke
from tests.experiments import replay_trace
from tests.ingest.test_load import replace_trace

EXPERIMENT = "sample_traces/mlp-train"


@pytest.fixture
def cut(folder: Path) -> Path:
    """The folder, with the graphed run's replay trace cut as a killed job leaves it."""
    text = replay_trace(steps=5).text().encode()
    replace_trace(folder / EXPERIMENT / "graph", gzip.compress(text[: len(text) // 2]))
    return folder


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", EXPERIMENT),
        ("compare", EXPERIMENT, "--json"),
        ("show", f"{EXPERIMENT}/graph"),
        ("memory", EXPERIMENT),
        ("diff", f"{EXPERIMENT}/graph", f"{EXPERIMENT}/graph"),
        ("export", "perfetto", EXPERIMENT, "-o", "out.json"),
        ("export", "kernels", EXPERIMENT, "-o", "out.csv"),
        ("export", "equation", EXPERIMENT, "-o", "out.csv"),
        ("export", "dot", f"{EXPERIMENT}/graph", "-o", "out.dot"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_each_command_that_reads_the_trace_tells(
    invoke: Invoke, arguments: tuple[str, ...]
) -> None:
    result = invoke(*arguments)
    assert result.code == 0, result.err
    told = [line for line in result.err.splitlines() if line.startswith("Warning: graph: ")]
    (line,) = told
    assert "The trace is truncated: JSON ends unexpectedly after" in line


def test_a_prediction_from_a_cut_trace_tells(folder: Path, invoke: Invoke) -> None:
    trace = (folder / EXPERIMENT / "eager/traces/replay.json.gz").read_bytes()
    text = gzip.decompress(trace)
    (folder / "cut.json").write_bytes(text[: len(text) * 9 // 10])
    result = invoke("predict", "cut.json")
    assert result.code == 0
    assert "Warning: cut.json: The trace is truncated" in result.err


@pytest.mark.usefixtures("cut")
def test_validate_and_the_weak_figures_tell_too(invoke: Invoke) -> None:
    assert "The trace is truncated" in invoke("validate", EXPERIMENT).out
    assert "The trace is truncated" in invoke("compare", EXPERIMENT, "--all").out


@pytest.mark.usefixtures("folder")
def test_nothing_is_said_of_whole_traces(invoke: Invoke) -> None:
    assert "truncated" not in invoke("compare", EXPERIMENT).err
