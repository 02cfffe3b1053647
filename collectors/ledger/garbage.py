"""Time the runs of Python's cyclic garbage collector."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Final

MIN_COLLECTION_NS: Final = 200_000
"""Shortest recorded run of the collector."""

BEFORE_CAPTURE: Final = "before a capture"
"""Name of a run that ``torch.cuda.graph`` started before its capture."""


def time_collections(add: Callable[[str, int, int], None]) -> Callable[[], None]:
    """Call ``add`` with name, begin and end of each run from now on.

    Returns a function that stops this.
    """
    begins: dict[int, tuple[int, str]] = {}

    def handle(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            name = f"generation {info.get('generation', 0)}"
            code = sys._getframe(1).f_code
            if code.co_name == "__enter__" and code.co_filename.endswith("cuda/graphs.py"):
                name = BEFORE_CAPTURE
            begins[get_ident()] = perf_counter_ns(), name
        elif (beginning := begins.pop(get_ident(), None)) is not None:
            end = perf_counter_ns()
            if end - beginning[0] >= MIN_COLLECTION_NS:
                add(beginning[1], beginning[0], end)

    gc.callbacks.append(handle)

    def stop() -> None:
        if handle in gc.callbacks:
            gc.callbacks.remove(handle)

    return stop
