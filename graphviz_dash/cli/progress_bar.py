"""Progress bar of long reads on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from graphviz_dash.errors import escape_control_characters
from graphviz_dash.progress import watch

if TYPE_CHECKING:
    from rich.progress import Progress

_QUIET_SECONDS: Final = 0.5
"""Seconds of reading before the bar appears."""


@contextmanager
def show_progress(name: str) -> Iterator[None]:
    """Show progress as a bar on stderr; nothing if stderr is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    bar = _ProgressBar(escape_control_characters(name))
    try:
        with watch(bar.update):
            yield
    finally:
        bar.close()


class _ProgressBar:
    """Progress bar of long reads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._start_s = time.monotonic()
        self._progress: Progress | None = None

    def update(self, share: float) -> None:
        if self._progress is None:
            if time.monotonic() - self._start_s < _QUIET_SECONDS:
                return
            self._progress = self._build_progress()
            self._task = self._progress.add_task(self._name, total=1.0)
        self._progress.update(self._task, completed=share)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    @staticmethod
    def _build_progress() -> Progress:
        # Most commands are done before a bar appears.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        progress = Progress(
            TextColumn("Reading {task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        progress.start()
        return progress
