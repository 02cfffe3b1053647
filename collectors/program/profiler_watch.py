"""Detect profilers that the program starts, and close the recorder's session before them.

torch allows one profiler per thread and Kineto one per process. With the recorder's session open,
the program's profiler would fail to start in the same thread, or lose its events. So the low-level
functions below ``torch.profiler``, ``torch.autograd.profiler`` and ``torch.cuda.profiler`` are
replaced wherever torch holds them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from threading import get_ident
from types import ModuleType
from typing import Any, Final, Protocol

import torch

from collectors.guard import HIDDEN_FRAME, Guard

_PREPARE: Final = "_prepare_profiler"
_MODULES: Final = (
    "torch._C._autograd",
    "torch.autograd",
    "torch.autograd.profiler",
    "torch.autograd.profiler_legacy",
    "torch._C._cudart",
)
_STARTS: Final = (
    # Kineto is in use from this call on: a profiler with a schedule starts to warm up.
    _PREPARE,
    # Also starts emit_nvtx and emit_itt.
    "_enable_profiler",
    "_enable_profiler_legacy",
    "cudaProfilerStart",
)
_STOPS: Final = ("_disable_profiler", "_disable_profiler_legacy", "cudaProfilerStop")

_recorder = threading.local()


class LeftSession(Protocol):
    """A session of the recorder that could not be stopped because its thread was busy."""

    @property
    def is_owner(self) -> bool:
        """True in the thread that started it."""

    def discard(self) -> None:
        """Stop it without a result, in the thread that started it."""


@contextmanager
def mark_own_profiler() -> Iterator[None]:
    """Mark profiler calls of this thread inside the block as the recorder's."""
    before = getattr(_recorder, "is_active", False)
    _recorder.is_active = True
    try:
        yield
    finally:
        _recorder.is_active = before


class ProfilerWatch:
    """Calls ``on_start`` before each profiler of the program, in the thread that starts it."""

    def __init__(self, on_start: Callable[[], None], guard: Guard) -> None:
        self._on_start = on_start
        self._guard = guard
        self._lock = threading.RLock()
        self._threads: set[int] = set()
        self._left: list[LeftSession] = []
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._is_active = False

    def start(self) -> None:
        """Start to watch."""
        self._is_active = True
        for module in map(_find_module, _MODULES):
            for names, wrap in ((_STARTS, self._wrap_start), (_STOPS, self._wrap_stop)):
                for name in names:
                    original = vars(module).get(name) if module is not None else None
                    if original is not None:
                        replacement = wrap(name, original)
                        setattr(module, name, replacement)
                        self._replaced.append((module, name, original, replacement))

    def stop(self) -> None:
        """Restore torch; may be called again."""
        self._is_active = False
        for module, name, original, replacement in self._replaced:
            if vars(module).get(name) is replacement:
                setattr(module, name, original)
        self._replaced.clear()

    def disable(self) -> None:
        """Deactivate in a forked child, whose parent may hold the lock."""
        self._is_active = False
        self._lock = threading.RLock()

    @contextmanager
    def hold_starts(self) -> Iterator[bool]:
        """Hold back starts of the program inside the block. True if a profiler runs already."""
        with self._lock:
            yield bool(self._threads)

    def keep_session(self, session: LeftSession) -> None:
        """Keep a session that could not be stopped, for its thread to discard."""
        self._left.append(session)

    @property
    def is_running(self) -> bool:
        """True while the program has prepared or started a profiler."""
        return bool(self._threads)

    @property
    def has_sessions(self) -> bool:
        """True if a session waits for its thread."""
        return bool(self._left)

    def discard_left(self) -> None:
        """Discard the left session of this thread, unless another thread has a profiler."""
        with self._lock:
            if self._threads <= {get_ident()}:
                for session in [session for session in self._left if session.is_owner]:
                    self._left.remove(session)
                    session.discard()

    def _wrap_start(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def start_profiler(*args: Any, **kwargs: Any) -> Any:
            if not self._is_active or getattr(_recorder, "is_active", False):
                with HIDDEN_FRAME:
                    return original(*args, **kwargs)
            with self._lock:
                was_running = get_ident() in self._threads
                self._threads.add(get_ident())
            substitute = False
            with self._guard:
                if not was_running:
                    self._on_start()
                    self.discard_left()
                if self._left and name == _PREPARE:
                    substitute = _start_substitute()
            has_result = False
            try:
                with HIDDEN_FRAME:
                    result = original(*args, **kwargs)
                has_result = True
                return result
            finally:
                if not has_result and not was_running:
                    self._threads.discard(get_ident())
                if substitute:
                    with self._guard:
                        _stop_substitute()

        return start_profiler

    def _wrap_stop(self, _name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def stop_profiler(*args: Any, **kwargs: Any) -> Any:
            try:
                with HIDDEN_FRAME:
                    return original(*args, **kwargs)
            finally:
                if not getattr(_recorder, "is_active", False):
                    self._remove_thread()

        return stop_profiler

    def _remove_thread(self) -> None:
        if get_ident() in self._threads:
            self._threads.discard(get_ident())
        else:
            # A profiler of all threads may stop in another thread than it started in.
            self._threads.clear()


def _start_substitute() -> bool:
    """Start a profiler without events that Kineto can stop in place of a left session.

    Kineto cancels a session of another thread by stopping the profiler of the calling thread, which
    fails if there is none (torch 2.11, ActivityProfilerController::prepareTrace).
    """
    if torch.autograd._profiler_enabled():
        return False
    autograd: Any = torch.autograd
    config = autograd.ProfilerConfig(
        autograd.ProfilerState.NVTX,
        False,
        False,
        False,
        False,
        False,
        torch._C._profiler._ExperimentalConfig(),
    )
    with mark_own_profiler():
        autograd._enable_profiler(config, set())
    return True


def _stop_substitute() -> None:
    if torch.autograd._profiler_enabled():
        with mark_own_profiler():
            torch.autograd._disable_profiler()


def _find_module(name: str) -> ModuleType | None:
    module = sys.modules.get(name)
    if module is None:
        # Modules of torch's extension are attributes only.
        parent, _, last = name.rpartition(".")
        with suppress(AttributeError):
            module = getattr(sys.modules.get(parent), last)
    return module if isinstance(module, ModuleType) else None
