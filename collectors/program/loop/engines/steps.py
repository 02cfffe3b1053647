"""Wrap the method of an engine that runs a step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from threading import get_ident
from time import perf_counter_ns
from typing import Any, Final, NamedTuple, TypeAlias

from collectors.guard import HIDDEN_FRAME
from collectors.program.loop.events import EventKind, ScopeFacts
from collectors.program.loop.labels import StepNotes

_SCOPE: Final = int(EventKind.SCOPE)
_SIZE: Final = int(EventKind.SIZE)


EngineStep: TypeAlias = tuple[int, int, int]
"""Number of the scope, requested size in units of the padded axis, and number of requests."""

FindScope: TypeAlias = Callable[[ScopeFacts], int]
"""Returns the number of a scope."""

ReadStep: TypeAlias = Callable[..., "EngineStep | None"]
"""Reads the facts of a step from the arguments of the wrapped method. None for calls that are no
steps."""


class EngineReports(NamedTuple):
    """Receivers of an engine's facts."""

    notes: StepNotes
    get_scope_number: Callable[[str, ScopeFacts], int]
    """Receives the engine with version and a scope. Returns the number of the scope."""
    report_capture_bytes: Callable[[int], None]
    """Receives the engine's measured memory of all captures."""


ReadBytes: TypeAlias = Callable[[Any, Any], "float | None"]
"""Reads the memory of all captures, in bytes, from runner and result. None if unknown."""


def follow_capture(
    owner: Any, name: str, read: ReadBytes, reports: EngineReports
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
        with reports.notes.guard:
            capture_bytes = read(self, result)
            if capture_bytes is not None and capture_bytes > 0:
                reports.report_capture_bytes(int(capture_bytes))
        return result

    setattr(owner, name, capture)

    def restore() -> None:
        if getattr(owner, name) is capture:
            setattr(owner, name, original)

    return restore


def follow_steps(
    owner: Any,
    name: str,
    engine: str,
    build_reader: Callable[[FindScope], ReadStep],
    reports: EngineReports,
) -> Callable[[], None]:
    """Report each call of the method ``name`` of the class ``owner``.

    Returns a function that restores the method. An error of the reader, such as one from an unknown
    version of the engine, ends reading.
    """
    original = getattr(owner, name)
    read = build_reader(partial(reports.get_scope_number, engine))
    notes = reports.notes
    guard, log = notes.guard, notes.log
    is_readable = True

    # A step of the program leaves the processor's caches without our objects, so that each further
    # function or object costs up to 5 µs.
    @wraps(original)
    def run_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal is_readable
        step = None
        if is_readable:
            is_readable = False
            with guard:
                step = read(self, *args, **kwargs)
                is_readable = True
        begin = perf_counter_ns()
        try:
            with HIDDEN_FRAME:
                return original(self, *args, **kwargs)
        finally:
            if step is not None:
                number, size, requests = step
                thread = get_ident()
                # Apart from the scope: there may be many sizes.
                event = _SCOPE, number, thread, begin, perf_counter_ns()
                log.note_scope((*event, _SIZE, size, thread, begin, requests))
                if notes.tick is not None:
                    with guard:
                        notes.tick(engine)

    setattr(owner, name, run_step)

    def restore() -> None:
        # A replacement by the program stays and calls this one, which passes the call on.
        if getattr(owner, name) is run_step:
            setattr(owner, name, original)

    return restore
