from __future__ import annotations

import shutil
from pathlib import Path

from graphviz_dash.features.torch_compile.analysis.report import build_compile_report
from graphviz_dash.importers.bundles import import_files
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.compile_rules import CompileRuleId

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "sample_traces" / "mlp-train" / "compile" / "traces" / "replay.json.gz"
LOGS = ROOT / "tests" / "ingest" / "formats" / "compile_logs"
NAME = "dedicated_log_torch_trace_ab12.log"


def test_a_log_joins_the_trace_in_its_folder(tmp_path: Path) -> None:
    trace = Path(shutil.copy(TRACE, tmp_path / "train.json.gz"))
    log = Path(shutil.copy(LOGS / "torch-2.13.log", tmp_path / NAME))
    (imported,) = import_files([trace, log], tmp_path / "out")
    run = load_run(imported.path)
    assert run.compilation is not None
    assert run.compilation.torch == "2.13.0+cpu"
    report = build_compile_report(run)
    assert not isinstance(report, Missing)
    # The trace's region 0/0 is the log's compilation 0/0.
    (frame,) = [box for box in report.tree.walk() if box.id == "frame 0/0"]
    assert ("calls per step", "1") in frame.facts
    assert frame.line is not None
    assert frame.line.text == "steps.py:6"
    rules = {cause.rule for cause in report.causes}
    assert {CompileRuleId.VALUE_READ, CompileRuleId.RECOMPILING} <= rules


def test_a_log_of_another_name_is_a_run_of_its_own(tmp_path: Path) -> None:
    trace = Path(shutil.copy(TRACE, tmp_path / "train.json.gz"))
    log = Path(shutil.copy(LOGS / "torch-2.11.log", tmp_path / "other.log"))
    imported = import_files([trace, log], tmp_path / "out")
    assert sorted(run.path.name for run in imported) == ["other.log", "train"]


def test_two_logs_and_one_trace_are_not_guessed_at(tmp_path: Path) -> None:
    trace = Path(shutil.copy(TRACE, tmp_path / "train.json.gz"))
    logs = [
        Path(
            shutil.copy(LOGS / f"torch-{version}.log", tmp_path / f"dedicated_log_torch_trace_{n}")
        )
        for n, version in enumerate(("2.11", "2.13"))
    ]
    runs = [load_run(run.path) for run in import_files([trace, *logs], tmp_path / "out")]
    assert len(runs) == 3
    assert not any(run.replay_trace is not None and run.compilation is not None for run in runs)
