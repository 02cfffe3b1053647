"""What is asked of the processes in which the doctor works, and what they leave behind."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

REPORT_FILE: Final = "doctor.json"
COMPILATION_FILE: Final = "compilation.json"
"""Beside a report: what torch.compile did in that process; not there where it did nothing."""


class DoctorRequest(Struct, frozen=True):
    """A workload's step to examine."""

    factory: str
    """``module:function`` of the workload's factory."""
    seed: int
    """torch's seed before the workload is built."""
    warmup: int
    """Steps that are run before any is watched."""
    steps: int
    """Steps that are watched and compared."""
    out: str
    """An existing folder for the report."""
    settings: tuple[str, ...] = ()
    """``name=value`` of the workload's parameters."""


class ProgramSettings(Struct, frozen=True):
    """How a program is watched: ``skip`` steps are let go, then ``steps`` are compared."""

    skip: int
    steps: int
