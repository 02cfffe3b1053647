from __future__ import annotations

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.features.torch_compile.analysis.recording_causes import find_repeated_call_causes
from graphviz_dash.features.torch_compile.analysis.savings import StepCosts
from graphviz_dash.features.torch_compile.analysis.step_time import compute_step_time
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compilation import CompiledFrame
from tests.samples import SAMPLES


@pytest.mark.parametrize(
    ("run", "factor", "told"),
    [("fixed-1", 1, [9]), ("fixed-1", 5, []), ("fixed-2", 1, [])],
    ids=["a text is a step", "each step calls it for five layers", "a token is a step"],
)
def test_calls_in_one_step(run: str, factor: int, told: list[int]) -> None:
    recorded = load_run(SAMPLES / "compile-generate" / run)
    compilation, trace = recorded.compilation, recorded.replay_trace
    assert compilation is not None
    assert trace is not None
    time = compute_step_time(trace, find_steps(trace), compilation)
    assert not isinstance(time, Missing)
    calls = tuple(replace(call, replays=call.replays * factor) for call in time.calls)
    frames: dict[str, CompiledFrame] = {frame.id: frame for frame in compilation.frames}
    costs = StepCosts(replace(time, calls=calls), 250_000.0, False)
    causes = list(find_repeated_call_causes(compilation, frames, costs))
    assert [cause.count for cause in causes] == told
    assert all(cause.lines[0].text == "generate.py:55" for cause in causes)
