"""Progress of a collection as lines on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.run import ExecutionMode, Failure


class Report(Protocol):
    """Receives the lines."""

    def __call__(self, line: str, *, is_failure: bool = False) -> None:
        """Report a line. Every rank reports a failure."""


def format_kept_runs(output: Path, kept: tuple[Path, ...], lost: ExecutionMode | None) -> str:
    """Describe the runs in the output folder of an interrupted collection."""
    names = ", ".join(run.name for run in kept)
    text = f"Kept in {output}: {names}" if names else f"Nothing was kept in {output}"
    return f"{text}; nothing of {lost.value} was written." if names and lost else f"{text}."


def get_first_line(failure: Failure) -> str:
    """Return the first line of a failure's message, safe for a terminal."""
    return escape_control_characters(failure.message.partition("\n")[0])
