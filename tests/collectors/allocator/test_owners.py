from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.forked import ROOT, get_fork_server

PATH = f"{Path(__file__).parents[1] / 'fake_torch'}:{ROOT}"

MODULES = (
    *("collectors.allocator.history", "collectors.allocator.holders", "collectors.doctor.classify"),
    "collectors.ledger.recorder",
)

PROGRAM = """
import gc, sys
if {frozen}:
    gc.freeze()
from collectors.allocator import owners
class Node: pass
kept = [Node() for _ in range(1_000)]
if {own}:
    gc.freeze()
before = gc.get_freeze_count()
objects = owners._list_objects()
assert sum(type(item) is Node for item in objects) == 1_000
assert not any(type(item) is dict for item in objects)
print(gc.get_freeze_count() - before)
"""


def count_newly_frozen(*, frozen: bool, own: bool) -> int:
    """Frozen objects after the list minus those before, in a process that imports the module."""
    return int(
        subprocess.run(
            [sys.executable, "-c", PROGRAM.format(frozen=frozen, own=own)],
            env={"PYTHONPATH": PATH},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
    )


def run_program(program: str) -> int:
    return int(run_text(program))


def run_text(program: str, *arguments: str) -> str:
    """Run ``program`` with a stand-in for torch, and return its output."""
    server = get_fork_server(*MODULES, path=PATH)
    done = server.run(program, *arguments, env={"PYTHONPATH": PATH})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_objects_frozen_by_the_interpreter_do_not_freeze_those_of_the_program() -> None:
    """Python 3.12 starts with 375 frozen objects, which ``gc.freeze`` in the test imitates."""
    assert count_newly_frozen(frozen=True, own=False) == 0


def test_objects_that_the_program_froze_are_listed_and_stay_frozen() -> None:
    assert count_newly_frozen(frozen=False, own=True) >= 0
