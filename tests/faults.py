"""Reads, writes and allocations that fail on purpose, one after the other, as SQLite's tests do."""

from __future__ import annotations

import io
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import IO, Any, Final, TypeVar

import pytest

from graphviz_dash.errors import InputError

T = TypeVar("T")

_ROOT: Final = Path(__file__).parents[1]
_OURS: Final = (str(_ROOT / "graphviz_dash"), str(_ROOT / "collectors"))
_TIMES: Final = 2
_ALLOCATES_NOTHING: Final = frozenset({"close", "enable", "disable", "isenabled", "__exit__"})


class Countdown:
    """Answers True the ``number``-th time, from 1; ``asked`` counts."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.asked == self.number

    @property
    def over(self) -> bool:
        """Return whether all faults have occurred."""
        return self.asked >= self.number


class _FailingFile:
    def __init__(self, file: IO[Any], fails: Countdown) -> None:
        self._file = file
        self._fails = fails

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _FailingFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, *size: int) -> Any:
        self._check()
        return self._file.read(*size)

    def readinto(self, buffer: Any) -> Any:
        self._check()
        return self._file.readinto(buffer)  # type: ignore[attr-defined]

    def _check(self) -> None:
        if self._fails():
            raise OSError(5, "Input/output error")


@contextmanager
def failing_read(number: int) -> Iterator[Countdown]:
    """The ``number``-th read of files that are opened meanwhile fails, as on a broken disk."""
    fails = Countdown(number)
    opened: Callable[..., IO[Any]] = io.open

    def open_failing(*arguments: Any, **options: Any) -> Any:
        return _FailingFile(opened(*arguments, **options), fails)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(io, "open", open_failing)
        yield fails


class _FailingTarget(_FailingFile):
    def write(self, data: Any) -> Any:
        self._check()
        return self._file.write(data)

    def flush(self) -> None:
        self._check()
        self._file.flush()


_CHANGES: Final = ("mkdir", "rename", "replace", "link", "symlink", "fsync", "chmod", "utime")
"""Calls of ``os`` that change a file system. Removals succeed, or no program could clean up."""


@contextmanager
def failing_change(number: int) -> Iterator[Countdown]:
    """Let the ``number``-th change of a file system fail: a write, flush, new folder, rename, or
    synchronisation."""
    fails = Countdown(number)
    opened: Callable[..., IO[Any]] = io.open

    def open_failing(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if not set(mode) & set("wxa+"):
            return opened(file, mode, *arguments, **options)
        if fails():
            raise OSError(28, "No space left on device", str(file))
        return _FailingTarget(opened(file, mode, *arguments, **options), fails)

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def change(*arguments: Any, **options: Any) -> Any:
            if fails():
                raise OSError(28, "No space left on device", str(arguments[0]))
            return real(*arguments, **options)

        return change

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(io, "open", open_failing)
        for name in _CHANGES:
            patched.setattr(os, name, wrap(getattr(os, name)))
        yield fails


@contextmanager
def failing_allocation(number: int) -> Iterator[Countdown]:
    """Let a call that our modules make into C code raise MemoryError, as if memory were refused.

    Only the first two calls from each place count; the ``number``-th of these fails. Later calls of
    a loop find the state that its second call found.
    """
    fails = Countdown(number)
    calls = Counter[tuple[CodeType, int, str]]()

    def profile(frame: FrameType, event: str, called: object) -> None:
        if event != "c_call" or not frame.f_code.co_filename.startswith(_OURS):
            return
        name = getattr(called, "__name__", "")
        if name in _ALLOCATES_NOTHING:
            return
        place = frame.f_code, frame.f_lasti, name
        calls[place] += 1
        if calls[place] <= _TIMES and fails():
            raise MemoryError

    sys.setprofile(profile)
    try:
        yield fails
    finally:
        sys.setprofile(None)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nothing in ``folder`` can be listed or looked at, by the administrator neither."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("listdir", "scandir", "stat", "lstat"):
            patched.setattr(os, name, _refusing(getattr(os, name), folder, name.endswith("dir")))
        yield


def _refusing(real: Callable[..., Any], folder: Path, listing: bool) -> Callable[..., Any]:
    def refusing(path: Any = ".", *more: Any, **options: Any) -> Any:
        if isinstance(path, str | os.PathLike):
            inside = Path(os.fspath(path))
            if folder in inside.parents or (listing and inside == folder):
                raise PermissionError(13, "Permission denied", str(path))
        return real(path, *more, **options)

    return refusing


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file can grow beyond ``size`` bytes, which every library learns from the system, as it
    learns that a disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def each_in_turn(
    failing: Callable[[int], AbstractContextManager[Countdown]],
    act: Callable[[], T],
    *,
    every: int = 1,
    errors: tuple[type[Exception], ...] = (InputError, MemoryError),
) -> Iterator[T | Exception]:
    """Results or errors of ``act`` with the first read or allocation failing, then with the one
    ``every`` further on, until none is left."""
    number = 1
    while True:
        outcome: T | Exception
        with failing(number) as fails:
            try:
                outcome = act()
            except errors as error:
                # Its frames would keep files and database cursors open.
                outcome = error.with_traceback(None)
        if not fails.over:
            return
        yield outcome
        number += every
