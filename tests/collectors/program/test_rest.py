"""Replays that are only counted once a program goes on as it did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphviz_dash.model.loop import StepKind
from tests.collectors.program.recorded import CAPTURE, PATH, run
from tests.collectors.program.test_loop import flat, loop_of

BOTH = "g.replay(); h.replay()"


@pytest.mark.parametrize(
    ("step", "then", "noted", "seen_steps"),
    [
        pytest.param("g.replay()", "", 1002, 1500, id="one graph"),
        pytest.param("g.replay()", f"h.replay(); {BOTH}", 1005, 1503, id="then another graph"),
        pytest.param(
            "g.replay()",
            "k = captured(); k.replay(); g.replay()",
            *(1004, 1502),
            id="then a new graph",
        ),
        pytest.param(BOTH, "", 1002, 1500, id="two in turn"),
        pytest.param(f"{BOTH} if i % 3 else None", "", 2500, 2500, id="not always both"),
    ],
)
def test_replays_that_every_step_repeats_are_only_counted(
    tmp_path: Path, step: str, then: str, noted: int, seen_steps: int
) -> None:
    program = f"""
    g, h = captured(), captured()
    for i in range(1500):
        {step}
    {then}
    """
    assert run(tmp_path, CAPTURE + flat(program), "--steps", "0").returncode == 0
    loop = loop_of(tmp_path)
    kinds = loop.steps.kind
    captures = kinds.count(StepKind.CAPTURE)
    assert (len(kinds) - captures, loop.step_count - captures) == (noted, seen_steps)


@pytest.mark.parametrize("step", ["", "collectors.step()"], ids=["replays", "explicit"])
def test_labels_after_a_pause_have_their_replays(tmp_path: Path, step: str) -> None:
    program = f"""
    import collectors
    g = captured()
    for i in range(1300):
        g.replay()
        {step or "pass"}
    for i in range(20):
        with collectors.label("decode", real=i % 7, batch=8):
            g.replay()
    """
    assert run(tmp_path, CAPTURE + flat(program), "--steps", "0").returncode == 0
    steps = loop_of(tmp_path).steps
    assert StepKind.FALLBACK not in steps.kind
    assert len([real for real in steps.real_size if real is not None]) == 20


RESTS = """
import sys
from collectors.program.loop.events import LoopLog
from collectors.program.rest import Rest
from collectors.program.watch import ReplayCounter
from graphviz_dash.model.recording import BoundaryKind

log = LoopLog()
counters = [ReplayCounter(str(number), log, number, log.note) for number in range(3)]
for counter, replays in zip(counters, map(int, sys.argv[1:])):
    counter.replays = replays
rest = Rest(log)
rest.begin(counters, BoundaryKind.REPLAYS, {"0": 2, "1": 2}, {"0": 6, "1": 6})
print(*(counter.note is None for counter in counters))
counters[0].replays += 5
rest.count()
print(log.dropped)
"""


@pytest.mark.parametrize(
    ("replays", "output"),
    [
        ("7 6 0", "True True False 5"),
        ("7 7 0", "True True False 5"),
        ("7 6 1", "False False False 0"),
    ],
)
def test_rest_may_begin_within_a_step(replays: str, output: str) -> None:
    """The window may close in a step, when its first graphs have one replay more."""
    done = subprocess.run(
        [sys.executable, "-c", RESTS, *replays.split()],
        env=os.environ | PATH,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == output.split(), done.stderr


FORKED_WHILE_COUNTING = """
from collectors.program.loop.events import LoopLog
from collectors.program.rest import Rest
from collectors.program.watch import ReplayCounter
from graphviz_dash.model.recording import BoundaryKind

log = LoopLog()
counter = ReplayCounter("graph-0", log, 0, log.note)
counter.replays = 7
rest = Rest(log)
rest.begin([counter], BoundaryKind.REPLAYS, {}, {"graph-0": 7})
print(counter.note)
with rest._lock:
    rest.reset()
    rest.end()
    rest.count()
print(counter.note, log.dropped)
"""


def test_a_forked_child_is_not_held_by_the_lock_of_a_rest() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED_WHILE_COUNTING],
        env=os.environ | PATH,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.split() == ["None", "None", "0"], done.stderr


def test_labelled_replays_are_recorded_to_the_end(tmp_path: Path) -> None:
    program = """
    import collectors
    g = captured()
    for i in range(1300):
        with collectors.label("decode", real=i % 7, batch=8):
            g.replay()
    """
    assert run(tmp_path, CAPTURE + flat(program), "--steps", "0").returncode == 0
    assert loop_of(tmp_path).steps.kind.count(StepKind.REPLAY) == 1300


COUNT_INSTRUCTIONS = """
import sys

calls = instructions = 0

def trace(frame, event, _):
    global calls, instructions
    frame.f_trace_opcodes = True
    calls += event == "call"
    instructions += event == "opcode"
    return trace

g = captured()
for _ in range(2000):
    g.replay()
sys.settrace(trace)
for _ in range(100):
    g.replay()
sys.settrace(None)
print(calls, instructions, file=sys.stderr)
"""


def test_a_replay_at_rest_calls_nothing_but_torch(tmp_path: Path) -> None:
    program = CAPTURE + COUNT_INSTRUCTIONS
    result = run(tmp_path, program, "--steps", "0")
    calls, instructions = map(int, result.stderr.splitlines()[0].split())
    # Without the recorder, torch's method and its base class's make the same number of calls.
    assert calls == 200
    assert instructions <= 100 * 45
