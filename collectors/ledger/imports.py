"""Time the imports of a program."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final

MIN_IMPORT_NS: Final = 2_000_000
"""Shortest recorded import. Shorter ones count as time of the importing code."""


def time_imports(add: Callable[[str, int, int], None]) -> Callable[[], None]:
    """Call ``add`` with name, begin and end of each import from now on, inner modules first.

    Returns a function that stops this. Repeated imports cost the same as before.
    """
    bootstrap: Any = getattr(importlib, "_bootstrap", None)
    original = getattr(bootstrap, "_load_unlocked", None)
    if original is None:
        return lambda: None

    def load(spec: Any) -> Any:
        begin = perf_counter_ns()
        try:
            return original(spec)
        finally:
            end = perf_counter_ns()
            if end - begin >= MIN_IMPORT_NS:
                add(spec.name, begin, end)

    # Python omits frames of this file from tracebacks of imports, and warnings skip them.
    load.__code__ = load.__code__.replace(co_filename=original.__code__.co_filename)
    bootstrap._load_unlocked = load

    def stop() -> None:
        if bootstrap._load_unlocked is load:
            bootstrap._load_unlocked = original

    return stop
