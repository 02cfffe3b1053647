"""``graphviz-dash``: finds the command, runs it, and turns what goes wrong into an exit code.

stdout is data, stderr is talk. Exit codes: 0 done; 1 it could not be done here (something is
missing or failed); 2 what was given is not what it should be; 130 interrupted.
"""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import click

from graphviz_dash import __version__
from graphviz_dash.errors import GraphvizDashError, MissingRequirementError, printable

_COMMANDS: Final = {
    "cache": "graphviz_dash.cli.commands.cache:cache_command",
    "calibrate": "graphviz_dash.cli.commands.calibrate:calibrate_command",
    "compare": "graphviz_dash.cli.commands.compare:compare_command",
    "diff": "graphviz_dash.cli.commands.diff:diff_command",
    "doctor": "graphviz_dash.cli.commands.doctor:doctor",
    "export": "graphviz_dash.cli.commands.export:export",
    "import": "graphviz_dash.cli.commands.import_:import_command",
    "launch": "graphviz_dash.cli.commands.launch:launch_command",
    "fleet": "graphviz_dash.cli.commands.fleet:fleet_command",
    "gate": "graphviz_dash.cli.commands.gate:gate_command",
    "ls": "graphviz_dash.cli.commands.ls:ls",
    "memory": "graphviz_dash.cli.commands.memory:memory_command",
    "predict": "graphviz_dash.cli.commands.predict:predict_command",
    "serve": "graphviz_dash.cli.commands.serve:serve",
    "show": "graphviz_dash.cli.commands.show:show",
    "validate": "graphviz_dash.cli.commands.validate:validate",
}
"""Our commands by name; each is imported when it is asked for, so that ``ls`` loads no other."""

_GROUP: Final = "graphviz_dash.commands"
_INTERRUPTED: Final = 130


class Commands(click.Group):
    """The commands of _COMMANDS, and those that other packages bring by entry point."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in order."""
        return sorted({*_COMMANDS, *(point.name for point in _brought())})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; a stand-in that says what is missing if it cannot be."""
        if place := _COMMANDS.get(cmd_name):
            module, _, attribute = place.partition(":")
            return _a_command(getattr(importlib.import_module(module), attribute))
        for point in _brought():
            if point.name == cmd_name:
                return _load(point)
        return None


def _brought() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=_GROUP))


def _load(point: EntryPoint) -> click.Command:
    try:
        return _a_command(point.load())
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


def _a_command(found: object) -> click.Command:
    if not isinstance(found, click.Command):
        raise TypeError(f"{found!r} is no click command")
    return found


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
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
