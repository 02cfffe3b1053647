"""The mode in which this thread regards captures of streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cuda.bindings import driver

from collectors.driver.calls import call


@contextmanager
def relaxed_capture() -> Iterator[None]:
    """Within it this thread may make calls that would otherwise be refused while a stream captures,
    and would spoil that capture: queries, and what loads code lazily.

    Raises:
        DriverError: the driver refuses.
    """
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    mode = call(driver.cuThreadExchangeStreamCaptureMode, relaxed)
    try:
        yield
    finally:
        call(driver.cuThreadExchangeStreamCaptureMode, mode)
