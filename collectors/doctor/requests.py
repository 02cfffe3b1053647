"""What is asked of the processes in which the doctor works, and what they leave behind."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

REPORT_FILE: Final = "doctor.json"


class DoctorRequest(Struct, frozen=True):
    """A workload's step to examine: ``warmup`` steps, then ``steps`` that are watched and compared.
    ``out`` is an existing folder for the report; ``settings`` are ``name=value`` of the workload's
    parameters."""

    factory: str
    seed: int
    warmup: int
    steps: int
    out: str
    settings: tuple[str, ...] = ()


class ProgramSettings(Struct, frozen=True):
    """How a program is watched: ``skip`` steps are let go, then ``steps`` are compared."""

    skip: int
    steps: int
