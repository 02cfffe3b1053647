"""Time the runs of Python's cyclic garbage collector."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from threading import get_ident
from time import perf_counter_ns
from types import CodeType
from typing import Any, Final

MIN_COLLECTION_NS: Final = 200_000
"""Shortest recorded run of the collector."""

BEFORE_CAPTURE: Final = "before a capture"
"""Name of a run that ``torch.cuda.graph`` started before its capture."""


_get_handler: Final[Callable[[int], object]] = import_module("_signal").getsignal
"""Ten times as fast as ``signal.getsignal``."""
_SIGNAL_NAMES: Final = "ALRM VTALRM PROF TERM HUP QUIT USR1 USR2 CHLD PIPE IO WINCH XCPU BREAK"
_SIGNALS: Final = tuple(
    number for number in signal.Signals if number.name[3:] in _SIGNAL_NAMES.split()
)
"""Signals whose handlers programs usually replace. The default of SIGINT is a handler, too."""


def time_collections(add: Callable[[str, int, int], None]) -> Callable[[], None]:
    """Call ``add`` with name, begin and end of each run from now on.

    Returns a function that stops this. It also stops when the program handles a signal itself: a
    handler cannot raise within this callback, whose errors the collector ignores.
    """
    begins: dict[int, tuple[int, str]] = {}
    ignore: Any = begins.get

    def handle(phase: str, info: dict[str, int]) -> None:
        # Python prints errors of callbacks; here it happens near the program's recursion limit.
        try:  # noqa: SIM105 - a context manager needs two frames more
            note(phase, info)
        except RecursionError:
            pass

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            if has_signal_handler():
                # Not removed, because the collector would skip the next callback. This one runs no
                # Python code.
                gc.callbacks[gc.callbacks.index(handle)] = ignore
                return
            name = f"generation {info.get('generation', 0)}"
            # The interpreter itself is the caller while it prints a traceback or ends.
            caller = sys._getframe(1).f_back
            if caller is not None and is_capture(caller.f_code):
                name = BEFORE_CAPTURE
            begins[get_ident()] = perf_counter_ns(), name
        elif (beginning := begins.pop(get_ident(), None)) is not None:
            end = perf_counter_ns()
            if end - beginning[0] >= MIN_COLLECTION_NS:
                add(beginning[1], beginning[0], end)

    def stop() -> None:
        for callback in (handle, ignore):
            if callback in gc.callbacks:
                gc.callbacks.remove(callback)

    if not has_signal_handler():
        gc.callbacks.append(handle)
    return stop


def is_capture(code: CodeType) -> bool:
    """Check for the method of ``torch.cuda.graph`` that collects before its capture."""
    return code.co_name == "__enter__" and code.co_filename.endswith("cuda/graphs.py")


def has_signal_handler() -> bool:
    """Check if the program handles a signal in Python."""
    return any(callable(_get_handler(number)) for number in _SIGNALS)
