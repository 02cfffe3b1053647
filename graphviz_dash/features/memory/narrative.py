"""Meaning of the parts of a run's memory and the memory cost of graphs, in sentences."""

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
        "Their .grad tensors that are alive at the step's peak. With zero_grad(set_to_none=True), "
        "an eager step has few of them then; a graph keeps all."
    ),
    MemoryPart.OPTIMIZER: "Tensors in the state of optimizers.",
    MemoryPart.TENSORS: (
        "Other live tensors of the default pool that outlast the step: inputs, module buffers "
        "and the static inputs of graphed callables."
    ),
    MemoryPart.WORKSPACES: (
        "Live allocations without a Python tensor: cuBLAS workspaces, one set per "
        "stream, and one more in the pool of each stream that captures."
    ),
    MemoryPart.ACTIVATIONS: (
        "Memory allocated and freed within a step, and alive at its peak: activations, "
        "temporaries, gradients of activations."
    ),
    MemoryPart.EXCLUSIVE: (
        "Addresses in private pools that exactly one graph's capture allocated."
    ),
    MemoryPart.SHARED: (
        "Addresses in private pools that several graphs' captures allocated in succession: "
        "graphs that run in capture order may share them."
    ),
    MemoryPart.UNUSED: (
        "Memory reserved by private pools but used by no graph: the rounding of segments."
    ),
    MemoryPart.CACHE: (
        "Memory reserved in the default pool and free at the step's peak: for gradients and other "
        "tensors later in the step, or lost to fragmentation."
    ),
    MemoryPart.OUTSIDE: (
        "Device memory of the process minus the allocator's reservations: CUDA context, loaded "
        "kernels, executable graphs, library memory. If the driver does not list the process, this "
        "is all used device memory, other processes included."
    ),
}
"""Meaning of each part, for pages and documentation."""

PUBLISHED_OVERHEAD: Final = (
    "For per-layer graphs, NeMo's documentation reports ~20% more memory for activations (GPT-3 "
    "20B on 16 GH200 in FP8: another setup, see docs/gpt-training.md)"
)
"""Published activation overhead of mode partial; docs/gpt-training.md has the source."""


def memory_sentence(comparison: MemoryComparison) -> str:
    """Describe the memory cost of graphs; printable."""
    reports, differences = comparison.reports, comparison.differences
    if not reports:
        return "No run has a memory pass"
    baselines = list(dict.fromkeys(change.baseline for change in differences))
    uses = [_use(comparison[name]) for name in baselines or [report.run for report in reports]]
    if not differences:
        return "; ".join(uses)
    if len(baselines) == 1:
        costs = [f"{printable(change.run)} {_cost(change)}" for change in differences]
        return f"{uses[0]}; compared with it: {', '.join(costs)}"
    costs = [
        f"{printable(change.run)} {_cost(change)} compared with {printable(change.baseline)}"
        for change in differences
    ]
    return f"{', '.join(uses)}; {', '.join(costs)}"


def _use(report: MemoryReport) -> str:
    if report.alone:
        return f"{printable(report.run)} uses {format_bytes(report.total)} of device memory"
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
    """Describe the allocator's statistics of a run, with the graph pools first."""
    text = f"{printable(use.run)} reserves {format_bytes(use.reserved)} at exit"
    if use.pools:
        text += (
            f", {format_bytes(use.private)} of it "
            f"({format_percent(use.private / use.reserved)}) in "
            f"{counted(use.pools, 'private pool')} for {counted(use.graphs, 'graph')}, with "
            f"{format_bytes(use.pools_allocated)} allocated between replays"
        )
    if use.peak_allocated is not None:
        text += f"; peak allocation: {format_bytes(use.peak_allocated)}"
    return f"{text}."


def allocator_hint(runs: Sequence[Run]) -> str:
    """Explain how to record the memory of ``runs`` without a memory pass or statistics."""
    hint = "graphviz-dash collect --workload records a memory pass of each mode."
    if any(run.manifest.sources for run in runs):
        hint += (
            " A memory snapshot imported next to the trace also shows allocator memory and private "
            "pools: torch.cuda.memory._dump_snapshot writes one."
        )
    return hint


def memory_pass_hint(runs: Sequence[Run]) -> tuple[str, str]:
    """Return the instruction and command for a memory pass of ``runs``; empty if they have no
    command."""
    if any(run.mode.is_recorded or run.manifest.sources for run in runs):
        return "graphviz-dash collect --workload records one for each mode.", ""
    return (
        "To record one for each mode, run on a machine with a CUDA GPU:",
        printable(shlex.join(with_memory_pass(runs))),
    )
