"""Predict memory and start-up of another configuration from the ledger of one recording.

Tensors change with their shapes: a named dimension gets another size, and groups of one tensor per
layer get as many tensors as layers. Pools change with the largest size. Context, kernels and
libraries stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graphviz_dash.analysis.ledger.graphs import GraphLedger
from graphviz_dash.analysis.ledger.memory import LedgerPart, MemoryLedger
from graphviz_dash.analysis.ledger.savings import sum_pool_workspaces, sum_side_streams
from graphviz_dash.analysis.ledger.startup import StartupLedger, TimePart
from graphviz_dash.analysis.memory.executables import estimate_executables
from graphviz_dash.analysis.memory.report import DRIVER_CHUNK
from graphviz_dash.model.memory import Owner

if TYPE_CHECKING:
    from graphviz_dash.model.ledger import AllocatorState, Ledger, TensorGroup
    from graphviz_dash.model.run import Run

_MIB: Final = 1 << 20
_SEGMENT: Final = 20 * _MIB
"""Segment of the allocator for medium allocations: the uncertainty of each pool."""
_POOLS: Final = 2
"""Default pool and graph pools, whose growth is rounded separately."""
_KERNELS: Final = 0.08
"""Uncertainty of kernels and libraries, as a fraction: other sizes may use others."""


class FitChange(Struct, frozen=True):
    """Change of the recorded configuration. Empty fields stay as recorded."""

    sizes: tuple[int, ...] = ()
    """Sizes of the graphs to capture."""
    layers: tuple[int, int] | None = None
    """Recorded and new number of layers."""
    dimensions: tuple[tuple[int, int], ...] = ()
    """Recorded and new size of dimensions, such as a batch size or a length."""
    device_bytes: int | None = None
    """Memory to fit into. None for the recorded device."""
    ranks: tuple[int, int] | None = None
    """Recorded and new number of tensor-parallel ranks, which share matrices and caches of layers.
    """


class ChangedFeature(StrEnum):
    """Feature of a program that a change names."""

    LAYERS = "layers"
    RANKS = "ranks"
    SIZES = "sizes"
    DIMENSION = "dimension"


class FitMismatch(Struct, frozen=True):
    """Part of a change that does not match the recording."""

    feature: ChangedFeature
    value: int | None
    """Value that the recording does not have. None if any value is missing there."""
    candidates: tuple[int, ...]
    """Values in the recording, in order. Empty without any."""


class FitPrediction(Struct, frozen=True):
    """Predicted memory and start-up, in bytes and ns."""

    parts: Mapping[LedgerPart, int]
    error: int
    """Half the width of the interval around ``used``, which sums ``parts``."""
    total: int | None
    """Device memory. None if unknown."""
    startup_ns: int
    startup_error_ns: int
    """Half the width of the interval around ``startup_ns``."""
    lacks_communication: bool
    """True if the new configuration communicates and the recorded one did not, so that buffers of
    the process group are missing."""

    @property
    def used(self) -> int:
        """Predicted device memory in use after the start-up, in bytes."""
        return sum(self.parts.values())

    @property
    def excess(self) -> int | None:
        """Bytes beyond the device memory; negative if it fits. None if unknown."""
        return None if self.total is None else self.used - self.total


def predict_fit(
    run: Run,
    memory: MemoryLedger,
    startup: StartupLedger,
    graphs: Sequence[GraphLedger],
    change: FitChange,
) -> FitPrediction | None:
    """Predict memory after start-up and start-up time; None without allocator content."""
    ledger = run.ledger
    if ledger is None or not ledger.states:
        return None
    sizes = find_graph_sizes(run)
    layer_factor = change.layers[1] / change.layers[0] if change.layers else 1.0
    count_factor = _compute_count_factor(change, sizes, graphs)
    parts = dict(memory.end_of_startup.parts)
    before = dict(parts)
    tensors = _predict_tensors(ledger.states[0], change)
    for part in (
        LedgerPart.WEIGHTS,
        LedgerPart.GRADIENTS,
        LedgerPart.OPTIMIZER,
        LedgerPart.CACHES,
        LedgerPart.TENSORS,
    ):
        if part in parts:
            parts[part] = max(parts[part] + tensors.get(part, 0), 0)
    side = sum_side_streams(ledger)
    if len(side) > 1:
        # One warm-up stream for each size.
        workspaces = parts.get(LedgerPart.WORKSPACES, 0)
        extra = round(sum(side.values()) * (count_factor - 1))
        parts[LedgerPart.WORKSPACES] = max(workspaces + extra, 0)
    parts[LedgerPart.POOLS] = _predict_pools(ledger, change, sizes, parts)
    nodes = sum(graph.nodes or 0 for graph in graphs)
    if nodes and (layer_factor != 1 or count_factor != 1):
        sizes_by_graph = {graph.graph: graph.nodes or 0 for graph in graphs}
        estimate = sum(estimate_executables(run, sizes_by_graph).values())
        growth = estimate * (layer_factor * count_factor - 1)
        current = parts.get(LedgerPart.EXECUTABLES, 0)
        parts[LedgerPart.EXECUTABLES] = max(
            current + round(growth / DRIVER_CHUNK) * DRIVER_CHUNK, 0
        )
    rank_factor = _compute_rank_factor(change)
    has_new_tensors = bool(change.layers or change.dimensions or change.ranks)
    difference = sum(abs(parts.get(part, 0) - before.get(part, 0)) for part in LedgerPart)
    error = round(
        _KERNELS * parts.get(LedgerPart.KERNELS, 0)
        + 0.02 * difference
        + (_POOLS * _SEGMENT if change.sizes or change.dimensions or change.ranks else DRIVER_CHUNK)
        # Allocations of unknown owners may change, too.
        + (parts.get(LedgerPart.ALLOCATIONS, 0) if has_new_tensors else 0)
        # Only a part of the activations is divided.
        + abs(1 - rank_factor) * parts.get(LedgerPart.POOLS, 0)
    )
    time, time_error = _predict_startup(
        startup, graphs, layer_factor, count_factor, layer_factor * rank_factor
    )
    return FitPrediction(
        parts={part: parts[part] for part in LedgerPart if parts.get(part)},
        error=error,
        total=memory.total if change.device_bytes is None else change.device_bytes,
        startup_ns=time,
        startup_error_ns=time_error,
        lacks_communication=change.ranks is not None
        and change.ranks[1] > 1
        and LedgerPart.NCCL not in before,
    )


def find_mismatches(run: Run, change: FitChange) -> Iterator[FitMismatch]:
    """Find parts of ``change`` that match nothing in the recording and would predict no difference.

    Yields nothing without the content of an allocator, where there is no prediction at all.
    """
    if run.ledger is None or not run.ledger.states:
        return
    state = run.ledger.states[0]
    sizes = set(find_graph_sizes(run).values())
    layers = {group.layers for group in state.layers}
    if change.layers is not None and not _has_layers(state, change.layers[0]):
        yield FitMismatch(ChangedFeature.LAYERS, change.layers[0], tuple(sorted(layers)))
    if change.ranks is not None and not layers:
        yield FitMismatch(ChangedFeature.RANKS, None, ())
    if change.sizes and not sizes:
        yield FitMismatch(ChangedFeature.SIZES, None, ())
    dimensions = {dimension for group in state.tensors for dimension in group.shape}
    for dimension, _ in change.dimensions:
        if dimension not in dimensions | sizes:
            yield FitMismatch(ChangedFeature.DIMENSION, dimension, tuple(sorted(dimensions)))


def _has_layers(state: AllocatorState, number: int) -> bool:
    """Check for a list of ``number`` layers, or for weights of as many layers if the program had
    dropped its model before the search for lists."""
    if state.layers:
        return any(group.layers == number for group in state.layers)
    counts = [group.count for group in state.tensors if group.owner is Owner.WEIGHTS]
    return number > 1 and any(count % number == 0 for count in counts)


def _compute_rank_factor(change: FitChange) -> float:
    return change.ranks[0] / change.ranks[1] if change.ranks else 1.0


def find_graph_sizes(run: Run) -> dict[str, int]:
    """Return the known sizes of graphs on their family's size axis."""
    sizes: dict[str, int] = {}
    for family in run.loop.families if run.loop is not None else ():
        axis = family.size_axis
        for member in family.members:
            if axis is not None and member.key is not None and axis < len(member.key):
                sizes |= dict.fromkeys(member.graphs, member.key[axis])
    return sizes


