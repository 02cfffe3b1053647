"""Watches one capture of a step on one stream: its operators, and the memory that each reaches."""

from __future__ import annotations

from typing import Any, Final

import torch
from cuda.bindings import runtime
from torch.utils._python_dispatch import TorchDispatchMode

from collectors.driver.calls import call
from collectors.parallel.collectives import (
    COLLECTIVES,
    UNSEEN,
    collective_writes,
    is_collective,
    join,
)
from collectors.parallel.refusal import RefusedError
from collectors.parallel.source import calling_line
from collectors.parallel.storages import Storages, tensors
from graphviz_dash.model.parallel import Access, Operator, Storage

TRUSTED: Final = frozenset({"aten", "prims", "torchvision"}) | COLLECTIVES
"""Namespaces of operators whose schemas say what they write, and which reach nothing else."""

_IGNORED: Final = frozenset({"profiler"})
"""Namespaces of operators that only mark ranges."""


def is_ignored(function: Any) -> bool:
    """Whether an operator does nothing that a graph could hold: it marks a range, or makes a view,
    of which autograd makes more at times."""
    return function.namespace in _IGNORED or bool(getattr(function, "is_view", False))


def nodes_so_far() -> int:
    """The nodes in the graph that the current stream captures."""
    graph = runtime.cudaStreamGetCaptureInfo(torch.cuda.current_stream().cuda_stream)[3]
    return int(call(runtime.cudaGraphGetNodes, graph, 0)[1])


class Observer(TorchDispatchMode):
    """Notes each operator of the capture that the current stream is in.

    Autograd's engine takes the mode along to its threads. Work between two operators, as compiled
    code launches it, is noted as an operator without a name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[Operator] = []
        self.storages: list[Storage] = []
        self.outside: dict[int, torch.UntypedStorage] = {}
        """The storages from outside the step, by number."""
        self.large: set[int] = set()
        """Operators that took blocks of more than 1 MiB from the allocator."""
        self.mixed: set[int] = set()
        """Storages that were seen as tensors of several types."""
        self._stream: Any = None
        self._numbers = Storages()
        self._nodes = 0
        self._deferred: str | None = None
        """Where a collective was called that launched nothing, if that was the last operator."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Runs the operator, and notes what it reaches and how many nodes it made."""
        # The capture pass has a mode of its own for Python's calls into torch; these are ours.
        with torch._C.DisableTorchFunction():
            return self._observe(function, types, args, kwargs or {})

    def _observe(self, function: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if is_ignored(function):
            return function(*args, **kwargs)
        source = calling_line()
        self._check_streams(function, source)
        self.finish()
        before = self._nodes
        given = list(tensors((args, kwargs)))
        seen = [tensor for tensor in given if tensor.layout is torch.strided]
        reads = [self._access(tensor, None, False) for tensor in seen]
        arguments = collective_writes(function, args, kwargs)
        targets = [each for each in arguments if each.layout is torch.strided]
        memory = [(each.untyped_storage().data_ptr(), each) for each in targets]
        blocks = _large_blocks()
        result = function(*args, **kwargs)
        talks = is_collective(function)
        if talks:
            join(function, args, kwargs, result)
        self._nodes = nodes_so_far()
        self._deferred = source or str(function) if talks and self._nodes == before else None
        if _large_blocks() > blocks:
            self.large.add(len(self.operators))
        if any(begin not in (0, each.untyped_storage().data_ptr()) for begin, each in memory):
            raise RefusedError(f"{function} resizes a tensor, whose memory moves", source)
        # An argument for the result has its size only now.
        writes = [self._access(each, None, True) for each in targets]
        fresh = [
            self._access(tensor, len(self.operators), True)
            for tensor in tensors(result)
            if tensor.layout is torch.strided and not self._numbers.knows(tensor)
        ]
        opaque = function.namespace not in TRUSTED or len(seen) < len(given) or bool(types)
        operator = Operator(
            name=str(function),
            accesses=tuple(dict.fromkeys((*reads, *writes, *fresh))),
            nodes=self._nodes - before,
            opaque=opaque,
            random=torch.Tag.nondeterministic_seeded in function.tags,
            source=source,
        )
        self.operators.append(operator)
        return result

    def start(self) -> None:
        """The capture has begun on the current stream."""
        self._stream = torch.cuda.current_stream()

    def abandon(self) -> None:
        """The step raised."""

    def finish(self) -> None:
        """Notes the work that was launched since the last operator."""
        count = nodes_so_far()
        if count > self._nodes:
            if self._deferred is not None:
                raise RefusedError("collectives are launched behind their calls", self._deferred)
            self.operators.append(Operator("", (), count - self._nodes, opaque=True))
        self._nodes = count

    def _check_streams(self, function: Any, source: str | None) -> None:
        if function.namespace in UNSEEN:
            raise RefusedError(f"{function} reaches memory of other ranks", source)
        if torch.cuda.current_stream() != self._stream:
            raise RefusedError("the step uses streams of its own", source)

    def _access(self, tensor: torch.Tensor, maker: int | None, writes: bool) -> Access:
        number, begin, end = self._numbers.reach(tensor)
        if number == len(self.storages):
            storage = tensor.untyped_storage()
            dtype = str(tensor.dtype).removeprefix("torch.")
            self.storages.append(Storage(storage.nbytes(), tuple(tensor.shape), dtype, maker))
            if maker is None:
                self.outside[number] = storage
        elif self.storages[number].dtype != str(tensor.dtype).removeprefix("torch."):
            self.mixed.add(number)
        return Access(number, begin, end, writes)


def _large_blocks() -> int:
    """How many blocks of more than 1 MiB torch's allocator has given out."""
    statistics = torch.cuda.memory_stats_as_nested_dict()
    return int(statistics["allocation"]["large_pool"]["allocated"])
