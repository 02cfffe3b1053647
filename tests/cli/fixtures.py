from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from graphviz_dash.app.cli.main import main
from graphviz_dash.bundle.launch import write_launch
from graphviz_dash.model.launch import Topology
from graphviz_dash.model.run import Failure, Pass
from tests.analysis.launches import lines, recording, series
from tests.experiments import make_experiment, make_run
from tests.importers.fleets import work_in_threads


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Invoke = Callable[..., Result]

FAILURE = Failure(
    stage=Pass.CLEAN,
    error="AcceleratorError",
    message="CUDA error: operation not permitted when stream is capturing\nand more",
    location="model.py:15",
    traceback="Traceback (most recent call last): ...",
)


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs ``graphviz-dash`` with the given arguments, in threads instead of processes."""
    work_in_threads(monkeypatch)

    def run(*arguments: str) -> Result:
        capsys.readouterr()
        code = main(arguments)
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; it holds sample_traces/ with two experiments, one with a failed
    capture."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    make_experiment(tmp_path / "sample_traces" / "mlp-train", traced=5)
    make_run(tmp_path / "sample_traces" / "sync-in-step", "eager", workload="sync-in-step")
    make_run(
        tmp_path / "sample_traces" / "sync-in-step",
        "graph",
        workload="sync-in-step",
        failure=FAILURE,
    )
    others = [
        series(Topology(width, 10, False, None, 10 * width), 1000.0 * width) for width in (2, 4, 8)
    ]
    host = series(Topology(1, 128, False, "Host", 128), 8000.0)
    straight = lines(lambda nodes: 2000.0 + 3 * max(0, nodes - 64))
    launches = recording(*straight, series(Topology(1, 10, False, None, 10), 2000.0), *others, host)
    write_launch(tmp_path / "sample_traces" / "launch-h200", launches)
    return tmp_path
