"""Build the JSON of the ledger; sizes in bytes, times in ns."""

from __future__ import annotations

from graphviz_dash.analysis.ledger.fit import FitPrediction
from graphviz_dash.analysis.ledger.report import LedgerReport
from graphviz_dash.exports.documents.values import Bytes, Count, Document, Sentence, WholeNs, build
from graphviz_dash.features.ledger.narrative import (
    describe_fit,
    describe_memory,
    describe_process,
    describe_saving,
    describe_startup,
)


class LedgerMomentDocument(Document, frozen=True):
    """Device memory at one moment; the parts add up to ``used``."""

    moment: str
    time_ns: WholeNs
    used: Bytes
    host: Bytes
    parts: dict[str, Bytes]


class LedgerGrowthDocument(Document, frozen=True):
    """Growth of device memory outside the allocator by one cause: a graph, an operator or a
    function."""

    part: str
    cause: str
    is_graph: bool
    bytes: Bytes


class LedgerGraphDocument(Document, frozen=True):
    """Memory and time of one graph. Null if not recorded."""

    graph: str
    nodes: Count | None
    pool: list[int] | None
    added_bytes: Bytes | None
    reserved_bytes: Bytes | None
    pool_growth_bytes: Bytes | None
    kernel_bytes: Bytes | None
    executable_bytes: Bytes | None
    warm_up_bytes: Bytes | None
    host_bytes: Bytes | None
    exclusive_bytes: Bytes | None
    shared_bytes: Bytes | None
    shared_with: list[str]
    held_bytes: Bytes | None
    failure: bool
    returned_bytes: Bytes | None
    capture_ns: WholeNs | None
    driver_ns: WholeNs | None
    collection_ns: WholeNs
    first_launch_ns: WholeNs | None


class StartupDocument(Document, frozen=True):
    """Start-up time; the parts add up to ``total_ns``."""

    total_ns: WholeNs
    is_complete: bool
    parts: dict[str, WholeNs]
    sentence: Sentence


class WorkspacesDocument(Document, frozen=True):
    """Workspaces that libraries keep for one stream."""

    stream: Count
    count: Count
    bytes: Bytes


class SavingDocument(Document, frozen=True):
    """A possible saving; ``basis`` is ``measured`` or ``predicted``. With ``most_bytes``, memory
    is an interval from ``bytes`` to it. The graphs of each of ``groups`` can share an executable.
    """

    action: str
    bytes: Bytes
    ns: WholeNs
    basis: str
    graphs: list[str]
    switch_ns: WholeNs | None
    most_bytes: Bytes | None
    groups: list[list[str]]
    sentence: Sentence


class FitDocument(Document, frozen=True):
    """Predicted memory and start-up of another configuration. ``error`` and ``startup_error_ns``
    are half the width of the interval; ``excess`` is negative if it fits."""

    used: Bytes
    error: Bytes
    total: Bytes | None
    excess: Bytes | None
    parts: dict[str, Bytes]
    startup_ns: WholeNs
    startup_error_ns: WholeNs
    sentence: Sentence


class ProcessDocument(Document, frozen=True):
    """Process of a ledger. Its memory after start-up excludes other processes."""

    pid: Count
    parent_pid: Count
    role: str | None
    rank: Count | None
    device: Count | None
    memory: Bytes | None
    sentence: Sentence


class LedgerDocument(Document, frozen=True):
    """Ledger of one run. ``fit`` is null without ``--fit``."""

    run: str
    process: ProcessDocument
    device_total: Bytes | None
    moments: list[LedgerMomentDocument]
    growths: list[LedgerGrowthDocument]
    graphs: list[LedgerGraphDocument]
    total_graphs: Count
    startup: StartupDocument
    savings: list[SavingDocument]
    fit: FitDocument | None
    sentence: Sentence | None
    workspaces: list[WorkspacesDocument]


def build_ledger_document(
    report: LedgerReport, count: int, fit: FitPrediction | None = None
) -> LedgerDocument:
    """Build the document; ``count`` limits graphs and growths."""
    memory = report.memory
    return build(
        LedgerDocument,
        report,
        process=build(
            ProcessDocument,
            report.process,
            memory=None if memory is None else memory.own_bytes,
            sentence=describe_process(report.process),
        ),
        device_total=None if memory is None else memory.total,
        moments=[
            build(LedgerMomentDocument, moment, moment=label)
            for label, moment in report.key_moments
        ],
        growths=[] if memory is None else memory.growths[:count],
        graphs=report.largest_graphs[:count],
        total_graphs=len(report.graphs),
        startup=build(StartupDocument, report.startup, sentence=describe_startup(report.startup)),
        savings=[
            build(SavingDocument, saving, sentence=describe_saving(saving))
            for saving in report.savings
        ],
        fit=None if fit is None else build(FitDocument, fit, sentence=describe_fit(fit)),
        sentence=None if memory is None else describe_memory(memory),
        workspaces=[]
        if memory is None
        else [build(WorkspacesDocument, item) for item in memory.workspaces],
    )
