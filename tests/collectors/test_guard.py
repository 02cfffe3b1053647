from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest

from collectors.guard import HIDDEN_FRAME, Guard, hide_frame


class LateError(Exception):
    """An error in a handler of the program."""


def late(_number: int, _frame: FrameType | None) -> None:
    raise LateError


class Caller:
    def method(self, number: int, frame: FrameType | None) -> None:
        late(number, frame)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        late(number, frame)


def test_errors_are_counted_and_the_first_is_named() -> None:
    guard = Guard()
    for error in (OSError(28, "No space left on device"), KeyError("earlier")):
        with guard:
            raise error
    assert guard.errors == 2
    assert guard.first_error is not None
    assert guard.first_error.startswith("OSError (No space left on device) at test_guard.py:")


def test_without_an_error_nothing_is_counted() -> None:
    guard = Guard()
    with guard:
        pass
    assert (guard.errors, guard.first_error) == (0, None)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_exits_and_interrupts_pass(kind: type[BaseException]) -> None:
    guard = Guard()
    with pytest.raises(kind), guard:
        raise kind
    assert guard.errors == 0


@pytest.mark.parametrize("handler", [late, partial(late), Caller().method, Caller()])
def test_an_error_of_a_signal_handler_passes(
    handler: Callable[[int, FrameType | None], None],
) -> None:
    before = signal.signal(signal.SIGUSR2, handler)
    try:
        guard = Guard()
        with pytest.raises(LateError), guard:
            os.kill(os.getpid(), signal.SIGUSR2)
        assert guard.errors == 0
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_frame_of_ours_is_not_in_the_programs_traceback() -> None:
    def theirs() -> None:
        raise ValueError

    def ours() -> None:
        try:
            theirs()
        except ValueError as error:
            hide_frame(error)
            raise

    def ours_as_a_context() -> None:
        with HIDDEN_FRAME:
            theirs()

    for call in (ours, ours_as_a_context):
        with pytest.raises(ValueError) as caught:  # noqa: PT011  # without a message
            call()
        assert [entry.name for entry in caught.traceback][-1] == "theirs"
        assert call.__name__ not in [entry.name for entry in caught.traceback]
