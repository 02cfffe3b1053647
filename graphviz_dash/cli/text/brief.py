"""Brief output: at most 40 lines of 80 columns, unless --all is given."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])

LINES: Final = 40
COLUMNS: Final = 80

_IS_BRIEF: Final[ContextVar[bool]] = ContextVar("brief", default=False)


def add_all_option(command: F) -> F:
    """Add --all, which prints everything, as the parameter ``everything``."""
    return click.option(
        "--all",
        "everything",
        is_flag=True,
        help=f"Print everything instead of at most {LINES} lines.",
    )(command)


def is_brief() -> bool:
    """Return whether output is limited."""
    return _IS_BRIEF.get()


@contextmanager
def limit_output(*, everything: bool) -> Iterator[None]:
    """Fold output to COLUMNS and cut it to LINES, unless ``everything``."""
    if everything:
        yield
        return
    output = io.StringIO()
    token = _IS_BRIEF.set(True)
    try:
        with redirect_stdout(output):
            yield
    finally:
        _IS_BRIEF.reset(token)
    for line in _cut(_fold(output.getvalue())):
        click.echo(line)


def _fold(text: str) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines():
        if "graphviz-dash " in line or line.startswith("  --"):
            # A command or its options stay in one line, to be copied.
            lines.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()))
        parts = textwrap.wrap(
            line, COLUMNS, subsequent_indent=f"{indent}  ", break_on_hyphens=False
        )
        lines += parts or [""]
    return lines


def _cut(lines: list[str]) -> list[str]:
    room = LINES - 2
    if len(lines) > room:
        lines = lines[: room - 1]
        while lines and not lines[-1]:
            lines.pop()
        lines.append("…")
    return [*lines, "", "--all prints everything."]
