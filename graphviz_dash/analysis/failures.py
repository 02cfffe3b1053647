"""Texts for failures during the collection of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphviz_dash.errors import printable
from graphviz_dash.model.run import REFUSED, Pass

if TYPE_CHECKING:
    from graphviz_dash.model.run import Failure


def failure_text(name: str, failure: Failure) -> str:
    """Format a failure on one line: ``graph failed in its clean pass at model.py:12: Error:
    message``.
    """
    where = f" at {failure.location}" if failure.location else ""
    return printable(f"{name} failed {when(failure)}{where}: {cause_text(failure)}")


def cause_text(failure: Failure) -> str:
    """Format the error and the first line of its message; our own errors show only the message."""
    first = failure.message.strip().splitlines()[0] if failure.message.strip() else ""
    if not first:
        return failure.error
    return first if refused(failure) else f"{failure.error}: {first}"


def refused(failure: Failure) -> bool:
    """Return whether the collector itself gave up, for example if a mode cannot run a step."""
    return failure.error == REFUSED


def when(failure: Failure) -> str:
    """Return the failed stage as an adverbial phrase."""
    if failure.during is Pass.RECORDED:
        return "while it was recorded"
    return f"in its {failure.during.value} pass"
