"""What goes wrong in the recorder stays in the recorder: the boundary to somebody else's program.

A program that is recorded must not notice. So every entry into the recorder from the program (a
capture, a step, the end of the process) goes through a :class:`Guard`, the one place that catches
whatever comes: everything behind it names the errors that it expects, as elsewhere.
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
    """A context that keeps our errors from the program, and counts them.

    What is the program's passes: whatever ends it (KeyboardInterrupt, SystemExit), and what a
    signal handler of its own raises while our code happens to run.

    ``on_limit`` is called at error number :data:`ERRORS_LIMIT`; it must not raise.
    """

    def __init__(self, on_limit: Callable[[], None] = lambda: None) -> None:
        self._on_limit = on_limit
        self.errors = 0
        self.first: str | None = None
        """The kind of the first error and the line of ours that it came from."""

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Whether an error is swallowed: where it is ours."""
        return error is not None and self._keeps(error)

    def _keeps(self, error: BaseException) -> bool:
        """Whether ``error``, which is being handled, is ours: then it is counted."""
        trace = error.__traceback__
        if not isinstance(error, Exception) or _is_the_programs(trace):
            return False
        self.errors += 1
        if self.first is None:
            self.first = _named(type(error), error, trace)
        if self.errors == ERRORS_LIMIT:
            self._on_limit()
        return True


def hide_frame(error: BaseException) -> None:
    """Takes the innermost frame of ours, the caller, off the traceback of an error that passes by.

    A bare ``raise`` behind it adds no frame, so that the program prints what it would without us.
    """
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


class _HiddenFrame:
    """The same as a context, which the caller enters. Nothing is caught: the error goes on."""

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """An error has the frame that entered as its first; none is added when it goes on."""
        if error is not None:
            hide_frame(error)


HIDDEN_FRAME: Final = _HiddenFrame()
"""Around what a method of ours calls in place of the program's or a library's."""


def _named(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> str:
    # Not str(error): what an exception of unknown kind makes of that could raise again.
    what = f"{kind.__name__} ({error.strerror})" if isinstance(error, OSError) else kind.__name__
    *_, last = _frames(trace)
    return f"{what} at {Path(last[0].co_filename).name}:{last[1]}"


def _is_the_programs(trace: TracebackType | None) -> bool:
    """Whether the error comes from a signal handler, which Python calls amid any code."""
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    return any(code in codes for code, _ in _frames(trace))


def _frames(trace: TracebackType | None) -> Iterator[tuple[CodeType, int]]:
    while trace is not None:
        yield trace.tb_frame.f_code, trace.tb_lineno
        trace = trace.tb_next


def _code_of(function: Any) -> CodeType | None:
    """The code of a function, a method, a partial or an object that can be called."""
    function = getattr(function, "func", function)
    call = vars(type(function)).get("__call__")
    code = getattr(function, "__code__", None) or getattr(call, "__code__", None)
    return code if isinstance(code, CodeType) else None
