from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.trace.steps import StepMethod, find_steps
from graphviz_dash.ingest import cache as module
from graphviz_dash.ingest.cache import TraceCache, open_trace
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.load import load_run
from graphviz_dash.ingest.unfinished_step import name_unfinished_step
from graphviz_dash.model.marks import STEP, UNFINISHED_STEP
from tests.bundle.examples import RECORDING
from tests.samples import SAMPLES
from tests.trace_builder import TraceBuilder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    builder = TraceBuilder()
    for number in range(3):
        builder.annotation(f"{STEP}{number}", 1_000 * number, 900)
    builder.annotation(f"{STEP}name", 100, 10)
    return builder.write(tmp_path / "trace.json")


@pytest.mark.parametrize("complete", range(4))
def test_only_complete_steps_keep_their_marks(file: Path, complete: int) -> None:
    trace = read_trace(file)
    names = trace.annotations["name"].to_list()
    changed = name_unfinished_step(trace, replace(RECORDING, window_steps=complete))
    expected = [f"{STEP}{number}" for number in range(complete)]
    expected += [UNFINISHED_STEP] * (3 - complete)
    assert [name for name in changed.annotations["name"] if name != f"{STEP}name"] == expected
    assert changed.annotations.drop("name").equals(trace.annotations.drop("name"))
    assert trace.annotations["name"].to_list() == names


def test_a_cached_trace_reads_no_other_table(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_CACHED_EVENTS", 1)
    cache = TraceCache(tmp_path / "cache")
    open_trace(file, cache=cache)
    changed = name_unfinished_step(
        open_trace(file, cache=cache), replace(RECORDING, window_steps=2)
    )
    assert "annotations" in vars(changed)
    assert not {"gpu", "runtime", "ops", "python"} & set(vars(changed))
    assert changed.gpu.equals(read_trace(file).gpu)


@pytest.mark.parametrize("name", ["wasteful", "frugal"])
def test_a_program_that_ends_in_its_first_traced_step_has_other_steps(name: str) -> None:
    """The range of that step lasts 77 to 87 ms, a step of the program 0.8 ms."""
    run = load_run(SAMPLES / "recorded-decoder" / name)
    assert run.recording is not None
    assert run.recording.window_steps == 0
    assert run.replay_trace is not None
    steps = find_steps(run.replay_trace)
    assert {step.method for step in steps} == {StepMethod.REPLAYS}
    # Each of the three graphs has 60 nodes.
    assert [len(step.gpu_rows) for step in steps] == [180, 180, 180]
    assert all(step.span_end - step.span_start < 2_000_000 for step in steps)
