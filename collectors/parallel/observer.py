"""Observe one capture of a step on one stream: its operators and the memory they access."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

import torch
from cuda.bindings import runtime
from torch.utils._python_dispatch import TorchDispatchMode

from collectors.collection.paths import shorten_path
from collectors.driver.calls import call
from collectors.parallel.capture import RefusedError
from collectors.parallel.collectives import (
    COLLECTIVES,
    HIDDEN_COMMUNICATION,
    find_collective_writes,
    is_collective,
    wait_for_collective,
)
from collectors.parallel.storages import StorageNumbering, iter_tensors
from graphviz_dash.model.parallel import Access, Operator, Storage

TRUSTED: Final = frozenset({"aten", "prims", "torchvision"}) | COLLECTIVES
"""Namespaces of operators whose schemas declare all writes and accesses."""

_IGNORED: Final = frozenset({"profiler"})


def is_ignored(function: Any) -> bool:
    """Check if an operator adds nothing to a graph: range markers and views."""
    return function.namespace in _IGNORED or bool(getattr(function, "is_view", False))


def count_nodes() -> int:
    """Return the number of nodes captured so far on the current stream."""
    graph = runtime.cudaStreamGetCaptureInfo(torch.cuda.current_stream().cuda_stream)[3]
    return int(call(runtime.cudaGraphGetNodes, graph, 0)[1])


class OperatorObserver(TorchDispatchMode):
    """Records each operator of the current stream's capture, including autograd's threads.

    Work between operators, as launched by compiled code, becomes an unnamed operator.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[Operator] = []
        self.storages: list[Storage] = []
        self.outside: dict[int, torch.UntypedStorage] = {}
        self.large: set[int] = set()
        """Operators that allocated blocks above 1 MiB."""
        self.mixed: set[int] = set()
        """Storages used with several dtypes."""
        self._stream: Any = None
        self._numbers = StorageNumbering()
        self._nodes = 0
        self._deferred: str | None = None
        """Source of the last operator if it is a collective without launches so far."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        # The capture pass has its own mode for Python's calls into torch; these calls are ours.
        with torch._C.DisableTorchFunction():
            return self._observe_operator(function, types, args, kwargs or {})

    def _observe_operator(
        self, function: Any, types: Any, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        if is_ignored(function):
            return function(*args, **kwargs)
        source = find_calling_line()
        self._check_streams(function, source)
        self.finish()
        before = self._nodes
        call_tensors = list(iter_tensors((args, kwargs)))
        strided = [tensor for tensor in call_tensors if tensor.layout is torch.strided]
        reads = [self._record_access(tensor, None, False) for tensor in strided]
        written_arguments = find_collective_writes(function, args, kwargs)
        targets = [target for target in written_arguments if target.layout is torch.strided]
        memory = [(target.untyped_storage().data_ptr(), target) for target in targets]
        blocks = _count_large_blocks()
        result = function(*args, **kwargs)
        communicates = is_collective(function)
        if communicates:
            wait_for_collective(function, args, kwargs, result)
        self._nodes = count_nodes()
        self._deferred = source or str(function) if communicates and self._nodes == before else None
        if _count_large_blocks() > blocks:
            self.large.add(len(self.operators))
        if any(begin not in (0, target.untyped_storage().data_ptr()) for begin, target in memory):
            raise RefusedError(f"{function} resizes a tensor, whose memory moves", source)
        # An ``out`` argument gets its size during the call.
        writes = [self._record_access(target, None, True) for target in targets]
        fresh = [
            self._record_access(tensor, len(self.operators), True)
            for tensor in iter_tensors(result)
            if tensor.layout is torch.strided and not self._numbers.has_number(tensor)
        ]
        opaque = (
            function.namespace not in TRUSTED or len(strided) < len(call_tensors) or bool(types)
        )
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
        """Start observing the current stream's capture."""
        self._stream = torch.cuda.current_stream()

    def abandon(self) -> None:
        """Called after the step raised."""

    def finish(self) -> None:
        """Record work launched since the last operator."""
        count = count_nodes()
        if count > self._nodes:
            if self._deferred is not None:
                raise RefusedError(
                    "collectives are launched after their calls return", self._deferred
                )
            self.operators.append(Operator("", (), count - self._nodes, opaque=True))
        self._nodes = count

    def _check_streams(self, function: Any, source: str | None) -> None:
        if function.namespace in HIDDEN_COMMUNICATION:
            raise RefusedError(f"{function} accesses memory of other ranks", source)
        if torch.cuda.current_stream() != self._stream:
            raise RefusedError("the step uses its own streams", source)

    def _record_access(self, tensor: torch.Tensor, maker: int | None, writes: bool) -> Access:
        number, begin, end = self._numbers.get_access(tensor)
        if number == len(self.storages):
            storage = tensor.untyped_storage()
            dtype = str(tensor.dtype).removeprefix("torch.")
            self.storages.append(Storage(storage.nbytes(), tuple(tensor.shape), dtype, maker))
            if maker is None:
                self.outside[number] = storage
        elif self.storages[number].dtype != str(tensor.dtype).removeprefix("torch."):
            self.mixed.add(number)
        return Access(number, begin, end, writes)


def _count_large_blocks() -> int:
    statistics = torch.cuda.memory_stats_as_nested_dict()
    return int(statistics["allocation"]["large_pool"]["allocated"])


_TORCH = str(Path(torch.__file__).parent)
_OURS = str(Path(__file__).parent.parent)
_WORKLOADS = str(Path(__file__).parent.parent / "workloads")


def find_calling_line() -> str | None:
    """Return ``file:line`` of the innermost user frame, or None, as in autograd's threads."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else f"{shorten_path(frame.f_code.co_filename)}:{frame.f_lineno}"


@lru_cache(maxsize=4096)
def _is_user_file(file: str) -> bool:
    is_project_file = file.startswith(_OURS) and not file.startswith(_WORKLOADS)
    return not is_project_file and not file.startswith((_TORCH, "<"))
