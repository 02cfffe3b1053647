"""``graphviz-dash docs``: find a section of the documentation."""

from __future__ import annotations

import re
import webbrowser
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec import Struct

from graphviz_dash.analysis.metrics.registry import METRICS as METRICS_BY_ID
from graphviz_dash.app.cli.examples import EXAMPLES
from graphviz_dash.cli.text.output import create_table, print_more, print_table
from graphviz_dash.documentation import (
    COMMANDS,
    METRICS,
    RULES,
    SITE_FOLDER,
    SOURCES,
    build_anchor,
    build_place,
    get_site_path,
)
from graphviz_dash.errors import InputError, MissingRequirementError
from graphviz_dash.model.compile_rules import COMPILE_RULES, CompileRule
from graphviz_dash.model.rules import RULES as CAPTURE_RULES
from graphviz_dash.model.rules import Rule

_MAX_MATCHES: Final = 15
_PAGES: Final = ("commands", "json", "bundle-format", "metrics", "rules", "python")
"""Pages of the reference, which are topics by their names."""

_START: Final = "index.md"
_INTERNAL: Final = ("decisions", "project")
"""Folders for developers, whose headings are no topics."""

_FENCE: Final = re.compile(r"^(`{3,}|~{3,}).*?^\1[ ]*$", re.M | re.S)
_HEADING: Final = re.compile(r"^#{1,3} +(.+?) *#*$", re.M)


class _Entry(Struct):
    location: str
    title: str


class _SearchIndex(Struct):
    docs: list[_Entry]


@click.command("docs")
@click.argument("topic", nargs=-1)
@click.option("--open", "opens", is_flag=True, help="Open the section in a browser.")
def docs_command(topic: tuple[str, ...], opens: bool) -> None:
    """Print where the documentation explains TOPIC.

    TOPIC is a command, a metric, a rule or words of a heading. Several matches are listed. Without
    TOPIC, prints the start of the documentation. A running dashboard serves it at /docs.
    """
    query = " ".join(topic)
    topics = find_topics(query) if query else {_START: _START}
    if not topics:
        raise InputError(
            "TOPIC",
            repr(query),
            "a command, a metric, a rule or words of a heading",
            "Run graphviz-dash docs without a topic for the start of the documentation.",
        )
    if len(topics) > 1 and not opens:
        table = create_table("topic", "location")
        for name, location in list(topics.items())[:_MAX_MATCHES]:
            table.add_row(name, format_location(location))
        print_table(table)
        print_more(len(topics), _MAX_MATCHES)
        return
    target = format_location(next(iter(topics.values())))
    if opens:
        webbrowser.open(target)
    click.echo(target)


def list_topics() -> dict[str, str]:
    """List the places of reference pages, commands, metrics and rules by name."""
    topics = {name: f"reference/{name}.md" for name in _PAGES}
    topics |= {name: build_place(COMMANDS, name) for name in EXAMPLES}
    for metric in METRICS_BY_ID.values():
        topics[metric.id] = topics[metric.title] = build_place(METRICS, metric.title)
    rules: tuple[Rule | CompileRule, ...] = (*COMPILE_RULES.values(), *CAPTURE_RULES.values())
    for rule in rules:
        topics[rule.heading] = topics[rule.id.value] = build_place(RULES, rule.heading)
    return topics


def list_headings() -> dict[str, str]:
    """List the places of all headings by text."""
    index = SITE_FOLDER / "search" / "search_index.json"
    if index.is_file():
        entries = msgspec.json.decode(index.read_bytes(), type=_SearchIndex).docs
        return {entry.title: entry.location.replace(".html", ".md", 1) for entry in entries}
    headings: dict[str, str] = {}
    for page in sorted(SOURCES.rglob("*.md")):
        name = page.relative_to(SOURCES).as_posix()
        if not set(page.relative_to(SOURCES).parts) & set(_INTERNAL):
            text = _FENCE.sub("", page.read_text(encoding="utf-8"))
            headings |= {
                heading: f"{name}#{build_anchor(heading)}" for heading in _HEADING.findall(text)
            }
    return headings


def find_topics(query: str) -> dict[str, str]:
    """Find the places of a topic: an equal name, else names with words that begin so."""
    topics, words = list_topics(), query.casefold().split()
    for name, location in topics.items():
        if name.casefold() == query.casefold():
            return {name: location}
    candidates = topics | list_headings()
    names = {location: name for name, location in candidates.items() if _has_words(name, words)}
    return {name: location for location, name in names.items()}


def _has_words(name: str, words: list[str]) -> bool:
    return all(re.search(rf"(?<![^\W_]){re.escape(word)}", name.casefold()) for word in words)


def format_location(location: str) -> str:
    """Format a location as a URL of the built site, else as a path in the checkout.

    Raises:
        MissingRequirementError: this installation has no documentation.
    """
    if (SITE_FOLDER / "index.html").is_file():
        path, mark, anchor = get_site_path(location).partition("#")
        return f"{(SITE_FOLDER / path).as_uri()}{mark}{anchor}"
    if not SOURCES.is_dir():
        raise MissingRequirementError(
            "This installation has no documentation. Build it with make site in a checkout."
        )
    page, mark, anchor = location.partition("#")
    file = SOURCES / page
    if not file.is_file() and page == _START:
        file = SOURCES.parent / "README.md"
    return f"{_shorten_path(file)}{mark}{anchor}"


def _shorten_path(file: Path) -> str:
    cwd = Path.cwd()
    return str(file.relative_to(cwd) if file.is_relative_to(cwd) else file)
