"""The ticks of torch itself: optimizers that step, modules that are called from outside any other.

Nothing here is put on an object of the program's, where a copy or a pickle would take it along.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import MethodType
from typing import Any, TypeAlias

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

Callback: TypeAlias = Callable[[Any], None]


@contextmanager
def optimizer_steps(on_step: Callback) -> Iterator[None]:
    """While it lasts, ``on_step`` gets each optimizer whose step has just returned."""

    def stepped(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        # The compiler takes the constant and drops the rest, so that it compiles what it would.
        if not torch.compiler.is_compiling():
            on_step(optimizer)

    handle = register_optimizer_step_post_hook(stepped)
    try:
        yield
    finally:
        handle.remove()


class OutermostCalls:
    """Tells of each call of a module from outside any other, until :meth:`stop`.

    It sees calls through ``nn.Module.__call__`` and gives way to the compiler: at the first
    ``torch.compile`` or ``torch.export.export`` it stops for good, so that the compiler finds torch
    as it is. After a few calls of one module in a row only that module's class is watched.
    """

    _SETTLED = 4

    def __init__(self, on_call: Callback) -> None:
        self._on_call = on_call
        self._local = threading.local()
        self._original = torch.nn.Module.__call__
        self._last = 0
        self._in_a_row = 0
        self._narrowed: type | None = None
        self._entries: list[tuple[Any, str, Any]] = []
        self._stopped = False

    def start(self) -> None:
        """Begins to watch."""
        torch.nn.Module.__call__ = self._wrapper()
        for holder, name in ((torch, "compile"), (torch.export, "export")):
            self._entries.append((holder, name, getattr(holder, name)))
            setattr(holder, name, self._giving_way(getattr(holder, name)))

    def stop(self) -> None:
        """Puts everything back; may be called again."""
        if self._stopped:
            return
        self._stopped = True
        torch.nn.Module.__call__ = self._original
        if self._narrowed is not None:
            del self._narrowed.__call__
        for holder, name, original in self._entries:
            setattr(holder, name, original)

    def _wrapper(self) -> Callable[..., Any]:
        original, local, outermost = self._original, self._local, self._outermost

        def call_module(module: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(local, "inside", False):
                return original(module, *args, **kwargs)
            local.inside = True
            try:
                outermost(module)
                return original(module, *args, **kwargs)
            finally:
                local.inside = False

        return call_module

    def _outermost(self, module: Any) -> None:
        if self._stopped:
            return
        self._on_call(module)
        self._in_a_row = self._in_a_row + 1 if id(module) == self._last else 1
        self._last = id(module)
        if self._in_a_row >= self._SETTLED and self._narrowed is None:
            self._narrow(type(module))

    def _narrow(self, kind: type) -> None:
        """Leaves all modules alone but those of one class: the inner ones cost nothing then."""
        torch.nn.Module.__call__ = self._original
        if "__call__" in vars(kind) or kind is torch.nn.Module:
            return
        self._narrowed = kind
        setattr(kind, "__call__", self._wrapper())  # noqa: B010  # a class, which mypy guards

    def _giving_way(self, entry: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(entry)
        def compile_without_us(*args: Any, **kwargs: Any) -> Any:
            self.stop()
            return entry(*(self._bare(arg) for arg in args), **kwargs)

        return compile_without_us

    def _bare(self, argument: Any) -> Any:
        """``module.__call__``, fetched while it was ours, as torch's own."""
        ours = isinstance(argument, MethodType) and argument.__func__.__name__ == "call_module"
        return MethodType(self._original, argument.__self__) if ours else argument
