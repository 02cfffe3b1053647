"""Wrap the method of an engine that runs a step."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from collectors.guard import HIDDEN_FRAME, Guard
from collectors.program.loop.events import ScopeFacts


class EngineStep(Struct, frozen=True):
    """Facts about a step from an engine."""

    scope: ScopeFacts
    size: int | None
    """Requested size in units of the padded axis, or None."""
    requests: int | None


ReportStep: TypeAlias = Callable[[str, EngineStep, int], None]
"""Receives the engine with version, facts about a step, and its start."""

ReportCaptureBytes: TypeAlias = Callable[[int], None]
"""Receives the engine's measured memory of all captures, in bytes."""


class EngineReports(NamedTuple):
    """Receivers of an engine's facts."""

    report_step: ReportStep
    report_capture_bytes: ReportCaptureBytes


ReadStep: TypeAlias = Callable[..., "EngineStep | None"]
"""Reads the facts of a step from the arguments of the wrapped method. None for calls that are no
steps."""

ReadBytes: TypeAlias = Callable[[Any, Any], "float | None"]
"""Reads the memory of all captures, in bytes, from runner and result. None if unknown."""


def follow_capture(
    owner: Any, name: str, read: ReadBytes, report: ReportCaptureBytes, guard: Guard
) -> Callable[[], None]:
    """Report the memory that an engine measured in the method ``name`` of ``owner``, if any.

    Returns a function that restores the method.
    """
    original = getattr(owner, name, None)
    if original is None:
        return lambda: None

    @wraps(original)
    def capture(self: Any, *args: Any, **kwargs: Any) -> Any:
        with HIDDEN_FRAME:
            result = original(self, *args, **kwargs)
        with guard:
            capture_bytes = read(self, result)
            if capture_bytes is not None and capture_bytes > 0:
                report(int(capture_bytes))
        return result

    setattr(owner, name, capture)

    def restore() -> None:
        if getattr(owner, name) is capture:
            setattr(owner, name, original)

    return restore


def follow_steps(
    owner: Any, name: str, engine: str, read: ReadStep, report: ReportStep, guard: Guard
) -> Callable[[], None]:
    """Report each call of the method ``name`` of the class ``owner`` to ``report``.

    Returns a function that restores the method. An error of ``read``, such as one from an unknown
    version of the engine, ends reading.
    """
    original = getattr(owner, name)
    is_readable = True

    @wraps(original)
    def run_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal is_readable
        step = None
        if is_readable:
            is_readable = False
            with guard:
                step = read(self, *args, **kwargs)
                is_readable = True
        begin = time.perf_counter_ns()
        try:
            with HIDDEN_FRAME:
                return original(self, *args, **kwargs)
        finally:
            if step is not None:
                report(engine, step, begin)

    setattr(owner, name, run_step)

    def restore() -> None:
        # A replacement by the program stays and calls this one, which passes the call on.
        if getattr(owner, name) is run_step:
            setattr(owner, name, original)

    return restore
