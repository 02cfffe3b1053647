"""Follow an observed step, operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from collectors.parallel.capture import RefusedError
from collectors.parallel.collectives import is_collective, wait_for_collective
from collectors.parallel.observer import find_calling_line, is_ignored
from collectors.parallel.storages import StorageNumbering, iter_tensors
from graphviz_dash.model.parallel import Operator, Storage


class Follower(TorchDispatchMode):
    """Checks that a step calls the observed operators on corresponding memory."""

    def __init__(self, operators: Sequence[Operator], storages: Sequence[Storage]) -> None:
        super().__init__()
        self.operators = operators
        self._storages = storages
        self._expected_accesses = [
            {(access.storage, access.start, access.end) for access in operator.accesses}
            for operator in operators
        ]
        self._numbers = StorageNumbering()
        self._next = 0
        self.joins_collectives = True
        """Wait for asynchronous collectives where they are called."""
        self.copies: dict[int, list[torch.Tensor]] | None = None
        """Copies of each operator's results, or None if not requested."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the operator through :meth:`run`.

        Raises:
            RefusedError: The operator differs from the observed one.
        """
        # The capture pass has its own mode for Python's calls into torch; these calls are ours.
        with torch._C.DisableTorchFunction():
            return self._follow_operator(function, args, kwargs or {})

    def _follow_operator(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if is_ignored(function):
            return function(*args, **kwargs)
        self.end_unnamed_work()
        index = self._next
        if index == len(self.operators) or _differs(self.operators[index].name, str(function)):
            raise self._build_refusal(str(function))
        arguments = [
            tensor for tensor in iter_tensors((args, kwargs)) if tensor.layout is torch.strided
        ]
        for tensor in arguments:
            is_first_use = not self._numbers.has_number(tensor)
            reach = self._numbers.get_access(tensor)
            if reach not in self._expected_accesses[index]:
                raise self._build_refusal(f"{function} on other memory")
            if is_first_use and self._storages[reach[0]].creator == index:
                self.on_storage_created(reach[0], tensor)
        self._next += 1
        result = self.run_operator(index, lambda: self._call_operator(function, args, kwargs))
        for tensor in iter_tensors(result):
            if tensor.layout is torch.strided and not self._numbers.has_number(tensor):
                self._number_result(index, arguments, tensor)
        self.on_operator_done(index, [*arguments, *iter_tensors(result)])
        self.start_unnamed_work()
        return result

    def start(self) -> None:
        """Called before the step."""
        self.start_unnamed_work()

    def finish(self) -> None:
        """Called after the step.

        Raises:
            RefusedError: The step ended before all operators were called.
        """
        self.end_unnamed_work()
        if self._next != len(self.operators):
            raise self._build_refusal("the end of the step")

    def abandon(self) -> None:
        """Called after the step raised."""

    def _call_operator(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        result = function(*args, **kwargs)
        if self.joins_collectives and is_collective(function):
            wait_for_collective(function, args, kwargs, result)
        return result

    def copy_results(self, index: int, result: Any) -> None:
        """Copy the operator's results on the current stream, if requested."""
        if self.copies is not None:
            self.copies[index] = [
                tensor.clone() for tensor in iter_tensors(result) if tensor.layout is torch.strided
            ]

    def run_operator(self, index: int, function: Callable[[], Any]) -> Any:
        """Call the operator."""
        result = function()
        self.copy_results(index, result)
        return result

    def on_storage_created(self, number: int, tensor: torch.Tensor) -> None:
        """Handle a storage created by the step."""

    def on_operator_done(self, index: int, tensors: Sequence[torch.Tensor]) -> None:
        """Handle a finished operator; ``tensors`` are its arguments and results."""

    def get_number(self, tensor: torch.Tensor) -> int:
        """Return the observed number of a tensor's storage."""
        return self._numbers.get_number(tensor)

    def on_unnamed_start(self, index: int) -> None:
        """Handle the start of work that belongs to no operator."""

    def on_unnamed_end(self, index: int) -> None:
        """Handle the end of such work."""

    def start_unnamed_work(self) -> None:
        """Report unnamed work if it comes next."""
        if self._next < len(self.operators) and not self.operators[self._next].name:
            self.on_unnamed_start(self._next)
            self._next += 1

    def end_unnamed_work(self) -> None:
        """Report the end of unnamed work if it came last."""
        if self._next and not self.operators[self._next - 1].name:
            self.on_unnamed_end(self._next - 1)

    def _number_result(self, index: int, results: list[torch.Tensor], tensor: torch.Tensor) -> None:
        if self._numbers.count < len(self._storages):
            maker = self._storages[self._numbers.count].creator
        else:
            maker = None
        if maker == index:
            number = self._numbers.get_number(tensor)
        else:
            # autograd wrote the sum into the memory of its first operand.
            number = self._numbers.get_number(results[0])
            self._numbers.alias(tensor, number)
        self.on_storage_created(number, tensor)

    def _build_refusal(self, reason: str) -> RefusedError:
        expected = "the end of the step"
        if self._next < len(self.operators):
            expected = self.operators[self._next].name
        return RefusedError(
            f"the step is not repeatable: operator {self._next} was {expected}, then {reason}",
            find_calling_line(),
        )


def _differs(observed: str, called: str) -> bool:
    """Check if two operators differ.

    Autograd sums gradients in place only if nothing else holds their memory.
    """
    return observed != called and (observed, called) != ("aten.add_.Tensor", "aten.add.Tensor")
