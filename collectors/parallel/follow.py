"""Follow an observed step, operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from collectors.parallel.collectives import is_collective, join
from collectors.parallel.observer import is_ignored
from collectors.parallel.refusal import RefusedError
from collectors.parallel.source import calling_line
from collectors.parallel.storages import Storages, tensors
from graphviz_dash.model.parallel import Operator, Storage


class Follower(TorchDispatchMode):
    """Checks that a step calls the observed operators on corresponding memory."""

    def __init__(self, operators: Sequence[Operator], storages: Sequence[Storage]) -> None:
        super().__init__()
        self.operators = operators
        self._storages = storages
        self._reach = [
            {(access.storage, access.begin, access.end) for access in operator.accesses}
            for operator in operators
        ]
        self._numbers = Storages()
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
            return self._follow(function, args, kwargs or {})

    def _follow(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if is_ignored(function):
            return function(*args, **kwargs)
        self.between()
        index = self._next
        if index == len(self.operators) or _differ(self.operators[index].name, str(function)):
            raise self._changed(str(function))
        arguments = [tensor for tensor in tensors((args, kwargs)) if tensor.layout is torch.strided]
        for tensor in arguments:
            first_seen = not self._numbers.knows(tensor)
            reach = self._numbers.reach(tensor)
            if reach not in self._reach[index]:
                raise self._changed(f"{function} on other memory")
            if first_seen and self._storages[reach[0]].maker == index:
                self.made(reach[0], tensor)
        self._next += 1
        result = self.run(index, lambda: self._called(function, args, kwargs))
        for tensor in tensors(result):
            if tensor.layout is torch.strided and not self._numbers.knows(tensor):
                self._meet(index, arguments, tensor)
        self.reached(index, [*arguments, *tensors(result)])
        self.before_unnamed()
        return result

    def start(self) -> None:
        """Called before the step."""
        self.before_unnamed()

    def finish(self) -> None:
        """Called after the step.

        Raises:
            RefusedError: The step ended before all operators were called.
        """
        self.between()
        if self._next != len(self.operators):
            raise self._changed("the end of the step")

    def abandon(self) -> None:
        """Called after the step raised."""

    def _called(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        result = function(*args, **kwargs)
        if self.joins_collectives and is_collective(function):
            join(function, args, kwargs, result)
        return result

    def copy_results(self, index: int, result: Any) -> None:
        """Copy the operator's results on the current stream, if requested."""
        if self.copies is not None:
            self.copies[index] = [
                tensor.clone() for tensor in tensors(result) if tensor.layout is torch.strided
            ]

    def run(self, index: int, function: Callable[[], Any]) -> Any:
        """Call the operator."""
        result = function()
        self.copy_results(index, result)
        return result

    def made(self, number: int, tensor: torch.Tensor) -> None:
        """Handle a storage created by the step."""

    def reached(self, index: int, seen: Sequence[torch.Tensor]) -> None:
        """Handle a finished operator; ``seen`` are its arguments and results."""

    def number(self, tensor: torch.Tensor) -> int:
        """Return the observed number of a tensor's storage."""
        return self._numbers.number(tensor)

    def unnamed_begins(self, index: int) -> None:
        """Handle the start of work that belongs to no operator."""

    def unnamed_ended(self, index: int) -> None:
        """Handle the end of such work."""

    def before_unnamed(self) -> None:
        """Report unnamed work if it comes next."""
        if self._next < len(self.operators) and not self.operators[self._next].name:
            self.unnamed_begins(self._next)
            self._next += 1

    def between(self) -> None:
        """Report the end of unnamed work if it came last."""
        if self._next and not self.operators[self._next - 1].name:
            self.unnamed_ended(self._next - 1)

    def _meet(self, index: int, given: list[torch.Tensor], tensor: torch.Tensor) -> None:
        if self._numbers.count < len(self._storages):
            maker = self._storages[self._numbers.count].maker
        else:
            maker = None
        if maker == index:
            number = self._numbers.number(tensor)
        else:
            # autograd wrote the sum into the memory of its first operand.
            number = self._numbers.number(given[0])
            self._numbers.bind(tensor, number)
        self.made(number, tensor)

    def _changed(self, found: str) -> RefusedError:
        expected = "the end of the step"
        if self._next < len(self.operators):
            expected = self.operators[self._next].name
        return RefusedError(
            f"the step is not repeatable: operator {self._next} was {expected}, then {found}",
            calling_line(),
        )


def _differ(observed: str, called: str) -> bool:
    """Check if two operators differ.

    Autograd sums gradients in place only if nothing else holds their memory.
    """
    return observed != called and (observed, called) != ("aten.add_.Tensor", "aten.add.Tensor")
