"""Requests to the doctor's processes and their result files."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

REPORT_FILE: Final = "doctor.json"
ENVIRONMENT_FILE: Final = "doctor-environment.json"
"""Environment of an examined workload; absent if its process could not read it."""

COMPILATION_FILE: Final = "compilation.json"
"""Compilations of a process, next to its report; absent if none."""


class DoctorRequest(Struct, frozen=True):
    """Request to examine a workload's step."""

    factory: str
    """``module:function`` of the workload's factory."""
    seed: int
    warmup: int
    """Unobserved warmup steps."""
    steps: int
    out: str
    """Existing folder for the report."""
    settings: tuple[str, ...] = ()
    marks: str | None = None
    """Folder for the marks of a check of replays, or None to examine the capture."""


class ProgramSettings(Struct, frozen=True):
    """Observation of a program: skip ``skip`` steps, then compare ``steps``."""

    skip: int
    steps: int
