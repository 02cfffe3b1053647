"""What the parts of a compiled step's time are for."""

from __future__ import annotations

from enum import StrEnum


class StepPart(StrEnum):
    """What a part of a step's time is for."""

    REPLAY = "graph replay"
    COPIES = "input copies"
    COMPILED = "compiled work outside graphs"
    EAGER = "eager work"
    GUARDS = "guards"
    DISPATCH = "dispatch of compiled graphs"
    LAUNCH = "graph launch"
    PYTHON = "Python and other CPU work"
    WAIT = "waiting for the GPU"
