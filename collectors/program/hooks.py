"""Step candidates from torch: optimizer steps, outermost modules and compiled functions.

Nothing is stored on objects of the program, where a copy or a pickle would include it.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import get_ident
from types import MethodType
from typing import Any, TypeAlias

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from collectors.guard import HIDDEN_FRAME, Guard

Callback: TypeAlias = Callable[[Any], None]


class OptimizerSteps:
    """Calls ``on_step`` after each step of an optimizer, until :meth:`stop`."""

    def __init__(self, on_step: Callback, guard: Guard) -> None:
        self._on_step = on_step
        self._guard = guard
        self._local = threading.local()
        self._active = False
        self._handle: Any = None

    def start(self) -> None:
        """Start to watch."""
        self._active = True
        self._handle = register_optimizer_step_post_hook(self._handle_step)

    def stop(self) -> None:
        """Stop calling ``on_step``. May be called again.

        torch iterates over its hooks while they run. Removing one in the meantime makes torch raise
        if others follow, so a call from within ``on_step`` keeps the hook in place.
        """
        self._active = False
        if self._handle is not None and not getattr(self._local, "inside", False):
            self._handle.remove()
            self._handle = None

    def _handle_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        # The compiler folds the constant and removes the rest, so that compilation does not change.
        if torch.compiler.is_compiling() or not self._active:
            return
        self._local.inside = True
        try:
            with self._guard:
                self._on_step(optimizer)
        finally:
            self._local.inside = False


@contextmanager
def watch_optimizer_steps(on_step: Callback, guard: Guard) -> Iterator[None]:
    """Call ``on_step`` after each step of an optimizer inside the block."""
    steps = OptimizerSteps(on_step, guard)
    steps.start()
    try:
        yield
    finally:
        steps.stop()


class OutermostCalls:
    """Calls ``on_call`` for each call of an outermost module, until :meth:`stop`.

    ``on_call`` receives the module and its arguments. If it returns True, ``on_return`` receives
    the module and the start of the call, by the performance counter.

    It wraps ``nn.Module.__call__`` and restores it at the first ``torch.compile`` or
    ``torch.export.export``, so that the compiler finds torch unchanged, and calls ``on_compile``
    then. After a few consecutive calls of one module, only the class of that module is watched.

    After a compilation, the classes of outermost modules that are called in a capture are watched:
    their calls without a graph are fallbacks.
    """

    _SETTLED = 4
    _MAX_CLASSES = 4

    def __init__(
        self,
        on_call: Callable[[Any, tuple[Any, ...]], bool],
        guard: Guard,
        on_return: Callable[[Any, int], None] | None = None,
        on_compile: Callable[[], None] | None = None,
    ) -> None:
        self._guard = guard
        self._on_call = on_call
        self._on_return = on_return
        self._on_compile = on_compile
        self._local = threading.local()
        self._original = torch.nn.Module.__call__
        self._last = 0
        self._in_a_row = 0
        self._narrowed: dict[Any, Callable[..., Any]] = {}
        self._captured: dict[int, type] = {}
        self._entries: list[tuple[Any, str, Any, Any]] = []
        self._call_module = self._wrap_call()
        self._is_compiled = False
        self._stopped = False

    def start(self) -> None:
        """Start to watch."""
        torch.nn.Module.__call__ = self._call_module
        for holder, name in ((torch, "compile"), (torch.export, "export")):
            original = getattr(holder, name)
            replacement = self._wrap_entry(original)
            self._entries.append((holder, name, original, replacement))
            setattr(holder, name, replacement)

    def stop(self) -> None:
        """Restore torch. May be called again."""
        if self._stopped:
            return
        self._stopped = True
        self._restore_calls()
        for holder, name, original, replacement in self._entries:
            if getattr(holder, name) is replacement:
                setattr(holder, name, original)

    def _restore_calls(self) -> None:
        # A replacement by the program stays and calls this one, which passes the call on.
        if torch.nn.Module.__call__ is self._call_module:
            torch.nn.Module.__call__ = self._original
        for kind, replacement in self._narrowed.items():
            if vars(kind).get("__call__") is replacement:
                del kind.__call__
        self._narrowed.clear()

    def begin_capture(self) -> None:
        """Watch all modules in a capture of this thread, if a compilation ended that."""
        if self._is_compiled and not self._stopped:
            self._captured[get_ident()] = torch.nn.Module
            if torch.nn.Module.__call__ is self._original:
                torch.nn.Module.__call__ = self._call_module

    def end_capture(self) -> None:
        """Watch only the class of the module that was called in the capture."""
        kind = self._captured.pop(get_ident(), None)
        if kind is None:
            return
        if not self._captured and torch.nn.Module.__call__ is self._call_module:
            torch.nn.Module.__call__ = self._original
        if kind is not torch.nn.Module and len(self._narrowed) < self._MAX_CLASSES:
            self._watch_class(kind)

    def _wrap_call(self, kind: Any = None) -> Callable[..., Any]:
        """Build a replacement for ``Module.__call__``, or for the ``__call__`` of one class."""
        original, local, outermost = self._original, self._local, self._report_call
        returned = self._report_return

        def call_module(module: Any, *args: Any, **kwargs: Any) -> Any:
            # The compiler replaces the condition by its value and traces only torch's method.
            if torch.compiler.is_compiling():
                return original(module, *args, **kwargs)
            inside = getattr(local, "inside", False)
            start_ns = None
            try:
                if not inside:
                    local.inside = True
                    start_ns = outermost(module, (*args, *kwargs.values()))
                with HIDDEN_FRAME:
                    if kind is None:
                        return original(module, *args, **kwargs)
                    # The current method of a base class, or of the program for all modules.
                    return super(kind, module).__call__(*args, **kwargs)  # type: ignore[misc]
            finally:
                if not inside:
                    local.inside = False
                    if start_ns is not None:
                        returned(module, start_ns)

        return call_module

    def _report_return(self, module: Any, start_ns: int) -> None:
        with self._guard:
            if self._on_return is not None:
                self._on_return(module, start_ns)

    def _report_call(self, module: Any, inputs: tuple[Any, ...]) -> int | None:
        """Return the start of the call if its end must be reported."""
        if self._stopped:
            return None
        is_recorded = False
        with self._guard:
            if self._is_compiled:
                thread = get_ident()
                if thread in self._captured:
                    self._captured[thread] = type(module)
                elif type(module) not in self._narrowed:
                    return None
            is_recorded = self._on_call(module, inputs)
            self._in_a_row = self._in_a_row + 1 if id(module) == self._last else 1
            self._last = id(module)
            if self._in_a_row >= self._SETTLED and not self._narrowed and not self._is_compiled:
                self._watch_class_only(type(module))
        return time.perf_counter_ns() if is_recorded else None

    def _watch_class_only(self, kind: type) -> None:
        """Watch only one class: inner modules cost nothing then."""
        if torch.nn.Module.__call__ is not self._call_module:
            return
        torch.nn.Module.__call__ = self._original
        self._watch_class(kind)

    def _watch_class(self, kind: type) -> None:
        if "__call__" in vars(kind) or kind is torch.nn.Module:
            return
        self._narrowed[kind] = self._wrap_call(kind)
        setattr(kind, "__call__", self._narrowed[kind])  # noqa: B010  # a class, which mypy guards

    def _wrap_entry(self, entry: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(entry)
        def compile_without_us(*args: Any, **kwargs: Any) -> Any:
            with self._guard:
                self._restore_calls()
                self._is_compiled = True
                args = tuple(self._unwrap_method(arg) for arg in args)
            with HIDDEN_FRAME:
                result = entry(*args, **kwargs)
            if self._on_compile is not None:
                with self._guard:
                    self._on_compile()
            return result

        return compile_without_us

    def _unwrap_method(self, argument: Any) -> Any:
        """Replace a bound ``module.__call__`` of the watch by torch's."""
        is_module_call = (
            isinstance(argument, MethodType) and argument.__func__.__name__ == "call_module"
        )
        return MethodType(self._original, argument.__self__) if is_module_call else argument


