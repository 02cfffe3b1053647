"""``graphviz-dash``: finds the command, runs it, and turns what goes wrong into an exit code.

stdout is data, diagnostics go to stderr. Exit codes: 0 done; 1 it could not be done here (something
is missing or failed); 2 what was given is not what it should be; 130 interrupted.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import click
from click.shell_completion import CompletionItem

from graphviz_dash import __version__
from graphviz_dash.app.cli.command_table import LISTED, TASKS
from graphviz_dash.app.cli.examples import epilog
from graphviz_dash.errors import GraphvizDashError, MissingRequirementError, printable

_GROUP: Final = "graphviz_dash.commands"
_INTERRUPTED: Final = 130
_SHORT_HELP: Final = 60
"""Characters of a short help, so that its line has at most 80 columns."""


class Commands(click.Group):
    """The commands of the table, and those that other packages bring by entry point."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in order."""
        ours = (row.name for row in LISTED.values() if row.target is not None)
        return sorted({*ours, *(point.name for point in _brought())})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; a stand-in that says what is missing if it cannot be."""
        row = LISTED.get(cmd_name)
        if row is not None and row.target is not None:
            module, _, attribute = row.target.partition(":")
            return _with_examples(_checked(getattr(importlib.import_module(module), attribute)))
        for point in _brought():
            if point.name == cmd_name:
                return _with_examples(_load(point))
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by task, without importing those of the table."""
        left = self._short_helps(ctx)
        for task, rows in TASKS.items():
            lines = [(row.name, left.pop(row.name)) for row in rows if row.name in left]
            if lines:
                with formatter.section(task):
                    formatter.write_dl(lines)
        if left:
            with formatter.section("Brought by other packages"):
                formatter.write_dl(list(left.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands and, after a hyphen, options; imports no command of the table."""
        names = [
            CompletionItem(name, help=short_help)
            for name, short_help in self._short_helps(ctx).items()
            if name.startswith(incomplete)
        ]
        # Not Group's own, which imports every command for its help.
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def _short_helps(self, ctx: click.Context) -> dict[str, str]:
        """The short help of each command by name, in order."""
        points = {point.name: point for point in _brought()}
        return {name: _short_help(name, points.get(name)) for name in self.list_commands(ctx)}


def _brought() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=_GROUP))


def _short_help(name: str, point: EntryPoint | None) -> str:
    row = LISTED.get(name)
    if row is not None and (point is None or _is_installed(point)):
        return row.short_help
    return "" if point is None else _load(point).get_short_help_str(_SHORT_HELP)


def _is_installed(point: EntryPoint) -> bool:
    """Whether the package of a command is there; the command is not imported for that."""
    return importlib.util.find_spec(point.module.partition(".")[0]) is not None


def _load(point: EntryPoint) -> click.Command:
    try:
        return _checked(point.load())
    except ImportError as error:
        # Bound to a name that outlives the except clause.
        reason = printable(str(error))

    @click.command(
        point.name,
        short_help="(cannot be loaded here)",
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def stand_in(arguments: tuple[str, ...]) -> None:
        raise MissingRequirementError(f"The command {point.name} cannot be loaded here: {reason}")

    return stand_in


def _with_examples(command: click.Command, above: str = "") -> click.Command:
    """``command`` with its examples below its help; of a group, all commands."""
    name = f"{above}{command.name}"
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _with_examples(inner, f"{name} ")
    elif command.epilog is None:
        command.epilog = epilog(name)
    return command


def _checked(command: object) -> click.Command:
    if not isinstance(command, click.Command):
        raise TypeError(f"{command!r} is no click command")
    return command


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, prog_name="graphviz-dash")
def cli() -> None:
    """See what CUDA graphs buy: compare eager with graphed runs, look into the captured graph."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code; every error is one line on stderr."""
    _any_character_prints()
    try:
        result = cli.main(args=arguments, prog_name="graphviz-dash", standalone_mode=False)
    except GraphvizDashError as error:
        return _tell(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _tell("interrupted", _INTERRUPTED)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _tell(f"{where}{error.strerror or error}", 1)
    except MemoryError:
        return _tell("this takes more memory than there is", 1)
    # click hands back the code of an Exit that a command raised.
    return result if isinstance(result, int) else 0


def _tell(text: str, code: int) -> int:
    click.echo(f"Error: {printable(text)}", err=True)
    return code


def _any_character_prints() -> None:
    """A terminal or pipe without Unicode gets escapes, not a UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
