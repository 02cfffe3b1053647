"""Wording of the ledger: its parts, its sums and the possible savings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from graphviz_dash.analysis.ledger.fit import FitPrediction
from graphviz_dash.analysis.ledger.graphs import GraphLedger
from graphviz_dash.analysis.ledger.memory import (
    LedgerPart,
    MemoryLedger,
    OutsideGrowth,
    name_library,
)
from graphviz_dash.analysis.ledger.report import LedgerProcess, LedgerReport
from graphviz_dash.analysis.ledger.savings import Saving
from graphviz_dash.analysis.ledger.startup import StartupLedger
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.narrative.columns import MEBIBYTES, MILLISECONDS, SHARE, SIGNED_MEBIBYTES, Column
from graphviz_dash.units import (
    format_bytes,
    format_ns,
    format_percent,
    format_signed_bytes,
    pluralize,
)

_MIB: Final = 1 << 20
_MAX_SIZES: Final = 3

TimeRow: TypeAlias = tuple[str, int, float | None]
"""Name, time in ns and share, None for a total."""

PART_MEANINGS: Final[Mapping[LedgerPart, str]] = {
    LedgerPart.OTHER_PROCESSES: "Memory in use before this process had a context.",
    LedgerPart.CONTEXT: "Memory that the driver reserves for the process.",
    LedgerPart.KERNELS: (
        "Code and libraries, loaded at their first use. Dropping graphs does not return it."
    ),
    LedgerPart.NCCL: "Buffers of NCCL, allocated by the process group.",
    LedgerPart.EXECUTABLES: "Instantiated graphs.",
    LedgerPart.WEIGHTS: "Parameters of modules.",
    LedgerPart.GRADIENTS: "Gradients of parameters before the first capture.",
    LedgerPart.OPTIMIZER: "State of optimizers.",
    LedgerPart.CACHES: "Keys and values of earlier tokens, in an engine that the recorder knows.",
    LedgerPart.TENSORS: "Other tensors before the first capture, such as inputs and caches.",
    LedgerPart.WORKSPACES: "Allocations without a tensor, such as cuBLAS workspaces.",
    LedgerPart.ALLOCATIONS: (
        "Allocations of unknown owners: before the recorder read them, or with a frozen garbage "
        "collector."
    ),
    LedgerPart.FRAGMENTATION: (
        "Free memory of the default pool in partly used segments. Emptying the cache keeps it."
    ),
    LedgerPart.FREE: (
        "Memory of the default pool without a known owner: free blocks and later allocations."
    ),
    LedgerPart.POOLS: "Memory reserved by the private pools of graphs.",
    LedgerPart.FAILED_POOLS: (
        "Memory of captures that failed. The allocator keeps it until the process ends."
    ),
    LedgerPart.REMAINDER: "Growth outside the allocator without a known cause.",
}


def describe_process(process: LedgerProcess) -> str:
    """Describe a process: id, name, rank and device."""
    text = f"Process {process.pid}"
    if process.role:
        text += f" ({escape_control_characters(process.role)})"
    if process.rank is not None:
        text += f", rank {process.rank}"
    if process.device is not None:
        text += f", GPU {process.device}"
    return f"{text}."


def describe_memory(ledger: MemoryLedger) -> str:
    """Describe the memory at the end of the start-up, or of the recording if that ended before."""
    moment = ledger.end_of_startup
    remainder = moment.parts.get(LedgerPart.REMAINDER, 0)
    time = "after start-up" if ledger.is_complete else "at the end of the recording"
    text = f"{format_bytes(moment.used)} in use {time}"
    if ledger.total:
        text += f", {format_percent(moment.used / ledger.total)} of {format_bytes(ledger.total)}"
    text += f"; {format_bytes(abs(remainder))} without a known cause."
    if ledger.others_change:
        change = format_signed_bytes(ledger.others_change)
        text += (
            f" Other processes changed by {change} meanwhile, which this recording cannot separate."
        )
    return text


def describe_workspaces(ledger: MemoryLedger) -> str | None:
    """Describe library workspaces by stream; None without any."""
    if not ledger.workspaces:
        return None
    by_size = Counter(format_bytes(item.bytes) for item in ledger.workspaces)
    texts = [
        f"{size} for {'a stream' if count == 1 else f'each of {count} streams'}"
        for size, count in by_size.most_common(_MAX_SIZES)
    ]
    remainder = len(by_size) - len(texts)
    suffix = f", {pluralize(remainder, 'other size')}" if remainder > 0 else ""
    return f"Library workspaces: {', '.join(texts)}{suffix}."


def describe_losses(report: LedgerReport) -> tuple[str, ...]:
    """Describe unusable memory: of failed captures, and freed memory that waits for other
    streams."""
    texts = []
    failures = [graph for graph in report.graphs if graph.failure]
    size = report.memory.moments[-1].parts.get(LedgerPart.FAILED_POOLS, 0) if report.memory else 0
    if size >= _MIB:
        texts.append(
            f"{pluralize(len(failures), 'failed capture')} left {format_bytes(size)} reserved."
        )
    holding = [graph for graph in report.graphs if (graph.held_bytes or 0) >= _MIB]
    if holding:
        amount = format_bytes(sum(graph.held_bytes or 0 for graph in holding))
        texts.append(
            f"Captures of {pluralize(len(holding), 'graph')} could not reuse {amount} that they "
            "freed, because other streams used it (record_stream)."
        )
    return tuple(texts)


def describe_startup(ledger: StartupLedger) -> str:
    """Describe the duration of the start-up."""
    end = "the first useful replay" if ledger.is_complete else "the end of the recording"
    share = ledger.program_ns / ledger.total_ns if ledger.total_ns else 0.0
    return (
        f"{format_ns(ledger.total_ns)} from the start of the process to {end}; "
        f"{format_percent(share)} in the program's own code."
    )


def name_growth(growth: OutsideGrowth) -> str:
    """Name the cause of a growth: a graph, an operator with its library, or a function."""
    if not growth.cause:
        return growth.part.value
    cause = escape_control_characters(growth.cause)
    if growth.part is LedgerPart.KERNELS and growth.cause.startswith("aten."):
        return f"{growth.part.value}: {cause} ({name_library(growth.cause)})"
    return f"{growth.part.value}: {cause}"


def describe_saving(saving: Saving) -> str:
    """Describe a saving: change, number of graphs, upper end, and cost of a switch."""
    text = saving.action.value
    text = text[0].upper() + text[1:]
    if saving.graphs:
        count = pluralize(len(saving.graphs), "graph")
        if len(saving.groups) > 1:
            count += f" in {pluralize(len(saving.groups), 'group')}"
        text += f" ({count})"
    if saving.most_bytes is not None:
        text += f"; at least the memory shown, at most {format_bytes(saving.most_bytes)}"
    if saving.switch_ns is not None:
        text += f"; a switch costs up to {format_ns(saving.switch_ns)}"
    return text


def describe_fit(prediction: FitPrediction) -> str:
    """Describe whether the predicted memory fits, and by how much."""
    used = f"{format_bytes(prediction.used)} ± {format_bytes(prediction.error)}"
    startup = f"{format_ns(prediction.startup_ns)} ± {format_ns(prediction.startup_error_ns)}"
    if prediction.lacks_communication:
        startup += ". Excludes buffers of NCCL, which the recording does not have"
    if prediction.total is None or prediction.excess is None:
        return f"Predicted: {used}, start-up {startup}."
    device = format_bytes(prediction.total)
    margin = format_bytes(abs(prediction.excess))
    if abs(prediction.excess) <= prediction.error:
        verdict = f"may not fit in {device}: within the error of the prediction"
    elif prediction.excess > 0:
        verdict = f"does not fit in {device} by {margin}"
    else:
        verdict = f"fits in {device} with {margin} to spare"
    return f"Predicted: {used}, {verdict}; start-up {startup}."


def describe_graph(graph: GraphLedger) -> tuple[str, ...]:
    """Describe memory and start-up time of one graph, in sentences."""
    texts = []
    if graph.added_bytes is not None:
        parts = [
            f"{format_bytes(size)} of {name}"
            for size, name in (
                (graph.reserved_bytes, "reserved memory"),
                (graph.kernel_bytes, "kernels"),
                (graph.executable_bytes, "executable"),
            )
            if size
        ]
        detail = f": {', '.join(parts)}" if parts else ""
        texts.append(f"Its capture added {format_bytes(graph.added_bytes)}{detail}.")
    if graph.exclusive_bytes is not None:
        text = f"{format_bytes(graph.exclusive_bytes)} of the pool are exclusive"
        if graph.shared_bytes and graph.shared_with:
            others = pluralize(len(graph.shared_with), "other graph")
            text += f", {format_bytes(graph.shared_bytes)} are shared with {others}"
        texts.append(f"{text}.")
    if graph.returned_bytes is not None:
        texts.append(f"Dropping it returned {format_bytes(max(graph.returned_bytes, 0))}.")
    times = [
        f"{name} {format_ns(time)}"
        for name, time in (
            ("capture", graph.capture_ns),
            ("instantiation", graph.driver_ns),
            ("first launch", graph.first_launch_ns),
        )
        if time is not None
    ]
    if times:
        texts.append(f"Start-up: {', '.join(times)}.")
    return tuple(texts)


def list_growths(ledger: MemoryLedger) -> list[OutsideGrowth]:
    """List the growths outside the allocator that matter."""
    return [growth for growth in ledger.growths if abs(growth.bytes) >= _MIB]


class SizeRow(Struct, frozen=True):
    """A part of the memory, or a total, at several moments."""

    title: str
    meaning: str
    """Empty if the title suffices."""
    sizes: tuple[int | None, ...]
    """In bytes. None if unknown."""


def list_size_rows(report: LedgerReport) -> tuple[list[SizeRow], list[SizeRow]]:
    """List the parts of the memory and the totals at the key moments."""
    moments = [moment for _, moment in report.key_moments]
    parts = [
        SizeRow(part.value, PART_MEANINGS[part], sizes)
        for part in LedgerPart
        if any(sizes := tuple(moment.parts.get(part, 0) for moment in moments))
    ]
    totals = [
        SizeRow("used (cudaMemGetInfo)", "", tuple(moment.used for moment in moments)),
        SizeRow("resident on the host", "", tuple(moment.host for moment in moments)),
    ]
    return parts, totals


def list_fit_rows(report: LedgerReport, fit: FitPrediction) -> list[SizeRow]:
    """List the parts of the memory, recorded and predicted."""
    sizes = report.memory.end_of_startup.parts if report.memory is not None else {}
    return [
        SizeRow(part.value, PART_MEANINGS[part], (sizes.get(part, 0), fit.parts.get(part, 0)))
        for part in LedgerPart
        if sizes.get(part) or fit.parts.get(part)
    ]


def build_size_columns(headings: Iterable[str]) -> list[Column[SizeRow]]:
    """Build the column of titles and one for each moment."""
    return [
        Column("", lambda row: row.title, explain=lambda row: row.meaning),
        *(_build_size_column(index, heading) for index, heading in enumerate(headings)),
    ]


def _build_size_column(index: int, heading: str) -> Column[SizeRow]:
    return Column(heading, lambda row: row.sizes[index], MEBIBYTES, heading)


def list_time_rows(ledger: StartupLedger) -> tuple[list[TimeRow], list[TimeRow]]:
    """List the parts of the start-up with their shares, and the total."""
    parts: list[TimeRow] = [
        (part.value, time, time / ledger.total_ns) for part, time in ledger.parts.items()
    ]
    return parts, [("wall clock", ledger.total_ns, None)]


GRAPH_COLUMNS: Final[tuple[Column[GraphLedger], ...]] = (
    Column("Graph", lambda graph: graph.graph),
    Column("Added", lambda graph: graph.added_bytes, MEBIBYTES),
    Column("Reserved", lambda graph: graph.reserved_bytes, MEBIBYTES),
    Column("Pool growth", lambda graph: graph.pool_growth_bytes, MEBIBYTES, None),
    Column("Kernels", lambda graph: graph.kernel_bytes, MEBIBYTES),
    Column("Held", lambda graph: graph.held_bytes or None, MEBIBYTES, None),
    Column("Executable", lambda graph: graph.executable_bytes, MEBIBYTES),
    Column("Warm-up", lambda graph: graph.warm_up_bytes, MEBIBYTES, None),
    Column("Host", lambda graph: graph.host_bytes, MEBIBYTES),
    Column("Returned by drop", lambda graph: graph.returned_bytes, MEBIBYTES),
    Column("Capture", lambda graph: graph.capture_ns, MILLISECONDS),
    Column("Instantiation", lambda graph: graph.driver_ns, MILLISECONDS, "driver"),
    Column("First launch", lambda graph: graph.first_launch_ns, MILLISECONDS, None),
)
GROWTH_COLUMNS: Final[tuple[Column[OutsideGrowth], ...]] = (
    Column("Cause", name_growth),
    Column("Bytes", lambda growth: growth.bytes, SIGNED_MEBIBYTES),
)
TIME_COLUMNS: Final[tuple[Column[TimeRow], ...]] = (
    Column("", lambda row: row[0]),
    Column("Time", lambda row: row[1], MILLISECONDS),
    Column("Share", lambda row: row[2], SHARE),
)
SAVING_COLUMNS: Final[tuple[Column[Saving], ...]] = (
    Column("Change", describe_saving),
    Column("Memory", lambda saving: saving.bytes, MEBIBYTES),
    Column("Start-up", lambda saving: saving.ns, MILLISECONDS),
    Column("Basis", lambda saving: saving.basis.value),
)
