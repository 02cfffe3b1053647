"""Purposes of a compiled step's time."""

from __future__ import annotations

from enum import StrEnum


class StepPart(StrEnum):
    """Purpose of a part of a step's time."""

    REPLAY = "graph replay"
    COPIES = "input copies"
    COMPILED = "compiled work outside graphs"
    EAGER = "eager work"
    GUARDS = "guards"
    DISPATCH = "dispatch of compiled graphs"
    LAUNCH = "graph launch"
    PYTHON = "Python and other CPU work"
    WAIT = "waiting for the GPU"
