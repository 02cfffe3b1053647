"""``graphviz-dash docs``: find a section of the documentation."""

from __future__ import annotations

import re
import webbrowser
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec import Struct

from graphviz_dash.analysis.metrics.registry import METRICS as REGISTERED
from graphviz_dash.app.cli.examples import EXAMPLES
from graphviz_dash.cli.text.output import cell, plain_table, print_more, print_table
from graphviz_dash.documentation import (
    BUILT,
    COMMANDS,
    METRICS,
    RULES,
    SOURCES,
    place,
    site_path,
    slug,
)
from graphviz_dash.errors import InputError, MissingRequirementError
from graphviz_dash.model.compile_rules import COMPILE_RULES, CompileRule
from graphviz_dash.model.rules import RULES as CAPTURE_RULES
from graphviz_dash.model.rules import Rule

_MOST: Final = 15
_PAGES: Final = ("commands", "json", "bundle-format", "metrics", "rules", "python")
"""Pages of the reference, which are topics by their names."""

_START: Final = "index.md"
_INTERNAL: Final = ("decisions", "project", "_intro")
"""Folders for developers, whose headings are no topics."""

_FENCE: Final = re.compile(r"^(`{3,}|~{3,}).*?^\1[ ]*$", re.M | re.S)
_HEADING: Final = re.compile(r"^#{1,3} +(.+?) *#*$", re.M)


class _Entry(Struct):
    location: str
    title: str


class _SearchIndex(Struct):
    docs: list[_Entry]


@click.command()
@click.argument("topic", nargs=-1)
@click.option("--open", "opens", is_flag=True, help="Open the section in a browser.")
def docs(topic: tuple[str, ...], opens: bool) -> None:
    """Print where the documentation explains TOPIC.

    TOPIC is a command, a metric, a rule or words of a heading. Several matches are listed. Without
    TOPIC, prints the start of the documentation. A running dashboard serves it at /docs.
    """
    asked = " ".join(topic)
    places = matches(asked) if asked else {_START: _START}
    if not places:
        raise InputError(
            "TOPIC",
            repr(asked),
            "a command, a metric, a rule or words of a heading",
            "Run graphviz-dash docs without a topic for the start of the documentation.",
        )
    if len(places) > 1 and not opens:
        table = plain_table("topic", "place")
        for name, where in list(places.items())[:_MOST]:
            table.add_row(cell(name), cell(location(where)))
        print_table(table)
        print_more(len(places), _MOST)
        return
    target = location(next(iter(places.values())))
    if opens:
        webbrowser.open(target)
    click.echo(target)


def topics() -> dict[str, str]:
    """Places of the reference's pages, commands, metrics and rules by name."""
    places = {name: f"reference/{name}.md" for name in _PAGES}
    places |= {name: place(COMMANDS, name) for name in EXAMPLES}
    for metric in REGISTERED.values():
        places[metric.id] = places[metric.title] = place(METRICS, metric.title)
    rules: tuple[Rule | CompileRule, ...] = (*COMPILE_RULES.values(), *CAPTURE_RULES.values())
    for rule in rules:
        places[rule.heading] = places[rule.id.value] = place(RULES, rule.heading)
    return places


def headings() -> dict[str, str]:
    """Places of all headings by text, from the built site or from the Markdown."""
    index = BUILT / "search" / "search_index.json"
    if index.is_file():
        entries = msgspec.json.decode(index.read_bytes(), type=_SearchIndex).docs
        return {entry.title: entry.location.replace(".html", ".md", 1) for entry in entries}
    places: dict[str, str] = {}
    for page in sorted(SOURCES.rglob("*.md")):
        name = page.relative_to(SOURCES).as_posix()
        if not set(page.relative_to(SOURCES).parts) & set(_INTERNAL):
            text = _FENCE.sub("", page.read_text(encoding="utf-8"))
            places |= {heading: f"{name}#{slug(heading)}" for heading in _HEADING.findall(text)}
    return places


def matches(asked: str) -> dict[str, str]:
    """The places of a topic: of an equal name, else of all names that contain every word."""
    named, words = topics(), asked.casefold().split()
    for name, where in named.items():
        if name.casefold() == asked.casefold():
            return {name: where}
    listed = {where: name for name, where in (named | headings()).items() if _has(name, words)}
    return {name: where for where, name in listed.items()}


def _has(name: str, words: list[str]) -> bool:
    return all(word in name.casefold() for word in words)


def location(where: str) -> str:
    """A place as it can be opened: in the built site, else in the Markdown of the checkout.

    Raises:
        MissingRequirementError: this installation has no documentation.
    """
    if (BUILT / "index.html").is_file():
        path, mark, anchor = site_path(where).partition("#")
        return f"{(BUILT / path).as_uri()}{mark}{anchor}"
    if not SOURCES.is_dir():
        raise MissingRequirementError(
            "This installation has no documentation. Build it with make site in a checkout."
        )
    page, mark, anchor = where.partition("#")
    file = SOURCES / page
    if not file.is_file() and page == _START:
        file = SOURCES.parent / "README.md"
    return f"{_short(file)}{mark}{anchor}"


def _short(file: Path) -> str:
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)
