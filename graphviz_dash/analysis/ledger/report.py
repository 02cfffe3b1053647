"""The complete ledger of a run, for all surfaces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from graphviz_dash.analysis.ledger.fit import FitChange, FitPrediction, predict_fit
from graphviz_dash.analysis.ledger.graphs import GraphLedger, build_graph_ledgers
from graphviz_dash.analysis.ledger.memory import MemoryLedger, MemoryMoment, build_memory_ledger
from graphviz_dash.analysis.ledger.savings import Saving, find_savings
from graphviz_dash.analysis.ledger.startup import StartupLedger, build_startup_ledger
from graphviz_dash.model.ledger import SampleKind

if TYPE_CHECKING:
    from graphviz_dash.model.ledger import Ledger
    from graphviz_dash.model.run import Run


class LedgerProcess(Struct, frozen=True):
    """Process that a ledger belongs to."""

    pid: int
    parent_pid: int
    role: str | None
    """Name in the program. None if unknown."""
    rank: int | None
    """None for a single process."""
    device: int | None
    """Index of the device. None without a CUDA context."""


class LedgerReport(Struct, frozen=True):
    """Ledger of one run."""

    run: str
    process: LedgerProcess
    memory: MemoryLedger | None
    """Device memory. None without a CUDA context."""
    startup: StartupLedger
    graphs: tuple[GraphLedger, ...]
    savings: tuple[Saving, ...]
    """Possible savings, largest first."""

    @property
    def largest_graphs(self) -> tuple[GraphLedger, ...]:
        """Graphs by added memory, largest first."""
        return tuple(sorted(self.graphs, key=lambda graph: -(graph.added_bytes or 0)))

    @property
    def key_moments(self) -> tuple[tuple[str, MemoryMoment], ...]:
        """Moments to show side by side, labelled."""
        return () if self.memory is None else tuple(_select_moments(self.memory))


def _select_moments(memory: MemoryLedger) -> Iterable[tuple[str, MemoryMoment]]:
    moments = memory.moments
    yield "context", moments[0]
    captures = [m for m in moments if m.kind is SampleKind.CAPTURE_BEGIN]
    if captures:
        yield "before captures", captures[0]
    end = memory.end_of_startup
    if memory.is_complete:
        yield "after start-up", end
    if memory.peak.used > max(end.used, moments[-1].used):
        yield "peak", memory.peak
    if len(moments) > 1 and not (memory.is_complete and moments[-1] is end):
        yield "end", moments[-1]


def build_ledger_report(run: Run) -> LedgerReport | None:
    """Build the ledger of a run; None if it has none."""
    ledger = run.ledger
    if ledger is None:
        return None
    memory = build_memory_ledger(ledger)
    startup = build_startup_ledger(ledger)
    graphs = build_graph_ledgers(run)
    return LedgerReport(
        run=run.name,
        process=_find_process(run, ledger),
        memory=memory,
        startup=startup,
        graphs=graphs,
        savings=find_savings(run, memory, startup, graphs),
    )


def _find_process(run: Run, ledger: Ledger) -> LedgerProcess:
    origin = run.recording.process if run.recording is not None else None
    return LedgerProcess(
        pid=ledger.pid,
        parent_pid=ledger.parent_pid,
        role=origin.role if origin is not None else None,
        rank=run.manifest.job_rank,
        device=ledger.device,
    )


def predict_report(run: Run, report: LedgerReport, change: FitChange) -> FitPrediction | None:
    """Predict another configuration of ``run``; None without samples or allocator content."""
    if report.memory is None:
        return None
    return predict_fit(run, report.memory, report.startup, report.graphs, change)


def list_ledger_reports(runs: Iterable[Run]) -> tuple[LedgerReport, ...]:
    """Build the ledgers of all runs that have one."""
    reports = (build_ledger_report(run) for run in runs)
    return tuple(report for report in reports if report is not None)
