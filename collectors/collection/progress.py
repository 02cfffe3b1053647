"""Progress events of a collection, and their text on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, assert_never

from collectors.passes.observer_plan import OBSERVER_LABELS
from graphviz_dash.bundle.staging import AbandonedFolder
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.observers import Observer
from graphviz_dash.model.run import Environment, ExecutionMode, Failure, Pass
from graphviz_dash.units import format_bytes


@dataclass(frozen=True)
class NumberedPass:
    """A pass with its position in the collection."""

    number: int
    """Number across all modes, from 1."""
    total: int
    mode: ExecutionMode
    kind: Pass
    turn: tuple[int, int] | None = None
    """Process number from 1 and process count, if several."""


@dataclass(frozen=True)
class MachineRead:
    """The environment was read."""

    environment: Environment


@dataclass(frozen=True)
class LeftoverRemoved:
    """A killed collector's leftover was removed from the output folder."""

    leftover: AbandonedFolder


@dataclass(frozen=True)
class ImportRepeated:
    """Each pass imports the module of the workload itself."""

    effect: str
    """Effect of the import on the process, as a verb phrase."""


@dataclass(frozen=True)
class PassStarted:
    """A pass started."""

    numbered: NumberedPass


@dataclass(frozen=True)
class PassDone:
    """A pass succeeded after ``seconds``."""

    numbered: NumberedPass
    seconds: float


@dataclass(frozen=True)
class PassFailed:
    """A pass failed; its bundle holds the failure."""

    numbered: NumberedPass
    failure: Failure


@dataclass(frozen=True)
class ObserverFailed:
    """The process of one observer failed; the observers pass continues."""

    mode: ExecutionMode
    observer: Observer
    failure: Failure


@dataclass(frozen=True)
class CeilingsFailed:
    """The limits of the GPU could not be measured."""

    reason: str


@dataclass(frozen=True)
class StepExamined:
    """The doctor examined a failed capture."""

    report: DoctorReport


@dataclass(frozen=True)
class Interrupted:
    """The collection was interrupted."""

    output: Path
    kept: tuple[Path, ...]
    lost: ExecutionMode | None
    """Mode without a bundle, or None."""


Event: TypeAlias = (
    MachineRead
    | LeftoverRemoved
    | ImportRepeated
    | PassStarted
    | PassDone
    | PassFailed
    | ObserverFailed
    | CeilingsFailed
    | StepExamined
    | Interrupted
)

Report: TypeAlias = Callable[[Event], None]


def is_failure(event: Event) -> bool:
    """Check for a failure, which every rank reports."""
    return isinstance(event, PassFailed | ObserverFailed)


def format_event(event: Event) -> str:
    """Format an event as a line on a terminal."""
    match event:
        case MachineRead(environment):
            line = (
                f"{environment.gpu_name}, driver {environment.driver or 'unknown'}, "
                f"CUDA {environment.cuda_runtime}, torch {environment.torch}"
            )
        case LeftoverRemoved(leftover):
            size = format_bytes(leftover.bytes)
            line = f"Removed {leftover.path.name} ({size}), left by a killed collector"
        case ImportRepeated(effect):
            line = (
                f"Each pass imports the workload's module, because its import {effect}: "
                "collecting takes longer"
            )
        case PassStarted(numbered):
            line = f"{_format_pass(numbered)} …"
        case PassDone(numbered, seconds):
            line = f"{_format_pass(numbered)} done in {seconds:.1f} s"
        case PassFailed(numbered, failure):
            location = f" at {failure.location}" if failure.location else ""
            line = f"{_format_pass(numbered)} failed{location}: {get_first_line(failure)}"
        case ObserverFailed(mode, observer, failure):
            line = f"{mode.value}: {OBSERVER_LABELS[observer]} failed: {get_first_line(failure)}"
        case CeilingsFailed(reason):
            line = f"The limits of the GPU were not measured: {reason}"
        case StepExamined(report):
            lines = [finding.location.text for finding in report.findings if finding.location]
            line = f"doctor: {len(report.findings)} findings, first at {', '.join(lines[:1])}"
        case Interrupted(output, kept, lost):
            line = format_kept_runs(output, kept, lost)
        case _:
            assert_never(event)
    return line


def format_kept_runs(output: Path, kept: tuple[Path, ...], lost: ExecutionMode | None) -> str:
    """Describe the runs in the output folder of an interrupted collection."""
    names = ", ".join(run.name for run in kept)
    text = f"Kept in {output}: {names}" if names else f"Nothing was kept in {output}"
    return f"{text}; nothing of {lost.value} was written." if names and lost else f"{text}."


def get_first_line(failure: Failure) -> str:
    """Return the first line of a failure's message, safe for a terminal."""
    return escape_control_characters(failure.message.partition("\n")[0])


def _format_pass(numbered: NumberedPass) -> str:
    mode, kind = numbered.mode.value, numbered.kind.value
    turn = f", process {numbered.turn[0]} of {numbered.turn[1]}" if numbered.turn else ""
    return f"[{numbered.number}/{numbered.total}] {mode}: {kind} pass{turn}"
