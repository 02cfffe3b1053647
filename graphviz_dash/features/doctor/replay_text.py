"""Checks of replays on the terminal."""

from __future__ import annotations

from graphviz_dash.analysis.replay_check import (
    MemoryFault,
    ReplayDiagnosis,
    StopFault,
    WrongOperator,
)
from graphviz_dash.cli.text.output import print_heading, print_text
from graphviz_dash.model.doctor import CodeLocation
from graphviz_dash.narrative.replay_check import (
    CAUSE_ADVICE,
    CAUSE_TITLES,
    format_differing_elements,
    format_element_difference,
    format_fault,
    format_gap,
    format_node,
    format_replay_verdict,
)


def print_replay_check(name: str | None, diagnosis: ReplayDiagnosis) -> None:
    """Print the faults, under ``name`` if there are several checks."""
    if name is not None:
        print_heading(name)
    _print(format_replay_verdict(diagnosis))
    for number, fault in enumerate(diagnosis.faults, 1):
        print_heading(f"{number}. {CAUSE_TITLES[fault.cause]} [{fault.cause.value}]")
        if diagnosis.fault_count > 1:
            # The verdict has the sentence of a single fault.
            _print(f"   {format_fault(fault)}")
        match fault:
            case StopFault():
                _print_stop(fault)
            case WrongOperator():
                _print_wrong(fault)
            case MemoryFault(memory=memory):
                _print_place(memory.free_location)
        _print(f"   fix: {CAUSE_ADVICE[fault.cause]}")
    if diagnosis.gaps:
        print_heading("Not checked")
        for item in diagnosis.gaps:
            _print(f"   {format_gap(item)}")


def _print_stop(fault: StopFault) -> None:
    for node in fault.stop.suspects:
        _print_place(node.location)
    for node in fault.stop.last:
        _print(f"   after {format_node(node)}")


def _print_wrong(wrong: WrongOperator) -> None:
    _print_place(wrong.operator.location)
    if wrong.node is not None:
        _print(f"   first node {wrong.node} of the graph")
    if wrong.elements is not None:
        _print(f"   {format_differing_elements(wrong.elements)}")
        for element in wrong.elements.first[:3]:
            _print(f"     {format_element_difference(element)}")


def _print_place(location: CodeLocation | None) -> None:
    if location is None:
        return
    _print(f"   {location.text}" + (f" in {location.function}" if location.function else ""))
    for number, line in enumerate(location.lines, location.first_line):
        mark = ">" if number == location.line else " "
        _print(f"   {mark} {number:>5}  {line}".rstrip())


def _print(text: str) -> None:
    print_text(text)
