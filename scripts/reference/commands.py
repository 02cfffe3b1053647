"""The command line: synopsis, text, options and examples of each command."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

import click

from graphviz_dash.app.cli.command_table import COMMANDS_BY_TASK
from graphviz_dash.app.cli.examples import EXAMPLES
from graphviz_dash.app.cli.main import cli
from scripts.reference.docstrings import join_lines

_PROGRAM: Final = "graphviz-dash"
_TYPES: Final = {"integer range": "N", "integer": "N", "float range": "NUMBER", "text": "TEXT"}
_DEFAULT: Final = re.compile(r" *[\[(]default: ([^\])]*)[\])]\.?")
_COMMON: Final = 2
_VERBATIM_MARK: Final = "\b"


def format_body() -> str:
    """The commands by task, the options that several share, then a section for each command."""
    commands = list_commands()
    parts = []
    for task, rows in COMMANDS_BY_TASK.items():
        links = [
            f"[`{name}`](#{_format_anchor(name)})"
            for row in rows
            for name in commands
            if name.split()[0] == row.name
        ]
        parts.append(f"- **{task}**: {', '.join(links)}")
    common = _find_common_options(commands)
    parts += ["", "## Common options\n", *(_format_option_line(*row) for row in sorted(common)), ""]
    names = [row.name for rows in COMMANDS_BY_TASK.values() for row in rows]
    for name in sorted(commands, key=lambda name: (names.index(name.split()[0]), name)):
        parts.append(_format_section(name, commands[name], common))
    return "\n".join(parts)


def _find_common_options(commands: dict[str, click.Command]) -> set[tuple[str, str]]:
    counts = Counter(row for command in commands.values() for row in _list_options(command))
    return {row for row, count in counts.items() if count >= _COMMON}


def _list_options(command: click.Command) -> list[tuple[str, str]]:
    return [
        (_format_option(option, command), _format_meaning(option))
        for option in command.params
        if isinstance(option, click.Option)
    ]


def _format_option_line(option: str, meaning: str) -> str:
    return f"- {option}: {meaning}"


def list_commands(group: click.Group = cli, parents: str = "") -> dict[str, click.Command]:
    """Each command by its full name, such as "export perfetto"; without groups."""
    context = click.Context(group)
    commands = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            commands.update(list_commands(command, f"{parents}{name} "))
        else:
            commands[f"{parents}{name}"] = command
    return commands


def _format_anchor(name: str) -> str:
    return name.replace(" ", "-")


def _format_section(name: str, command: click.Command, common: set[tuple[str, str]]) -> str:
    parts = [f"## {name}\n", "\n\n".join(_format_paragraphs(command)) + "\n"]
    if any(isinstance(parameter, click.Argument) for parameter in command.params):
        parts.append(f"`{_PROGRAM} {name} {_format_usage(command)}`\n")
    rows = _list_options(command)
    lines = [_format_option_line(*row) for row in rows if row not in common]
    shared = ", ".join(option for option, meaning in rows if (option, meaning) in common)
    if shared:
        lines.append(f"- [common](#common-options): {shared}")
    if lines:
        parts.append("\n".join(lines) + "\n")
    examples = EXAMPLES.get(name, ())
    if examples:
        example_text = "\n".join(f"$ {example}" for example in examples)
        parts.append(f"```console\n{example_text}\n```\n")
    return "\n".join(parts)


def _format_paragraphs(command: click.Command) -> Iterator[str]:
    """The paragraphs of the help text; preformatted and indented ones as code."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        text = paragraph.strip("\n")
        lines = text.removeprefix(_VERBATIM_MARK).strip("\n").splitlines()
        is_verbatim = text.startswith(_VERBATIM_MARK) and len(lines) > 1
        if is_verbatim or text.startswith("    "):
            yield "```text\n" + inspect.cleandoc("\n".join(["", *lines])) + "\n```"
        else:
            yield join_lines("\n".join(lines))


def _format_usage(command: click.Command) -> str:
    context = click.Context(command)
    return " ".join(command.collect_usage_pieces(context))


def _format_option(option: click.Option, command: click.Command) -> str:
    names = "/".join((*option.opts, *option.secondary_opts))
    if option.is_flag:
        return f"`{names}`"
    record = option.get_help_record(click.Context(command))
    assert record is not None, "hidden options have no row"
    metavar = record[0].rpartition(" ")[2]
    metavar = _TYPES.get(option.type.name, metavar) if option.metavar is None else metavar
    return f"`{names} {metavar}`"


def _format_meaning(option: click.Option) -> str:
    text = _DEFAULT.sub(r". Default: \1.", join_lines(option.help)).strip()
    text = text.replace("..", ".").replace(" (docs/reference/json.md)", "")
    if option.multiple and "epeat" not in text:
        text = f"{text} May be repeated."
    if option.show_default and _has_default(option):
        text = f"{text} Default: `{option.default}`."
    if option.required:
        text = f"{text} Required."
    return text.strip()


def _has_default(option: click.Option) -> bool:
    value = option.default
    return not option.is_flag and not callable(value) and type(value) in (int, float, str)
