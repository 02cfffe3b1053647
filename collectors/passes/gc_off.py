"""Disable Python's garbage collector during timing. Imports nothing heavy."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def disable_gc() -> Iterator[None]:
    """Disable collection within the block, so that timings contain no pauses."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
