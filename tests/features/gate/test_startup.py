from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.ledger.metrics import measure_startup
from graphviz_dash.features.gate.gate import (
    STARTUP_TIME_LIMIT,
    GateResult,
    build_baseline,
    check_gate,
)
from graphviz_dash.features.gate.gated import Verdict
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.ledger import Ledger
from tests.ledgers import MIB, MS, make_ledger, write_server


def gate(folder: Path, before: Ledger, now: Ledger) -> GateResult:
    write_server(folder / "before", ledger=before)
    write_server(folder / "now", ledger=now)
    baseline = build_baseline([load_experiment(folder / "before")])
    return check_gate(load_experiment(folder / "now"), baseline, "baseline")


def verdicts(result: GateResult) -> dict[str, Verdict]:
    return {change.metric.id: change.verdict for change in result.changes}


def grown(size: int) -> Ledger:
    samples = tuple(
        replace(each, device_used_bytes=each.device_used_bytes + size)
        for each in make_ledger().samples
    )
    return make_ledger(samples=samples)


def test_figures_of_a_ledger() -> None:
    assert measure_startup_of(make_ledger()) == {
        "startup_time": 3_602 * MS,
        "startup_memory": 1_090 * MIB,
    }
    assert measure_startup_of(make_ledger(startup_end_ns=None)) == {}


def measure_startup_of(ledger: Ledger) -> dict[str, int]:
    from graphviz_dash.model.run import ExecutionMode, Run, WorkloadInfo
    from tests.experiments import manifest

    workload = WorkloadInfo("server.py", "server.py", None, 0, 0, 0)
    described = manifest(ExecutionMode.RECORDED, workload)
    return measure_startup(Run(path=Path("run"), manifest=described, ledger=ledger))


@pytest.mark.parametrize(
    ("size", "verdict"),
    [(0, Verdict.WITHIN_LIMIT), (54, Verdict.WITHIN_LIMIT), (55, Verdict.WORSE)],
)
def test_bytes_are_held_within_the_limit(tmp_path: Path, size: int, verdict: Verdict) -> None:
    result = gate(tmp_path, make_ledger(), grown(size * MIB))
    assert verdicts(result)["startup_memory"] is verdict
    assert result.passed is (verdict is Verdict.WITHIN_LIMIT)


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1 + STARTUP_TIME_LIMIT, Verdict.WITHIN_LIMIT), (1.3, Verdict.WORSE), (0.9, Verdict.BETTER)],
)
def test_seconds_have_a_wider_limit(tmp_path: Path, factor: float, verdict: Verdict) -> None:
    now = make_ledger(startup_end_ns=round(3_602 * MS * factor))
    assert verdicts(gate(tmp_path, make_ledger(), now))["startup_time"] is verdict


def test_a_ledger_that_got_lost_fails(tmp_path: Path) -> None:
    result = gate(tmp_path, make_ledger(), make_ledger(startup_end_ns=None))
    assert not result.passed
    assert any("Start-up time is missing" in failure.text for failure in result.failures)
