"""What the parts of a run's memory are, and what graphs cost in memory, in sentences."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.memory.allocator import AllocatorUse
from graphviz_dash.analysis.memory.report import MemoryDifference, MemoryPart, MemoryReport
from graphviz_dash.errors import printable
from graphviz_dash.guidance.gaps import with_memory_pass
from graphviz_dash.model.absence import Missing
from graphviz_dash.units import (
    counted,
    format_bytes,
    format_percent,
    format_signed_bytes,
    format_signed_percent,
)

if TYPE_CHECKING:
    from graphviz_dash.features.memory.comparison import MemoryComparison
    from graphviz_dash.model.run import Run

PART_MEANINGS: Final[Mapping[MemoryPart, str]] = {
    MemoryPart.WEIGHTS: "Storages of torch.nn.Parameter.",
    MemoryPart.GRADIENTS: (
        "Their .grad, as far as it is alive at the step's peak. With zero_grad(set_to_none=True) "
        "an eager step has few of them then; a graph keeps theirs."
    ),
    MemoryPart.OPTIMIZER: "Tensors in the state of optimizers.",
    MemoryPart.TENSORS: (
        "Other live tensors of the default pool that outlast the step: inputs, buffers of "
        "modules, the static inputs that graphed callables copy into."
    ),
    MemoryPart.WORKSPACES: (
        "Live allocations that no Python tensor holds: workspaces of cuBLAS, one set for each "
        "stream, and so one more in the pool of each stream that captures."
    ),
    MemoryPart.ACTIVATIONS: (
        "Allocated and freed within a step, and alive at its peak: activations, temporaries, "
        "gradients of activations."
    ),
    MemoryPart.EXCLUSIVE: (
        "Places in private pools that the capture of exactly one graph allocated."
    ),
    MemoryPart.SHARED: (
        "Places in private pools that the captures of several graphs allocated, one after the "
        "other: graphs that run in capture order may share them."
    ),
    MemoryPart.UNUSED: (
        "Reserved by private pools, and no graph's: what rounding segments up leaves."
    ),
    MemoryPart.CACHE: (
        "Reserved in the default pool and free at the step's peak: for gradients and other "
        "tensors that come later in the step, or lost to fragmentation."
    ),
    MemoryPart.OUTSIDE: (
        "Device memory of the process less what the allocator reserved: CUDA context, loaded "
        "kernels, executable graphs, libraries' own memory. Where the driver does not list the "
        "process, all that the device has no longer free is taken, other processes included."
    ),
}
"""What each part is, for pages and documentation."""

PUBLISHED_OVERHEAD: Final = (
    "For graphs by layer NeMo's documentation says ~20% more memory for activations (GPT-3 20B on "
    "16 GH200 in FP8: another setup, see evaluation/reports/2026-11-21-gpt-training.md)"
)
"""What is known of others' activation overhead in mode partial; the source is on that page."""


def memory_sentence(comparison: MemoryComparison) -> str:
    """What graphs cost in memory; printable."""
    reports, differences = comparison.reports, comparison.differences
    if not reports:
        return "No run has a memory pass"
    baselines = list(dict.fromkeys(change.baseline for change in differences))
    uses = [_use(comparison[name]) for name in baselines or [report.run for report in reports]]
    if not differences:
        return "; ".join(uses)
    if len(baselines) == 1:
        costs = [f"{printable(change.run)} {_cost(change)}" for change in differences]
        return f"{uses[0]}; against it {', '.join(costs)}"
    costs = [
        f"{printable(change.run)} {_cost(change)} against {printable(change.baseline)}"
        for change in differences
    ]
    return f"{', '.join(uses)}; {', '.join(costs)}"


def _use(report: MemoryReport) -> str:
    if report.alone:
        return f"{printable(report.run)} takes {format_bytes(report.total)} of device memory"
    return f"{printable(report.run)} reserves {format_bytes(report.reserved)}"


def _cost(change: MemoryDifference) -> str:
    overhead = change.activation_overhead
    share = (
        ""
        if isinstance(overhead, Missing)
        else f" (its activations {format_signed_percent(overhead)})"
    )
    return f"{format_signed_bytes(change.own)}{share}"


def allocator_sentence(use: AllocatorUse) -> str:
    """What the allocator's own statistics say of a run, its graphs' pools first."""
    text = f"{printable(use.run)} ends with {format_bytes(use.reserved)} held from the device"
    if use.pools:
        text += (
            f", {format_bytes(use.private)} of it "
            f"({format_percent(use.private / use.reserved)}) in "
            f"{counted(use.pools, 'private pool')} for {counted(use.graphs, 'graph')}, of which "
            f"{format_bytes(use.pools_allocated)} are allocated between replays"
        )
    if use.peak_allocated is not None:
        text += f"; at its peak {format_bytes(use.peak_allocated)} were allocated"
    return f"{text}."


def allocator_hint(runs: Sequence[Run]) -> str:
    """What tells of the memory of ``runs`` that have neither a memory pass nor statistics."""
    hint = "graphviz-dash collect --workload takes a memory pass of each mode."
    if any(run.manifest.sources for run in runs):
        hint += (
            " What the allocator held, and its private pools, a memory snapshot tells too that is "
            "imported beside the trace: torch.cuda.memory._dump_snapshot writes one."
        )
    return hint


def memory_pass_hint(runs: Sequence[Run]) -> tuple[str, str]:
    """How ``runs`` get a memory pass, and the command; empty where no command of theirs does."""
    if any(run.mode.is_recorded or run.manifest.sources for run in runs):
        return "graphviz-dash collect --workload takes one of each mode.", ""
    return (
        "On a machine with a CUDA GPU this takes one of each mode:",
        printable(shlex.join(with_memory_pass(runs))),
    )