def _compute_count_factor(
    change: FitChange, sizes: Mapping[str, int], graphs: Sequence[GraphLedger]
) -> float:
    if not change.sizes or not graphs:
        return 1.0
    count = len(set(sizes.values())) or len(graphs)
    return len(set(change.sizes)) / count


def _predict_tensors(state: AllocatorState, change: FitChange) -> dict[LedgerPart, int]:
    dimensions = dict(change.dimensions)
    rank_factor = _compute_rank_factor(change)
    growth: dict[LedgerPart, int] = defaultdict(int)
    for group in state.tensors:
        per_tensor = group.bytes / max(group.count, 1)
        count: float = group.count
        if change.layers is not None and group.count % change.layers[0] == 0:
            count = group.count * change.layers[1] / change.layers[0]
        for dimension in group.shape:
            per_tensor *= dimensions.get(dimension, dimension) / dimension if dimension else 1
        if _is_divided_by_ranks(group, state):
            per_tensor *= rank_factor
        part = _OWNER_PARTS.get(group.owner)
        if part is not None:
            growth[part] += round(per_tensor * count) - group.bytes
    return growth


def _is_divided_by_ranks(group: TensorGroup, state: AllocatorState) -> bool:
    """Check for a tensor that tensor-parallel ranks share: a matrix of the model with its gradients
    and optimizer state, or a cache of each layer. Vectors such as norms are on each rank."""
    if len(group.shape) < _MATRIX:
        return False
    if group.owner in (Owner.WEIGHTS, Owner.GRADIENTS, Owner.OPTIMIZER):
        return True
    return any(group.count % layers.layers == 0 for layers in state.layers)


