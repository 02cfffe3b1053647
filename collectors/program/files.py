"""What the command asks of the recorder in a program, and the files that it leaves behind."""

from __future__ import annotations

from typing import Final

import msgspec

from graphviz_dash.model.run import RankGroup

STATE_FILE: Final = "recording.json"
ENVIRONMENT_FILE: Final = "environment.json"
MEMORY_FILE: Final = "memory.json"
FAILURE_FILE: Final = "failure.json"
TRACE_FILE: Final = "trace.json.gz"
CAPTURE_TRACE_FILE: Final = "capture.json.gz"
IDENTITY_FILE: Final = "identity.json"
GRAPHS_FOLDER: Final = "graphs"


class Identity(msgspec.Struct, frozen=True):
    """Which process of the program this is: rank and ranks are torchrun's, None outside of it."""

    rank: int | None
    group: RankGroup | None


class Settings(msgspec.Struct, frozen=True):
    """What to record: ``skip`` steps without a capture, then ``window`` steps under the profiler.

    ``attribute``: the profiler runs from the program's first capture on, with ranges for modules
    and lines, so that nodes lead to them; step times are then not free of it.
    """

    skip: int
    window: int
    attribute: bool = False
