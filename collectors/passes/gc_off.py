"""Timing without Python's garbage collector; imports nothing, so any measurement can use it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Within it nothing is collected, so that no pause of it is in what is timed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
