"""Keep recorder errors away from the recorded program.

Every entry from the program goes through a :class:`Guard`, which alone catches all errors.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Final

ERRORS_LIMIT: Final = 20
"""Errors after which a recorder gives up: each one costs the program about 0.1 ms."""


class Guard:
    """Context that swallows and counts the recorder's errors, but not the program's.

    Exceptions that end the program (KeyboardInterrupt, SystemExit) and errors of its signal
    handlers pass through.

    Args:
        on_limit: Called at error number :data:`ERRORS_LIMIT`. Must not raise.
    """

    def __init__(self, on_limit: Callable[[], None] = lambda: None) -> None:
        self._on_limit = on_limit
        self.errors = 0
        self.first_error: str | None = None
        """Type and source line of the first error."""

    # Frequent: a call into C that does nothing costs less than a method.
    __enter__ = staticmethod(bool)

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        return error is not None and self._handle_error(error)

    def _handle_error(self, error: BaseException) -> bool:
        trace = error.__traceback__
        if not isinstance(error, Exception) or _is_from_signal_handler(trace):
            return False
        self.errors += 1
        if self.first_error is None:
            self.first_error = _describe_error(type(error), error, trace)
        if self.errors == ERRORS_LIMIT:
            self._on_limit()
        return True


def hide_frame(error: BaseException) -> None:
    """Remove the caller's frame from the traceback of a passing error.

    A bare ``raise`` afterwards adds no frame.
    """
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


class _HiddenFrame:
    # Does nothing, as in the guard.
    __enter__ = staticmethod(bool)

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            hide_frame(error)


HIDDEN_FRAME: Final = _HiddenFrame()
"""Wraps calls that replace a method of the program or a library."""


def _describe_error(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> str:
    # Not str(error): formatting an unknown exception could raise again.
    text = f"{kind.__name__} ({error.strerror})" if isinstance(error, OSError) else kind.__name__
    *_, last = _iter_frames(trace)
    return f"{text} at {Path(last[0].co_filename).name}:{last[1]}"


def _is_from_signal_handler(trace: TracebackType | None) -> bool:
    codes = {_get_code(signal.getsignal(number)) for number in signal.valid_signals()}
    return any(code in codes for code, _ in _iter_frames(trace))


def _iter_frames(trace: TracebackType | None) -> Iterator[tuple[CodeType, int]]:
    while trace is not None:
        yield trace.tb_frame.f_code, trace.tb_lineno
        trace = trace.tb_next


def _get_code(function: Any) -> CodeType | None:
    function = getattr(function, "func", function)
    call = vars(type(function)).get("__call__")
    code = getattr(function, "__code__", None) or getattr(call, "__code__", None)
    return code if isinstance(code, CodeType) else None
