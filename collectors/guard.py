"""Keep recorder errors away from the recorded program.

Every entry from the program into the recorder goes through a :class:`Guard`. Only the guard catches
all errors.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Final


class Guard:
    """Context that swallows and counts the recorder's errors, but not the program's."""

    def __init__(self) -> None:
        self.errors = 0
        self.first: str | None = None
        """Type and source line of the first error."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Swallow an error of the recorder."""
        return error is not None and self._keeps(error)

    def _keeps(self, error: BaseException) -> bool:
        trace = error.__traceback__
        if not isinstance(error, Exception) or _is_the_programs(trace):
            return False
        self.errors += 1
        if self.first is None:
            self.first = _named(type(error), error, trace)
        return True


def hide_frame(error: BaseException) -> None:
    """Remove the caller's frame from the traceback of a passing error.

    A bare ``raise`` afterwards adds no frame.
    """
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


class _HiddenFrame:
    """Context that hides the frame that enters it. The error continues."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the entering frame from the traceback."""
        if error is not None:
            hide_frame(error)


HIDDEN_FRAME: Final = _HiddenFrame()
"""Wraps calls that replace a method of the program or a library."""


def _named(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> str:
    # Not str(error): formatting an unknown exception could raise again.
    text = f"{kind.__name__} ({error.strerror})" if isinstance(error, OSError) else kind.__name__
    *_, last = _frames(trace)
    return f"{text} at {Path(last[0].co_filename).name}:{last[1]}"


def _is_the_programs(trace: TracebackType | None) -> bool:
    """Check if the error comes from a signal handler."""
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    return any(code in codes for code, _ in _frames(trace))


def _frames(trace: TracebackType | None) -> Iterator[tuple[CodeType, int]]:
    while trace is not None:
        yield trace.tb_frame.f_code, trace.tb_lineno
        trace = trace.tb_next


def _code_of(function: Any) -> CodeType | None:
    function = getattr(function, "func", function)
    call = vars(type(function)).get("__call__")
    code = getattr(function, "__code__", None) or getattr(call, "__code__", None)
    return code if isinstance(code, CodeType) else None
