"""What happens in a collection, told as it happens: values, and how they read on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, assert_never

from collectors.passes.observer_plan import ABOUT
from graphviz_dash.bundle.staging import Leftover
from graphviz_dash.errors import printable
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.observers import Observer
from graphviz_dash.model.run import Environment, ExecutionMode, Failure, Pass
from graphviz_dash.units import format_bytes


@dataclass(frozen=True)
class NumberedPass:
    """A pass as one of all that the collection has."""

    number: int
    """Counts the passes of all modes, from 1."""
    total: int
    """How many there are."""
    mode: ExecutionMode
    """The mode that is collected."""
    kind: Pass
    """Which of its passes this is."""
    turn: tuple[int, int] | None = None
    """Of a clean pass in several processes: which this is, from 1, and how many there are."""


@dataclass(frozen=True)
class MachineRead:
    """The machine was asked what it is."""

    environment: Environment


@dataclass(frozen=True)
class LeftoverRemoved:
    """What a killed collector had left in the output folder is gone."""

    leftover: Leftover


@dataclass(frozen=True)
class PassBegan:
    """A pass begins."""

    numbered: NumberedPass


@dataclass(frozen=True)
class PassDone:
    """A pass ended well, after ``seconds``."""

    numbered: NumberedPass
    seconds: float


@dataclass(frozen=True)
class PassFailed:
    """A pass failed; its failure goes into the bundle."""

    numbered: NumberedPass
    failure: Failure


@dataclass(frozen=True)
class ObserverFailed:
    """The process of one observer failed; the observers pass goes on without it."""

    mode: ExecutionMode
    observer: Observer
    failure: Failure


@dataclass(frozen=True)
class StepExamined:
    """The doctor examined why the step cannot be captured."""

    report: DoctorReport


@dataclass(frozen=True)
class Interrupted:
    """The collection was ended before its end."""

    output: Path
    """The folder of the experiment."""
    kept: tuple[Path, ...]
    """The bundles that were written."""
    lost: ExecutionMode | None
    """The mode of which nothing was written; None where all were."""


Event: TypeAlias = (
    MachineRead
    | LeftoverRemoved
    | PassBegan
    | PassDone
    | PassFailed
    | ObserverFailed
    | StepExamined
    | Interrupted
)

Report: TypeAlias = Callable[[Event], None]


def is_failure(event: Event) -> bool:
    """Whether something failed: what every rank tells, and not the first alone."""
    return isinstance(event, PassFailed | ObserverFailed)


def text_of(event: Event) -> str:
    """The line of an event on a terminal."""
    match event:
        case MachineRead(environment):
            line = (
                f"{environment.gpu_name}, driver {environment.driver or 'unknown'}, "
                f"CUDA {environment.cuda_runtime}, torch {environment.torch}"
            )
        case LeftoverRemoved(leftover):
            size = format_bytes(leftover.bytes)
            line = f"Removed {leftover.path.name} ({size}), left by a collector that was killed"
        case PassBegan(numbered):
            line = f"{_pass_text(numbered)} …"
        case PassDone(numbered, seconds):
            line = f"{_pass_text(numbered)} done in {seconds:.1f} s"
        case PassFailed(numbered, failure):
            where = f" at {failure.location}" if failure.location else ""
            line = f"{_pass_text(numbered)} failed{where}: {first_line(failure)}"
        case ObserverFailed(mode, observer, failure):
            line = f"{mode.value}: {ABOUT[observer]} failed: {first_line(failure)}"
        case StepExamined(report):
            lines = [finding.place.text for finding in report.findings if finding.place]
            line = f"doctor: {len(report.findings)} findings, first at {', '.join(lines[:1])}"
        case Interrupted(output, kept, lost):
            line = kept_text(output, kept, lost)
        case _:
            assert_never(event)
    return line


def kept_text(output: Path, kept: tuple[Path, ...], lost: ExecutionMode | None) -> str:
    """What of an ended collection is in the output folder."""
    names = ", ".join(run.name for run in kept)
    text = f"Kept in {output}: {names}" if names else f"Nothing was kept in {output}"
    return f"{text}; nothing of {lost.value} was written." if names and lost else f"{text}."


def first_line(failure: Failure) -> str:
    """The first line of a failure's message, safe for a terminal."""
    return printable(failure.message.partition("\n")[0])


def _pass_text(numbered: NumberedPass) -> str:
    mode, kind = numbered.mode.value, numbered.kind.value
    turn = f", process {numbered.turn[0]} of {numbered.turn[1]}" if numbered.turn else ""
    return f"[{numbered.number}/{numbered.total}] {mode}: {kind} pass{turn}"
