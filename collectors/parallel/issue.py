"""Captures a step anew, each operator on the stream of its plan, behind what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from collectors.parallel.follow import Follower
from collectors.parallel.observer import nodes_so_far
from collectors.parallel.storages import living
from collectors.parallel.streams import on
from graphviz_dash.model.parallel import Access, Operator, Storage
from graphviz_dash.planning.plan import Plan


class Issuer(Follower):
    """Issues the operators of a step as its plan says, while the step is captured.

    Memory that the program gave back is held until the plan releases it: torch's allocator gives a
    block to the next that asks for one on the stream that took it, which need not come after those
    that read it on other streams. Storages are held, not tensors: autograd hands on a gradient
    without a copy where nobody else has the tensor.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        storages: Sequence[Storage],
        plan: Plan,
        streams: Sequence[torch.cuda.Stream],
        delays: Mapping[int, int] | None = None,
    ) -> None:
        """``delays`` are cycles to spin before operators, by their index."""
        super().__init__(operators, storages)
        self._plan = plan
        self._streams = streams[: plan.streams]
        # On one stream the program's own waits are as good, and let more run beside a collective.
        self.joins_collectives = plan.streams > 1
        self._delays = delays or {}
        self._awaited = {source for waits in plan.waits for source in waits}
        self._events: dict[int, torch.cuda.Event] = {}
        self._held: dict[int, list[torch.UntypedStorage]] = {}
        self._made: dict[int, list[StorageWeakRef]] = {}
        self.alive: dict[int, torch.UntypedStorage] = {}
        """What the step made and left behind, by number: known when it has finished."""
        self.nodes = [0] * len(operators)
        """By operator the nodes that it made, those of its delay included."""
        self.addresses: list[tuple[Access, ...]] = [()] * len(operators)
        """By operator the addresses that it reaches, as bytes of a storage 0 that is all memory."""

    def start(self) -> None:
        """Lets the other streams join the capture of the first."""
        for stream in self._streams[1:]:
            stream.wait_stream(self._streams[0])
        super().start()

    def finish(self) -> None:
        """Joins the streams, and gives back what is still held."""
        super().finish()
        self._join()
        self.alive = {
            number: storage
            for number, references in self._made.items()
            for storage in map(living, references)
            if storage is not None
        }

    def abandon(self) -> None:
        """Joins the streams, so that the capture can end."""
        self._join()

    def _join(self) -> None:
        for stream in self._streams[1:]:
            self._streams[0].wait_stream(stream)
        self._held.clear()

    def run(self, index: int, function: Callable[[], Any]) -> Any:
        """Calls the operator on its stream."""
        self._release(index)
        before = nodes_so_far()
        stream = self._streams[self._plan.stream[index]]
        if self.operators[index].nodes:
            self._wait(index)
        with on(stream):
            if index in self._delays:
                torch.cuda._sleep(self._delays[index])
            result = function()
            self.copy_results(index, result)
        self.nodes[index] = nodes_so_far() - before
        self._record(index)
        return result

    def made(self, number: int, tensor: torch.Tensor) -> None:
        """Holds the memory of a result."""
        storage = tensor.untyped_storage()
        self._held.setdefault(number, []).append(storage)
        self._made.setdefault(number, []).append(StorageWeakRef(storage))

    def reached(self, index: int, seen: Sequence[torch.Tensor]) -> None:
        """Notes where in memory it reached."""
        if not self.operators[index].nodes:
            return
        places = {
            self.number(tensor): tensor.untyped_storage()
            for tensor in seen
            if tensor.layout is torch.strided
        }
        self.addresses[index] = tuple(
            Access(
                0,
                places[access.storage].data_ptr() + access.begin,
                places[access.storage].data_ptr()
                + min(access.end, places[access.storage].nbytes()),
                access.writes,
            )
            for access in self.operators[index].accesses
            if access.storage in places
        )

    def unnamed_begins(self, index: int) -> None:
        """The stream that captures, on which it is launched, waits for all others."""
        self._release(index)
        self._wait(index)
        self.nodes[index] = -nodes_so_far()

    def unnamed_ended(self, index: int) -> None:
        """Others may wait for it."""
        if self.nodes[index] <= 0:
            self.nodes[index] += nodes_so_far()
        self._record(index)

    def _wait(self, index: int) -> None:
        stream = self._streams[self._plan.stream[index]]
        for source in self._plan.waits[index]:
            stream.wait_event(self._events[source])

    def _record(self, index: int) -> None:
        if index in self._awaited and index not in self._events:
            event = torch.cuda.Event()
            event.record(self._streams[self._plan.stream[index]])
            self._events[index] = event

    def _release(self, index: int) -> None:
        for storage in self._plan.releases[index]:
            self._held.pop(storage, None)
