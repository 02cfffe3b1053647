"""Follow the memory that captured graphs read and write, for the life of the process.

A graph keeps addresses, not tensors. At the end of the capture, every address among its nodes'
parameters is assigned to an owner: a tensor, pinned memory, another graph's pool, a block of the
allocator without a tensor, or memory that a library such as NCCL allocated through the driver. The
death of a storage or graph requests a check before the next replay, so replays cost nothing while
memory lives. Addresses and blocks are compared with the allocator and the driver as often as 0.1%
of the time allows.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter_ns
from typing import Any, Final

import torch

from collectors.allocator.history import keep_allocation_lines, read_segments
from collectors.doctor.places import SourceLocation, find_user_location
from collectors.replays.operators import StepRecord, format_dtype
from collectors.replays.owners import Fate, NodeReader, OwnerFinder, WatchedMemory, find_fate
from graphviz_dash.model.graph import CapturedGraph, KernelParams
from graphviz_dash.model.replay_check import MemoryFate, NodeOwner

INTERVAL: Final = 16
"""Replays of a graph between two looks at the time for a comparison with the allocator."""

_GRADIENT_INTERVAL: Final = 17
"""Replays between two checks of gradients, after as many that are all checked. The number is odd,
because gradients may be in the graph's memory in every other replay only."""

_BUDGET: Final = 1000
"""Time between two comparisons with the allocator, relative to their duration."""


class ReplayCount:
    """Replays of a graph, and the number of the next replay that is checked."""

    __slots__ = ("next_check", "replays")

    def __init__(self) -> None:
        self.replays = 0
        self.next_check = sys.maxsize


@dataclass
class _WatchedGraph:
    count: ReplayCount
    memory: list[WatchedMemory]
    dead: dict[int, tuple[Fate, SourceLocation | None]] = field(default_factory=dict)
    """Positions in ``memory`` whose owner died since the last check, with the line."""
    reports: set[int] = field(default_factory=set)
    outputs: dict[int, NodeOwner] = field(default_factory=dict)
    """Nodes of a graphed backward pass by the addresses that they use; empty for other graphs."""

    def handle_death(
        self, position: int, spot: SourceLocation | None, fate: Fate = "freed"
    ) -> None:
        self.dead.setdefault(position, (fate, spot))
        self.count.next_check = 0


@dataclass
class _SharedMemory:
    item: WatchedMemory
    users: list[tuple[_WatchedGraph, int]] = field(default_factory=list)
    """Graphs that use it, with the position in their ``memory``."""

    def handle_death(self, spot: SourceLocation | None, fate: Fate = "freed") -> None:
        for entry, position in self.users:
            if position not in entry.reports:
                entry.handle_death(position, spot, fate)