class CompiledCalls:
    """Calls ``on_call`` with identity and name of a compiled function, and whether it is a method
    compiled in its class, at each of its calls from eager code.

    Wraps a function that torch 2.6 to 2.14 calls before it enters compiled code. Without it,
    nothing is reported.
    """

    _MODULE, _, _NAME = "torch._dynamo.eval_frame._callback_from_stance".rpartition(".")

    def __init__(self, on_call: Callable[[int, str, bool], None], guard: Guard) -> None:
        self._on_call = on_call
        self._guard = guard
        self._names: dict[int, tuple[str, bool]] = {}
        self._original: Callable[[Any], Any] | None = None
        self._stopped = False

    def start(self) -> None:
        """Start to watch after a first ``torch.compile``. May be called again."""
        if self._stopped or self._original is not None:
            return
        # A decorator with options imports the compiler only when it is applied.
        module = importlib.import_module(self._MODULE)
        if hasattr(module, self._NAME):
            self._original = getattr(module, self._NAME)
            setattr(module, self._NAME, self._enter)

    def stop(self) -> None:
        """Restore torch. May be called again."""
        self._stopped = True
        module = sys.modules.get(self._MODULE)
        # A later replacement by the program stays and calls this one, which passes the call on.
        if getattr(module, self._NAME, None) == self._enter:
            setattr(module, self._NAME, self._original)

    def _enter(self, callback: Any) -> Any:
        if callable(callback) and not self._stopped:
            with self._guard:
                self._report(id(callback))
        assert self._original is not None
        with HIDDEN_FRAME:
            return self._original(callback)

    def _report(self, identity: int) -> None:
        facts = self._names.get(identity)
        if facts is None:
            # The caller's variable; its absence costs only the name.
            function = sys._getframe(2).f_locals.get("fn")
            label = getattr(function, "__qualname__", None)
            has_location = (
                str(getattr(function, "__module__", "torch")).partition(".")[0] != "torch"
            )
            name = f"compiled {label}" if label and has_location else "compiled module"
            facts = self._names[identity] = name, _is_method(function)
        self._on_call(identity, *facts)


def _is_method(function: Any) -> bool:
    """Return whether ``function`` is a method as its class defines it, without an object."""
    owner = str(getattr(function, "__qualname__", "")).rpartition(".")[0]
    return bool(owner) and not owner.endswith("<locals>") and not hasattr(function, "__self__")
