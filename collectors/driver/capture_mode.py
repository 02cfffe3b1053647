"""Set this thread's capture mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cuda.bindings import driver

from collectors.driver.calls import call


@contextmanager
def relax_capture_mode() -> Iterator[None]:
    """Allow calls that would invalidate a capture, such as queries and lazy loading of code.

    Raises:
        DriverError: The driver refused.
    """
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    mode = call(driver.cuThreadExchangeStreamCaptureMode, relaxed)
    try:
        yield
    finally:
        call(driver.cuThreadExchangeStreamCaptureMode, mode)
