from __future__ import annotations

from pathlib import Path

import pytest

from collectors.program.steps import StepClock
from graphviz_dash.model.recording import BoundaryKind, WindowEnd
from tests.collectors.program.recorded import CAPTURE, run, seen

OPTIONS = ("--skip", "5", "--steps", "50")
PROFILE = """
def profiled():
    with torch.profiler.profile() as profile:
        for _ in range(10):
            g.replay()
    return sum(event["cat"] == "kernel" for event in profile.events())
"""


@pytest.mark.parametrize("before", [12, 2], ids=["window", "before"])
def test_the_window_closes_before_a_profiler_of_the_program(tmp_path: Path, before: int) -> None:
    program = f"""
g = captured()
for _ in range({before}):
    g.replay()
print(profiled(), profiled())
for _ in range(40):
    g.replay()
"""
    done = run(tmp_path, CAPTURE + PROFILE + program, *OPTIONS)
    assert done.stdout == "10 10\n", done.stderr
    _, recording = seen(tmp_path)
    if before == 12:
        assert "the traced window closed before a step" not in done.stderr
        assert recording.window_ended_by is WindowEnd.PROFILER
        assert recording.cupti_attached is None
    else:
        assert recording.window_missing_reason == "a profiler of the program was running"
        assert recording.profiler_active


@pytest.mark.parametrize(
    ("enter", "leave"),
    [
        ("torch.autograd._enable_profiler()", "torch.autograd._disable_profiler()"),
        ("torch.autograd.profiler._prepare_profiler()", ""),
        ("torch._C._cudart.cudaProfilerStart()", "torch._C._cudart.cudaProfilerStop()"),
    ],
)
def test_profilers_below_the_public_classes_close_the_window(
    tmp_path: Path, enter: str, leave: str
) -> None:
    program = f"""
g = captured()
for _ in range(8):
    g.replay()
{enter}
g.replay()
{leave}
"""
    done = run(tmp_path, CAPTURE + program, *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert seen(tmp_path)[1].window_ended_by is WindowEnd.PROFILER


SERVE = """
import threading, time
h, ready, go_on, done = captured(), threading.Event(), threading.Event(), threading.Event()
g = captured()
def serve():
    for _ in range(60):
        h.replay()
        if torch.PROFILERS[0] == 1 and not ready.is_set():
            ready.set()
            {wait}
    while not done.is_set():
        h.replay()
        time.sleep(0.001)
    {last}
thread = threading.Thread(target=serve)
thread.start()
ready.wait()
with torch.profiler.profile() as profile:
    for _ in range(10):
        g.replay()
    go_on.set()
print(sum(event["cat"] == "kernel" for event in profile.events()) >= 10)
done.set()
thread.join()
"""


def test_a_profiler_in_another_thread_closes_the_window(tmp_path: Path) -> None:
    """A session that ended later would end that of the program."""
    program = SERVE.format(wait="pass", last="print(len(torch.PROFILED))")
    done = run(tmp_path, CAPTURE + program, "--skip", "5", "--steps", "100000")
    assert done.stdout == "True\n0\n", done.stderr
    _, recording = seen(tmp_path)
    assert recording.window_ended_by is WindowEnd.PROFILER
    assert recording.window_missing_reason is None


def test_a_traced_thread_that_waits_leaves_the_profiler_to_the_program(tmp_path: Path) -> None:
    """Its session ends when that thread starts a profiler."""
    last = "with torch.profiler.profile(): print(len(torch.PROFILED))"
    program = SERVE.format(wait="go_on.wait()", last=last)
    # A profiler of the program has ended by then.
    program += "print(len(torch.PROFILED))\n"
    patience = "from collectors.program import window\nwindow._CLOSE_S = 0.1\n"
    done = run(tmp_path, CAPTURE + patience + program, *OPTIONS)
    assert done.stdout == "True\n1\n", done.stderr
    _, recording = seen(tmp_path)
    assert recording.window_ended_by is WindowEnd.PROFILER
    assert (
        recording.window_missing_reason
        == "the traced thread was waiting when the window had to close"
    )


def test_no_window_opens_next_to_a_profiler_in_another_thread(tmp_path: Path) -> None:
    program = """
import threading
ready, done = threading.Event(), threading.Event()
g = captured()
def monitor():
    with torch.profiler.profile() as profile:
        ready.set()
        done.wait()
    print(len(profile.events()), torch.PROFILERS)
thread = threading.Thread(target=monitor)
thread.start()
ready.wait()
for _ in range(40):
    g.replay()
done.set()
thread.join()
"""
    finished = run(tmp_path, CAPTURE + program, *OPTIONS)
    assert finished.stdout == "40 [1]\n", finished.stderr
    assert seen(tmp_path)[1].window_missing_reason == "a profiler of the program was running"


def test_one_window_opens_if_several_threads_replay(tmp_path: Path) -> None:
    """The start of a profiler takes so long that another thread could take over the steps."""
    program = """
import threading, time
start = torch.autograd.profiler._enable_profiler
opening = threading.Event()
def start_slowly(*arguments):
    opening.set()
    time.sleep(0.2)
    start(*arguments)
torch.autograd.profiler._enable_profiler = start_slowly
g, h = captured(), captured()
def serve():
    opening.wait()
    for _ in range(60):
        h.replay()
thread = threading.Thread(target=serve)
thread.start()
for _ in range(60):
    g.replay()
thread.join()
print(torch.PROFILERS, len(torch.PROFILED))
"""
    done = run(tmp_path, CAPTURE + program, "--skip", "5", "--steps", "8")
    assert done.stdout == "[1] 0\n", done.stderr
    _, recording = seen(tmp_path)
    assert recording.window_steps == 8
    assert recording.window_ended_by is WindowEnd.STEPS


def test_no_other_candidate_takes_over_while_a_step_ends() -> None:
    ended: list[int] = []

    def end() -> None:
        ended.append(clock.steps)
        for _ in range(40):
            clock.handle_tick(BoundaryKind.REPLAYS, "other", "another replay")

    clock = StepClock(end, lambda: None)
    for _ in range(3):
        clock.handle_tick(BoundaryKind.REPLAYS, "graph", "a replay")
    assert (ended, clock.boundary) == ([1, 2], "a replay")


def test_a_window_without_a_complete_step_is_reported(tmp_path: Path) -> None:
    program = "g = captured()\nfor _ in range(8):\n    g.replay()\n"
    done = run(tmp_path, CAPTURE + program, *OPTIONS)
    assert "the traced window closed before a step was complete" in done.stderr
    assert seen(tmp_path)[1].window_ended_by is WindowEnd.PROGRAM