class LifetimeWatch:
    """Reports memory that a replay would use after its end.

    Args:
        report: Receives each report, before the replay.
        strict: Check before each replay.
    """

    def __init__(self, report: Callable[[MemoryFate], None], *, strict: bool = False) -> None:
        self._report = report
        self._strict = strict
        self._graphs: dict[str, _WatchedGraph] = {}
        self._memory: dict[tuple[object, int], _SharedMemory] = {}
        """Memory that is compared with the allocator and the driver, by identity."""
        self._pools: dict[tuple[int, int], weakref.WeakSet[Any]] = {}
        self._references: list[weakref.ref[Any]] = []
        self._parameters: list[weakref.ref[torch.Tensor]] = []
        self._next_comparison = 0

    def install(self) -> None:
        """Watch calls that free workspaces of libraries; keep lines of allocations if strict."""
        if self._strict:
            keep_allocation_lines()
        clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
        if clear is None:
            return

        def clear_workspaces() -> None:
            clear()
            # New tensors may take the memory before the next replay.
            self._find_freed_blocks(find_user_location(sys._getframe(1)))

        torch._C._cuda_clearCublasWorkspaces = clear_workspaces

    def add_graph(
        self,
        graph_id: str,
        graph: Any,
        handle: int,
        record: StepRecord,
        read: CapturedGraph,
        count: ReplayCount,
        *,
        is_callable: bool = False,
    ) -> None:
        """Assign the addresses of a captured graph to their owners.

        ``count`` receives the replays to check. ``is_callable``: ``make_graphed_callables``
        captures the graph as a part of a step.
        """
        pool = tuple(graph.pool())
        graph_pool = (int(pool[0]), int(pool[1]))
        self._pools.setdefault(graph_pool, weakref.WeakSet()).add(graph)
        weakref.finalize(graph, self._handle_graph_end, graph_pool, None).atexit = False
        reader = NodeReader(handle, read)
        nodes = reader.list_addresses()
        owners = _find_operators(record)
        finder = OwnerFinder(graph_pool, record, reads_lines=self._strict)
        memory: dict[tuple[str, int], WatchedMemory] = {}
        for index, addresses in nodes:
            for address in addresses:
                key = finder.find(address)
                if key is not None and key not in memory:
                    node = _describe_node(graph_id, index, owners, record, read)
                    item = finder.watch(key, address, node)
                    argument = reader.find_argument(index, item.begin, item.end)
                    memory[key] = replace(item, argument=argument)
        entry = self._graphs[graph_id] = _WatchedGraph(count, list(memory.values()))
        count.next_check = 1
        if is_callable and any(operator.in_backward for operator in record.operators):
            for index, addresses in nodes:
                for address in addresses:
                    if address not in entry.outputs:
                        entry.outputs[address] = _describe_node(
                            graph_id, index, owners, record, read
                        )
        elif is_callable:
            sources = (external.source() for external in record.externals.values())
            self._parameters += [
                weakref.ref(source)
                for source in sources
                if isinstance(source, torch.nn.Parameter) and source.requires_grad
            ]
        for position, item in enumerate(entry.memory):
            if item.pool is None:
                shared = self._memory.setdefault(item.identity, _SharedMemory(item))
                shared.users.append((entry, position))
        for position, (kind, identity) in enumerate(memory):
            if kind == "tensor":
                # torch keeps the storage's Python object until the memory is released.
                storage = record.externals[identity].tensor.untyped_storage()
                self._references.append(weakref.ref(storage, _DeathHandler(entry, position)))

    def record_reset(self, graph: Any, spot: SourceLocation | None) -> None:
        """Handle the reset of a graph."""
        for pool, graphs in self._pools.items():
            if graph in graphs:
                graphs.discard(graph)
                self._handle_graph_end(pool, spot)
                return

    def stop(self) -> None:
        """Stop watching all graphs."""
        for entry in self._graphs.values():
            entry.count.next_check = sys.maxsize
        self._graphs = {}
        self._memory = {}

    def check(self, graph_id: str) -> None:
        """Check a graph's memory before its next counted replay; plan the next check."""
        entry = self._graphs.get(graph_id)
        if entry is None:
            return
        count = entry.count
        replay = count.replays
        interval = 1 if self._strict else INTERVAL
        if entry.outputs:
            self._check_gradients(entry, graph_id, replay)
            interval = 1 if replay < _GRADIENT_INTERVAL else min(interval, _GRADIENT_INTERVAL)
        if self._strict or perf_counter_ns() >= self._next_comparison:
            self._compare()
        count.next_check = replay + interval
        dead, entry.dead = entry.dead, {}
        for position, (fate, spot) in dead.items():
            self._add(entry, position, graph_id, replay, fate, spot)

    def _check_gradients(self, entry: _WatchedGraph, graph_id: str, replay: int) -> None:
        """Report a gradient in the graph's own memory, which its next replay overwrites.

        The first gradient of a graphed callable is not copied but taken over by the parameter.
        """
        for reference in self._parameters:
            parameter = reference()
            gradient = None if parameter is None else parameter.grad
            if gradient is None or gradient.layout != torch.strided:
                continue
            node = entry.outputs.get(gradient.data_ptr())
            if node is None:
                continue
            self._report(
                MemoryFate(
                    graph=graph_id,
                    node=node,
                    owner="gradient",
                    description=(
                        f"gradient {format_dtype(gradient)} {list(gradient.shape)} in the graph's "
                        "memory"
                    ),
                    fate="reused",
                    free_location=None,
                    after_replay=replay - 1,
                    reported_before_replay=replay,
                )
            )
            entry.outputs.clear()
            return

    def _handle_graph_end(self, pool: tuple[int, int], spot: SourceLocation | None) -> None:
        if self._pools.get(pool):
            return
        spot = spot or find_user_location(sys._getframe(1))
        for entry in self._graphs.values():
            for position, item in enumerate(entry.memory):
                if item.pool == pool:
                    entry.handle_death(position, spot)

    def _find_freed_blocks(self, spot: SourceLocation | None) -> None:
        """Note blocks without a tensor that the allocator no longer has, freed by ``spot``."""
        blocks = {
            identity: shared.item.begin
            for identity, shared in self._memory.items()
            if shared.item.owner == "workspace"
        }
        if not blocks:
            return
        live = {begin for segment in read_segments() for begin, _ in segment.live}
        for identity, begin in blocks.items():
            if begin not in live:
                self._memory.pop(identity).handle_death(spot)

    def _compare(self) -> None:
        """Compare addresses, blocks and allocations with those of the captures."""
        start_ns = perf_counter_ns()
        self._find_freed_blocks(None)
        fates = {identity: find_fate(shared.item) for identity, shared in self._memory.items()}
        for identity, fate in fates.items():
            if fate is not None:
                self._memory.pop(identity).handle_death(None, fate)
        now = perf_counter_ns()
        self._next_comparison = now + _BUDGET * (now - start_ns)

    def _add(
        self,
        entry: _WatchedGraph,
        position: int,
        graph_id: str,
        replay: int,
        fate: Fate,
        spot: SourceLocation | None,
    ) -> None:
        if position in entry.reports:
            return
        entry.reports.add(position)
        item = entry.memory[position]
        self._report(
            MemoryFate(
                graph=graph_id,
                node=item.node,
                owner=item.owner,
                description=item.description,
                fate=fate,
                free_location=spot.to_code_place() if spot else None,
                after_replay=replay - 1,
                reported_before_replay=replay,
                argument=item.argument,
                allocation_location=item.spot.to_code_place() if item.spot else None,
            )
        )


class _DeathHandler:
    """Callback of a weak reference to a storage. Holds no tensor."""

    __slots__ = ("_entry", "_position")

    def __init__(self, entry: _WatchedGraph, position: int) -> None:
        self._entry = entry
        self._position = position

    def __call__(self, _reference: object) -> None:
        self._entry.handle_death(self._position, find_user_location(sys._getframe().f_back))


def _find_operators(record: StepRecord) -> dict[int, int]:
    return {
        node: number
        for number, operator in enumerate(record.operators)
        if operator.first_node is not None
        for node in range(operator.first_node, operator.first_node + operator.node_count)
    }


def _describe_node(
    graph_id: str,
    index: int,
    owners: dict[int, int],
    record: StepRecord,
    read: CapturedGraph,
) -> NodeOwner:
    operator = record.operators[owners[index]] if index in owners else None
    node = read.nodes[index]
    return NodeOwner(
        graph=graph_id,
        index=index,
        kind=node.kind.value,
        name=node.params.demangled if isinstance(node.params, KernelParams) else None,
        op=operator.name if operator else None,
        location=operator.spot.to_code_place() if operator and operator.spot else None,
        module=operator.module if operator else None,
    )
