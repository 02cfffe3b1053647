from __future__ import annotations

import sys
from pathlib import Path

import pytest

from collectors.program import bundle
from collectors.program.files import Identity
from graphviz_dash.errors import GraphvizDashError


def test_without_a_gpu_the_program_ran_and_nothing_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user knows then that the program itself was not stopped, and why there is no run."""
    refuses = "raise SystemExit('Collecting needs a CUDA GPU, and torch sees none')"
    monkeypatch.setattr(bundle, "WORKER", (sys.executable, "-c", refuses))
    identity = Identity(None, None, "2.13.0", "3.11.7")
    with pytest.raises(
        GraphvizDashError, match="The program ran, and nothing was recorded: Collecting needs"
    ):
        bundle._read_environment(tmp_path, identity)
