"""Capture a step again with each operator on its planned stream, after its dependencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from collectors.parallel.follow import Follower
from collectors.parallel.observer import count_nodes
from collectors.parallel.storages import get_living_storage
from collectors.parallel.streams import use_stream
from graphviz_dash.model.parallel import Access, Operator, Storage
from graphviz_dash.planning.plan import Plan


class OperatorIssuer(Follower):
    """Issues the operators of a step by its plan during a capture.

    Memory freed by the program is held until the plan releases it, since torch's allocator would
    reuse it on its stream before readers on other streams finish. Storages are held, not tensors,
    because autograd copies gradients that others hold.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        storages: Sequence[Storage],
        plan: Plan,
        streams: Sequence[torch.cuda.Stream],
        delays: Mapping[int, int] | None = None,
    ) -> None:
        """``delays`` are cycles to spin before operators, by index."""
        super().__init__(operators, storages)
        self._plan = plan
        self._streams = streams[: plan.streams]
        # On one stream the program's own waits suffice and allow more overlap with collectives.
        self.joins_collectives = plan.streams > 1
        self._delays = delays or {}
        self._awaited = {source for waits in plan.waits for source in waits}
        self._events: dict[int, torch.cuda.Event] = {}
        self._held: dict[int, list[torch.UntypedStorage]] = {}
        self._created: dict[int, list[StorageWeakRef]] = {}
        self.alive: dict[int, torch.UntypedStorage] = {}
        """Storages that outlive the step, by number; set at its end."""
        self.nodes = [0] * len(operators)
        """Nodes created by each operator, including its delay."""
        self.addresses: list[tuple[Access, ...]] = [()] * len(operators)
        """Addresses accessed by each operator, as bytes of a storage 0."""

    def start(self) -> None:
        """Fork the other streams from the captured stream."""
        for stream in self._streams[1:]:
            stream.wait_stream(self._streams[0])
        super().start()

    def finish(self) -> None:
        """Join the streams and release held memory."""
        super().finish()
        self._join_streams()
        self.alive = {
            number: storage
            for number, references in self._created.items()
            for storage in map(get_living_storage, references)
            if storage is not None
        }

    def abandon(self) -> None:
        """Join the streams so that the capture can end."""
        self._join_streams()

    def _join_streams(self) -> None:
        for stream in self._streams[1:]:
            self._streams[0].wait_stream(stream)
        self._held.clear()

    def run_operator(self, index: int, function: Callable[[], Any]) -> Any:
        """Call the operator on its stream."""
        self._release_storages(index)
        before = count_nodes()
        stream = self._streams[self._plan.stream[index]]
        if self.operators[index].nodes:
            self._wait_for_sources(index)
        with use_stream(stream):
            if index in self._delays:
                torch.cuda._sleep(self._delays[index])
            result = function()
            self.copy_results(index, result)
        self.nodes[index] = count_nodes() - before
        self._record_event(index)
        return result

    def on_storage_created(self, number: int, tensor: torch.Tensor) -> None:
        """Hold the memory of a result."""
        storage = tensor.untyped_storage()
        self._held.setdefault(number, []).append(storage)
        self._created.setdefault(number, []).append(StorageWeakRef(storage))

    def on_operator_done(self, index: int, tensors: Sequence[torch.Tensor]) -> None:
        """Record the accessed addresses."""
        if not self.operators[index].nodes:
            return
        accessed = {
            self.get_number(tensor): tensor.untyped_storage()
            for tensor in tensors
            if tensor.layout is torch.strided
        }
        self.addresses[index] = tuple(
            Access(
                0,
                accessed[access.storage].data_ptr() + access.start,
                accessed[access.storage].data_ptr()
                + min(access.end, accessed[access.storage].nbytes()),
                access.writes,
            )
            for access in self.operators[index].accesses
            if access.storage in accessed
        )

    def on_unnamed_start(self, index: int) -> None:
        """Make the capturing stream wait for all others."""
        self._release_storages(index)
        self._wait_for_sources(index)
        self.nodes[index] = -count_nodes()

    def on_unnamed_end(self, index: int) -> None:
        """Record the work so that others can wait for it."""
        if self.nodes[index] <= 0:
            self.nodes[index] += count_nodes()
        self._record_event(index)

    def _wait_for_sources(self, index: int) -> None:
        stream = self._streams[self._plan.stream[index]]
        for source in self._plan.waits[index]:
            stream.wait_event(self._events[source])

    def _record_event(self, index: int) -> None:
        if index in self._awaited and index not in self._events:
            event = torch.cuda.Event()
            event.record(self._streams[self._plan.stream[index]])
            self._events[index] = event

    def _release_storages(self, index: int) -> None:
        for storage in self._plan.releases[index]:
            self._held.pop(storage, None)
