"""Checks of replays on the terminal."""

from __future__ import annotations

import click

from graphviz_dash.analysis.replay_check import ReplayDiagnosis, WrongOperator
from graphviz_dash.cli.text.output import print_heading
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.doctor import CodeLocation
from graphviz_dash.narrative.replay_check import (
    CAUSE_ADVICE,
    CAUSE_TITLES,
    format_differing_elements,
    format_element_difference,
    format_gap,
    format_memory_fault,
    format_node,
    format_replay_verdict,
    format_stop,
    format_wrong_operator,
)


def print_replay_check(name: str | None, diagnosis: ReplayDiagnosis) -> None:
    """Print the faults, under ``name`` if there are several checks."""
    if name is not None:
        print_heading(name)
    _print(format_replay_verdict(diagnosis))
    number = 0
    for fault in diagnosis.stops:
        number += 1
        print_heading(f"{number}. {CAUSE_TITLES[fault.cause]} [{fault.cause.value}]")
        _print(f"   {format_stop(fault)}")
        for node in fault.stop.suspects:
            _print_place(node.location)
        for node in fault.stop.last:
            _print(f"   after {format_node(node)}")
        _print(f"   fix: {CAUSE_ADVICE[fault.cause]}")
    for wrong in diagnosis.wrong:
        number += 1
        print_heading(f"{number}. {CAUSE_TITLES[wrong.cause]} [{wrong.cause.value}]")
        _print_wrong(wrong)
    for memory in diagnosis.memory:
        number += 1
        print_heading(f"{number}. {CAUSE_TITLES[memory.cause]} [{memory.cause.value}]")
        _print(f"   {format_memory_fault(memory)}")
        _print_place(memory.memory.free_location)
        _print(f"   fix: {CAUSE_ADVICE[memory.cause]}")
    if diagnosis.gaps:
        print_heading("Not checked")
        for item in diagnosis.gaps:
            _print(f"   {format_gap(item)}")


def _print_wrong(wrong: WrongOperator) -> None:
    _print(f"   {format_wrong_operator(wrong)}")
    _print_place(wrong.operator.location)
    if wrong.node is not None:
        _print(f"   first node {wrong.node} of the graph")
    if wrong.elements is not None:
        _print(f"   {format_differing_elements(wrong.elements)}")
        for element in wrong.elements.first[:3]:
            _print(f"     {format_element_difference(element)}")
    _print(f"   fix: {CAUSE_ADVICE[wrong.cause]}")


def _print_place(location: CodeLocation | None) -> None:
    if location is None:
        return
    _print(f"   {location.text}" + (f" in {location.function}" if location.function else ""))
    for number, line in enumerate(location.lines, location.first_line):
        mark = ">" if number == location.line else " "
        _print(f"   {mark} {number:>5}  {line}".rstrip())


def _print(text: str) -> None:
    click.echo(escape_control_characters(text))