_MATRIX: Final = 2
"""Dimensions of a matrix."""

_OWNER_PARTS: Final = {
    Owner.WEIGHTS: LedgerPart.WEIGHTS,
    Owner.GRADIENTS: LedgerPart.GRADIENTS,
    Owner.OPTIMIZER: LedgerPart.OPTIMIZER,
    Owner.BUFFERS: LedgerPart.TENSORS,
    Owner.CACHES: LedgerPart.CACHES,
    Owner.TENSORS: LedgerPart.TENSORS,
}


def _predict_pools(
    ledger: Ledger,
    change: FitChange,
    sizes: Mapping[str, int],
    parts: Mapping[LedgerPart, int],
) -> int:
    """Scale the pools with the largest size; workspaces stay."""
    pools = parts.get(LedgerPart.POOLS, 0)
    largest = max(sizes.values(), default=0)
    factor = 1.0
    if change.sizes and largest:
        factor = max(change.sizes) / largest
    elif largest and largest in dict(change.dimensions):
        factor = dict(change.dimensions)[largest] / largest
    if factor == 1:
        return pools
    workspaces = sum(sum_pool_workspaces(ledger).values())
    size = max(pools - workspaces, 0) * factor
    # Blocks below 10 MiB come in segments of 20 MiB.
    unit = _SEGMENT if size < _SEGMENT else DRIVER_CHUNK
    return workspaces + ceil(size / unit) * unit


_PER_GRAPH: Final = (
    TimePart.CAPTURE,
    TimePart.DRIVER,
    TimePart.BETWEEN_CAPTURES,
    TimePart.GC,
    TimePart.LAUNCH,
)
"""Parts of the start-up that grow with the number of graphs."""


def _predict_startup(
    startup: StartupLedger,
    graphs: Sequence[GraphLedger],
    layer_factor: float,
    count_factor: float,
    weight_factor: float,
) -> tuple[int, int]:
    times = [graph.total_ns for graph in graphs if graph.total_ns is not None]
    if times and len(graphs) > 1:
        per_graph = sorted(times)[len(times) // 2]
        captures = per_graph * (len(graphs) - 1)
    else:
        captures = sum(startup.parts.get(part, 0) for part in _PER_GRAPH)
    capture_count = max(len(graphs) - 1, 1)
    new_count = max(len(graphs) * count_factor - 1, 0)
    growth = captures / capture_count * new_count * layer_factor - captures
    model = startup.parts.get(TimePart.WEIGHTS, 0) * (weight_factor - 1)
    total = round(startup.total_ns + growth + model)
    return max(total, 0), round(0.05 * startup.total_ns + 0.25 * abs(growth + model))
