"""Ledgers of a recorded program and of a memory pass, against the driver and the program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from graphviz_dash.analysis.ledger.memory import LedgerPart
from graphviz_dash.analysis.ledger.report import build_ledger_report
from graphviz_dash.bundle import parts
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.ledger import SampleKind
from graphviz_dash.model.run import ExecutionMode, Pass

MIB = 1 << 20
SERVER = Path(__file__).parents[2] / "evaluation" / "ledger" / "server.py"


def test_a_recorded_program_adds_up_to_what_it_reads_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "collectors", "-o", str(tmp_path / "out"), "--steps", "0"]
    program = [sys.executable, str(SERVER), "--layers", "2", "--width", "512", "--sizes", "8,4,1"]
    done = subprocess.run([*command, "--", *program], capture_output=True, text=True, check=True)
    facts = json.loads(next(line for line in done.stdout.splitlines() if line[:5] == "FACTS")[6:])
    run = load_run(tmp_path / "out" / "recorded")
    report = build_ledger_report(run)
    assert report is not None
    assert report.memory is not None
    moment = report.memory.end_of_startup
    assert sum(moment.parts.values()) == moment.used == facts["used"]["first replay"]
    assert LedgerPart.REMAINDER not in moment.parts
    for part in (LedgerPart.CONTEXT, LedgerPart.KERNELS, LedgerPart.WEIGHTS, LedgerPart.POOLS):
        assert moment.parts[part] > MIB
    assert sum(report.startup.parts.values()) == report.startup.total_ns
    # The kernel counts the age of a process in ticks of 10 ms.
    clock = facts["seconds"]["first replay"]
    assert report.startup.total_ns / 1e9 == pytest.approx(clock, rel=0.02, abs=0.05)
    assert report.startup.recorder_ns < 0.02 * report.startup.total_ns
    assert [graph.graph for graph in report.graphs] == ["graph-0", "graph-1", "graph-2"]
    assert all((graph.capture_ns or 0) > 0 for graph in report.graphs)


def test_a_memory_pass_shows_operators_and_drops_its_graphs(tmp_path: Path) -> None:
    from collectors.process.requests import PassRequest
    from collectors.workloads import BUILT_IN

    factory = BUILT_IN["mlp-train"]
    request = PassRequest(Pass.MEMORY, ExecutionMode.GRAPH, factory, 0, 3, 5, 2, str(tmp_path))
    file = tmp_path / "request.json"
    file.write_bytes(msgspec.json.encode(request))
    subprocess.run([sys.executable, "-m", "collectors.passes.worker", str(file)], check=True)
    ledger = parts.LEDGER.read(tmp_path / parts.LEDGER.file_name)
    kinds = {sample.kind for sample in ledger.samples}
    assert {SampleKind.OPERATOR, SampleKind.CACHE_RELEASE, SampleKind.GRAPH_DROP} <= kinds
    operators = [s.name for s in ledger.samples if s.kind is SampleKind.OPERATOR]
    assert any(name is not None and "mm" in name for name in operators)
    assert ledger.startup_end_ns is not None
    assert ledger.states
    drops = [s for s in ledger.samples if s.kind is SampleKind.GRAPH_DROP]
    assert [sample.name for sample in drops] == ["graph-0"]
