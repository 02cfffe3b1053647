"""Memory comparison that the Memory page keeps between visits."""

from __future__ import annotations

from graphviz_dash.analysis.ledger.report import LedgerReport, list_ledger_reports
from graphviz_dash.features.memory.comparison import MemoryComparison, compare_memory
from graphviz_dash.ui.state.results import get_comparison
from graphviz_dash.ui.state.store import STORE


def get_ledgers(key: str) -> tuple[LedgerReport, ...]:
    """The ledgers of the experiment's runs that have one."""
    return STORE.derive(key, "ledgers", lambda experiment: list_ledger_reports(experiment.runs))


def get_memory(key: str) -> MemoryComparison:
    """The memory of the experiment's runs against the same baseline."""
    return STORE.derive(key, "memory", lambda _: compare_memory(get_comparison(key)))
