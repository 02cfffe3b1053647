"""``graphviz-dash``: finds and runs a command, and turns errors into exit codes.

stdout is data, diagnostics go to stderr. Exit codes: 0 success; 1 not possible here (a requirement
is missing or a step failed); 2 invalid input; 130 interrupted, or 128 and the number of another
signal.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from types import FrameType
from typing import Final

import click
from click.shell_completion import CompletionItem

from graphviz_dash import __version__
from graphviz_dash.app.cli.command_table import COMMANDS_BY_NAME, COMMANDS_BY_TASK
from graphviz_dash.app.cli.examples import format_examples
from graphviz_dash.errors import (
    GraphvizDashError,
    MissingRequirementError,
    escape_control_characters,
)
from graphviz_dash.garbage import raise_scan_threshold

_GROUP: Final = "graphviz_dash.commands"
_INTERRUPTED: Final = 130
_MAX_SHORT_HELP: Final = 60
"""Maximum length of a short help, so that its line has at most 80 columns."""


class CommandGroup(click.Group):
    """Commands of the table and of other packages' entry points."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List all names in order."""
        names = (row.name for row in COMMANDS_BY_NAME.values() if row.target is not None)
        return sorted({*names, *(point.name for point in _load_entry_points())})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, or a placeholder that reports why it cannot load."""
        row = COMMANDS_BY_NAME.get(cmd_name)
        if row is not None and row.target is not None:
            module, _, attribute = row.target.partition(":")
            command = _check_command(getattr(importlib.import_module(module), attribute))
            return _add_examples(command)
        for point in _load_entry_points():
            if point.name == cmd_name:
                return _add_examples(_load_command(point))
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by task without importing those of the table."""
        remaining = self._short_helps(ctx)
        for task, rows in COMMANDS_BY_TASK.items():
            lines = [(row.name, remaining.pop(row.name)) for row in rows if row.name in remaining]
            if lines:
                with formatter.section(task):
                    formatter.write_dl(lines)
        if remaining:
            with formatter.section("Provided by other packages"):
                formatter.write_dl(list(remaining.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names and, after a hyphen, options; imports no command of the table."""
        names = [
            CompletionItem(name, help=short_help)
            for name, short_help in self._short_helps(ctx).items()
            if name.startswith(incomplete)
        ]
        # Group's own method imports every command for its help.
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def _short_helps(self, ctx: click.Context) -> dict[str, str]:
        """Return the short help of each command by name, in order."""
        points = {point.name: point for point in _load_entry_points()}
        return {name: _get_short_help(name, points.get(name)) for name in self.list_commands(ctx)}


def _load_entry_points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=_GROUP))


def _get_short_help(name: str, point: EntryPoint | None) -> str:
    row = COMMANDS_BY_NAME.get(name)
    if row is not None and (point is None or _is_installed(point)):
        return row.short_help
    return "" if point is None else _load_command(point).get_short_help_str(_MAX_SHORT_HELP)


def _is_installed(point: EntryPoint) -> bool:
    """Test for the package of a command, without importing it."""
    return importlib.util.find_spec(point.module.partition(".")[0]) is not None


def _load_command(point: EntryPoint) -> click.Command:
    try:
        return _check_command(point.load())
    except ImportError as error:
        # Bound to a name that outlives the except clause.
        reason = escape_control_characters(str(error))

    @click.command(
        point.name,
        short_help="(cannot be loaded here)",
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def report_missing(arguments: tuple[str, ...]) -> None:
        raise MissingRequirementError(f"The command {point.name} cannot be loaded here: {reason}")

    return report_missing


def _add_examples(command: click.Command, parents: str = "") -> click.Command:
    """Return ``command`` with its examples below its help."""
    name = f"{parents}{command.name}"
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _add_examples(inner, f"{name} ")
    elif command.epilog is None:
        command.epilog = format_examples(name)
    return command


def _check_command(command: object) -> click.Command:
    if not isinstance(command, click.Command):
        raise TypeError(f"{command!r} is not a click command")
    return command


@click.command(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, prog_name="graphviz-dash")
def cli() -> None:
    """Measure the gain from CUDA graphs: compare eager with graphed runs and inspect captured
    graphs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; each error is one line on stderr."""
    _replace_closed_streams()
    _escape_unprintable()
    with _handle_signals() as signals, _collect_garbage_rarely():
        return _run(arguments, signals)


def _run(arguments: Sequence[str] | None, signals: list[int]) -> int:
    try:
        result = cli.main(args=arguments, prog_name="graphviz-dash", standalone_mode=False)
    except GraphvizDashError as error:
        return _print_error(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 128 + signals[-1] if signals else _INTERRUPTED
        return _print_error("interrupted", code)
    except OSError as error:
        prefix = f"{error.filename}: " if error.filename else ""
        return _print_error(f"{prefix}{error.strerror or error}", 1)
    except MemoryError:
        return _print_error("not enough memory", 1)
    # click returns the code of an Exit that a command raised.
    return result if isinstance(result, int) else 0


@contextmanager
def _handle_signals() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP, like SIGINT, clean up and end child processes.

    Yields a list that gets their numbers. Ignored signals stay ignored.
    """
    signals: list[int] = []

    def handle_signal(number: int, _: FrameType | None) -> None:
        signals.append(number)
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    caught = [
        number for number in numbers if is_main and signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in caught:
        signal.signal(number, handle_signal)
    try:
        yield signals
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _collect_garbage_rarely() -> Iterator[None]:
    thresholds = raise_scan_threshold()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _print_error(text: str, code: int) -> int:
    click.echo(f"Error: {escape_control_characters(text)}", err=True)
    return code


def _replace_closed_streams() -> None:
    """Discard output to streams that the shell closed (``>&-``). Files opened later would otherwise
    receive the output of subprocesses."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_WRONLY)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            stream = os.fdopen(number, "w", encoding="utf-8", closefd=False)
            setattr(sys, name, stream)


def _escape_unprintable() -> None:
    """Escape characters that a terminal or pipe without Unicode cannot print."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
