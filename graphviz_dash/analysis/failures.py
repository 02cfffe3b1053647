"""Texts for failures during the collection of a run."""

from __future__ import annotations

from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.run import COLLECTOR_ERROR, PROCESS_DIED, Failure, Pass


def format_failure(name: str, failure: Failure) -> str:
    """Format a failure on one line: ``graph failed in its clean pass at model.py:12: Error:
    message``.
    """
    suffix = f" at {failure.location}" if failure.location else ""
    return escape_control_characters(
        f"{name} {get_failure_verb(failure)} {format_failed_stage(failure)}{suffix}: "
        f"{format_cause(failure)}"
    )


def format_cause(failure: Failure) -> str:
    """Format the error and its first line; our own errors show only the message."""
    first = failure.message.strip().splitlines()[0] if failure.message.strip() else ""
    if not first:
        return failure.error
    return first if is_refusal(failure) or has_no_end(failure) else f"{failure.error}: {first}"


def is_refusal(failure: Failure) -> bool:
    """Return whether the collector gave up, for example if a mode cannot run a step."""
    return failure.error == COLLECTOR_ERROR


def has_no_end(failure: Failure) -> bool:
    """Return whether a recording has no end; it is usable."""
    return failure.stage is Pass.RECORDED and failure.error == PROCESS_DIED


def get_failure_verb(failure: Failure) -> str:
    """Return the predicate of a failed run."""
    return "was killed" if has_no_end(failure) else "failed"


def format_failed_stage(failure: Failure) -> str:
    """Return the failed stage as an adverbial phrase."""
    if failure.stage is Pass.RECORDED:
        return "while it was recorded"
    return f"in its {failure.stage.value} pass"
