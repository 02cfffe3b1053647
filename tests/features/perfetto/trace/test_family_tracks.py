from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from graphviz_dash.features.perfetto.trace.chrome import export_chrome
from graphviz_dash.features.perfetto.trace.perfetto import export_perfetto
from graphviz_dash.features.perfetto.trace.perfetto_check import check_trace
from graphviz_dash.ingest.load import load_experiment, load_run
from graphviz_dash.model.loop import StepKind
from graphviz_dash.model.run import Experiment
from tests.builders import make_experiment
from tests.exports.reading import read_chrome, read_perfetto
from tests.loops import make_server


@pytest.fixture
def served(tmp_path: Path) -> Experiment:
    """The traced steps of an experiment as if a server had made them."""
    server = load_run(make_server(tmp_path / "service", requests=[3, 20, 40, 1]))
    assert server.loop is not None
    first = server.loop.steps.kind.index(StepKind.REPLAY)
    loop = msgspec.structs.replace(server.loop, window_rows=(first, first + 1, first + 2))
    toy = load_experiment(make_experiment(tmp_path / "toy"))
    return replace(toy, runs=(replace(toy.runs[-1], loop=loop),))


def test_steps_are_called_after_their_keys(served: Experiment, tmp_path: Path) -> None:
    expected = [("batch 4", 3, 4), ("batch 32", 20, 32), ("fallback", 40, None)]
    for summary, read in (
        (export_perfetto(served, tmp_path / "t.pftrace"), read_perfetto),
        (export_chrome(served, tmp_path / "t.json"), read_chrome),
    ):
        trace = read(summary.path)
        steps = [each for each in trace.slices if each.category == "family step"]
        assert [
            (step.name, step.args.get("real_size"), step.args.get("padded_size")) for step in steps
        ] == expected[: len(steps)]
        assert len(steps) >= 2
        assert {step.track for step in steps} == {"steps of decode"}
    check_trace(tmp_path / "t.pftrace")
