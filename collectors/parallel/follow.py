"""Follows a step that was observed, operator by operator."""

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
    """Sees that a step calls the operators that were observed, on memory that is used alike."""

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
        """Whether an asynchronous collective is waited for where it is called."""
        self.copies: dict[int, list[torch.Tensor]] | None = None
        """By operator copies of what it returned; None: they are not wanted."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Runs the operator by :meth:`run`.

        Raises:
            RefusedError: it is not the operator that was observed.
        """
        # The capture pass has a mode of its own for Python's calls into torch; these are ours.
        with torch._C.DisableTorchFunction():
            return self._follow(function, args, kwargs or {})

    def _follow(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if is_ignored(function):
            return function(*args, **kwargs)
        self.between()
        index = self._next
        if index == len(self.operators) or _differ(self.operators[index].name, str(function)):
            raise self._changed(str(function))
        given = [tensor for tensor in tensors((args, kwargs)) if tensor.layout is torch.strided]
        for tensor in given:
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
                self._meet(index, given, tensor)
        self.reached(index, [*given, *tensors(result)])
        self.before_unnamed()
        return result

    def start(self) -> None:
        """The step is about to begin."""
        self.before_unnamed()

    def finish(self) -> None:
        """The step has ended.

        Raises:
            RefusedError: it ended before all operators were called.
        """
        self.between()
        if self._next != len(self.operators):
            raise self._changed("nothing more")

    def abandon(self) -> None:
        """The step raised."""

    def _called(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        result = function(*args, **kwargs)
        if self.joins_collectives and is_collective(function):
            join(function, args, kwargs, result)
        return result

    def copy_results(self, index: int, result: Any) -> None:
        """Copies what the operator returned, if copies are wanted, on the current stream."""
        if self.copies is not None:
            self.copies[index] = [
                tensor.clone() for tensor in tensors(result) if tensor.layout is torch.strided
            ]

    def run(self, index: int, function: Callable[[], Any]) -> Any:
        """Calls the operator."""
        result = function()
        self.copy_results(index, result)
        return result

    def made(self, number: int, tensor: torch.Tensor) -> None:
        """The step made a storage."""

    def reached(self, index: int, seen: Sequence[torch.Tensor]) -> None:
        """The operator was called; ``seen`` are its arguments and results."""

    def number(self, tensor: torch.Tensor) -> int:
        """The number of a tensor's storage as it was observed."""
        return self._numbers.number(tensor)

    def unnamed_begins(self, index: int) -> None:
        """Work that no operator shows is about to be launched."""

    def unnamed_ended(self, index: int) -> None:
        """It was launched."""

    def before_unnamed(self) -> None:
        """Tells of work that no operator shows, where it comes next."""
        if self._next < len(self.operators) and not self.operators[self._next].name:
            self.unnamed_begins(self._next)
            self._next += 1

    def between(self) -> None:
        """Tells that work that no operator shows was launched, where it came last."""
        if self._next and not self.operators[self._next - 1].name:
            self.unnamed_ended(self._next - 1)

    def _meet(self, index: int, given: list[torch.Tensor], tensor: torch.Tensor) -> None:
        """Numbers the storage of a result."""
        if self._numbers.count < len(self._storages):
            maker = self._storages[self._numbers.count].maker
        else:
            maker = None
        if maker == index:
            number = self._numbers.number(tensor)
        else:
            # The sum that autograd had put into the memory of its first operand.
            number = self._numbers.number(given[0])
            self._numbers.bind(tensor, number)
        self.made(number, tensor)

    def _changed(self, found: str) -> RefusedError:
        expected = "nothing more"
        if self._next < len(self.operators):
            expected = self.operators[self._next].name
        return RefusedError(
            f"the step does not do the same each time: operator {self._next} was {expected}, "
            f"then {found}",
            calling_line(),
        )


def _differ(observed: str, called: str) -> bool:
    """Whether two operators are not the same. Autograd sums gradients in place only where nobody
    else holds their memory, as is done here."""
    return observed != called and (observed, called) != ("aten.add_.Tensor", "aten.add.Tensor")
