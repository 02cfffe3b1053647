from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graphviz_dash import process_memory
from graphviz_dash.process_memory import get_machine_memory, get_own_memory, get_peak_memory

# In a process of its own: the peak of one that has run other tests is no more than that.
_PROGRAM = """
from graphviz_dash.process_memory import reset_peak, get_own_memory, get_peak_memory
assert bytearray(100_000_000)
before = get_own_memory()
high = get_peak_memory()
reset_peak()
low = get_peak_memory()
held = b"x" * 50_000_000
print(high - before > 90e6, low < high - 90e6, 49e6 < get_own_memory() - before < 60e6)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_used_and_peak_memory_are_read() -> None:
    command = [sys.executable, "-c", _PROGRAM]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    assert (said.stdout, said.stderr) == ("True True True\n", "")


def test_a_container_may_have_less_than_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "max", tmp_path / "limit"
    monkeypatch.setattr(process_memory, "_GROUP_LIMITS", files)
    whole = get_machine_memory.__wrapped__()
    files[0].write_text("max\n")
    assert get_machine_memory.__wrapped__() == whole
    files[1].write_text("1000000\n")
    assert get_machine_memory.__wrapped__() == 1_000_000


def test_a_system_that_does_not_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_memory, "_STATUS", tmp_path / "none")
    assert get_own_memory() is None
    assert get_peak_memory() is None
