from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from collectors.program.bundle import KILLED
from collectors.program.files import ProcessFolder
from collectors.program.progress import FLUSH_S, ProgressFiles, read_progress
from graphviz_dash.model.recording import WindowEnd
from tests.collectors.program.recorded import CAPTURE, run, run_apart, seen

LOOP = "g = captured()\nfor i in range(40):\n    g.replay()\n"
OPTIONS = ("--skip", "5", "--steps", "4")


def test_the_profiler_stops_without_events_and_detaches_cupti(tmp_path: Path) -> None:
    program = LOOP + (
        "import ctypes, os\n"
        "print(torch.EVENTS_BUILT, torch.TEARDOWNS, 'TEARDOWN_CUPTI' in os.environ)\n"
        "print(ctypes.CDLL(None).getenv(b'TEARDOWN_CUPTI'))\n"
    )
    done = run(tmp_path, CAPTURE + program, *OPTIONS)
    assert done.stdout == "[0] ['1'] False\n0\n", done.stderr
    contents, recording = seen(tmp_path)
    assert recording.cupti_attached is None
    assert recording.window_open_ns is not None
    assert recording.window_close_ns is not None
    assert recording.window_ended_by is WindowEnd.STEPS
    assert recording.reached_end is True
    assert contents.replay_trace is not None
    assert "CUPTI" not in done.stderr


def test_writing_a_trace_counts_as_a_pause_of_the_running_program(tmp_path: Path) -> None:
    program = """
import threading, time
save, written = torch._save, threading.Event()
def save_slowly(events, path):
    begin = time.perf_counter_ns()
    while time.perf_counter_ns() < begin + 60_000_000:
        pass
    save(events, path)
    written.set()
torch._save = save_slowly
"""
    done = run(tmp_path, CAPTURE + program + LOOP + "written.wait()\n", *OPTIONS)
    assert done.returncode == 0, done.stderr
    contents, recording = seen(tmp_path)
    assert contents.replay_trace is not None
    assert recording.window_close_ns is not None
    assert recording.window_close_ns >= 60_000_000


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ("import os; os.environ['TEARDOWN_CUPTI'] = '0'", "TEARDOWN_CUPTI=0"),
        ("import os; os.environ['DISABLE_CUPTI_LAZY_REINIT'] = '1'", "DISABLE_CUPTI_LAZY_REINIT"),
        ("import torch; torch.version.cuda = '12.4'", "since CUDA 12.6"),
        ("import torch; torch.current_device = torch.cuda.current_device = int", "within a second"),
    ],
)
def test_cupti_that_stays_attached_is_reported(tmp_path: Path, before: str, reason: str) -> None:
    done = run(tmp_path, f"{before}\n{CAPTURE}{LOOP}", *OPTIONS)
    assert done.returncode == 0
    _, recording = seen(tmp_path)
    assert recording.cupti_attached is not None
    assert reason in recording.cupti_attached
    assert "CUPTI is still attached" in done.stderr


def test_cupti_stays_attached_where_other_threads_launch_graphs(tmp_path: Path) -> None:
    """Detaching while a graph runs makes its launch fail."""
    program = """
import threading
g, h = captured(), captured()
for i in range(40):
    g.replay()
    other = threading.Thread(target=h.replay)
    other.start()
    other.join()
print(torch.TEARDOWNS)
"""
    done = run(tmp_path, CAPTURE + program, *OPTIONS)
    assert done.stdout == "[None]\n", done.stderr
    assert "several threads launch graphs" in (seen(tmp_path)[1].cupti_attached or "")


def test_a_program_that_detaches_cupti_itself_is_left_alone(tmp_path: Path) -> None:
    before = "import os; os.environ['TEARDOWN_CUPTI'] = '1'\n"
    program = before + CAPTURE + LOOP + "print(torch.TEARDOWNS, os.environ['TEARDOWN_CUPTI'])"
    done = run(tmp_path, program, *OPTIONS)
    assert done.stdout == "['1'] 1\n"
    assert seen(tmp_path)[1].cupti_attached is None


@pytest.mark.parametrize(
    ("pause", "marked"),
    [
        # 158,000 events are allowed, and the third step would exceed them.
        ("4", 2),
        ("10", 4),
    ],
)
def test_a_window_ends_before_it_holds_too_many_events(
    tmp_path: Path, pause: str, marked: int
) -> None:
    # About 60,000 events in each step.
    program = "g = captured()\nfor i in range(60):\n    g.replay(); torch.ALLOCATIONS[0] += 7_000\n"
    done = run(tmp_path, CAPTURE + program, *OPTIONS, "--window-pause", pause)
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert recording.window_steps == marked
    assert recording.window_ended_by is (WindowEnd.STEPS if marked == 4 else WindowEnd.EVENTS)
    assert (f"holds {marked} of 4 steps" in done.stderr) == (marked < 4)


def test_a_step_that_would_pause_the_program_for_too_long_is_not_traced(tmp_path: Path) -> None:
    program = "g = captured()\nfor i in range(60):\n    g.replay(); torch.ALLOCATIONS[0] += 7_000\n"
    done = run(tmp_path, CAPTURE + program, *OPTIONS)
    assert done.returncode == 0, done.stderr
    contents, recording = seen(tmp_path)
    assert contents.replay_trace is None
    assert recording.window_close_ns is None
    assert recording.window_missing_reason is not None
    assert "about 1.6 s: --window-pause 4" in recording.window_missing_reason


def test_a_window_waits_for_a_step_with_fewer_events(tmp_path: Path) -> None:
    # A server may prefill when the window is due.
    program = """
g = captured()
for i in range(60):
    g.replay()
    torch.ALLOCATIONS[0] += 7_000 if i < 12 else 10
"""
    done = run(tmp_path, CAPTURE + program, *OPTIONS)
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert (recording.window_steps, recording.window_ended_by) == (4, WindowEnd.STEPS)


def test_waiting_for_further_sizes_does_not_fill_the_window(tmp_path: Path) -> None:
    # 1,200 events in each step: 4 steps and those before them stay below the limit.
    program = """
(small, large), o = [captured() for _ in range(2)], torch.optim.SGD()
for i in range(60):
    (small if i < 5 else large).replay()
    torch.ALLOCATIONS[0] += 130
    o.step()
"""
    done = run(tmp_path, CAPTURE + program, *OPTIONS)
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert [graph.window_replays > 0 for graph in recording.graphs] == [False, True]
    assert (recording.window_ended_by, recording.window_steps) == (WindowEnd.EVENTS, 4)


def test_a_long_step_does_not_keep_the_window_open(tmp_path: Path) -> None:
    program = """
import time
g, h, o = captured(), captured(), torch.optim.SGD()
for i in range(40):
    g.replay()
    for _ in range(3 if i == 11 else 0):  # a validation
        torch.ALLOCATIONS[0] += 10_000
        time.sleep(0.03)
        h.replay()
    o.step()
"""
    done = run(tmp_path, CAPTURE + program, *OPTIONS)
    assert done.returncode == 0, done.stderr
    _, recording = seen(tmp_path)
    assert (recording.window_ended_by, recording.window_steps) == (WindowEnd.EVENTS, 1)
    assert recording.graphs[1].window_replays < 3


def test_no_window_opens_where_cuda_is_not_used(tmp_path: Path) -> None:
    program = "import torch\no = torch.optim.SGD()\nfor _ in range(60):\n    o.step()\n"
    program += "print(torch.SYNCHRONISED, torch.TEARDOWNS)"
    done = run(tmp_path, program, *OPTIONS)
    assert done.stdout == "[0] []\n"
    _, recording = seen(tmp_path)
    assert recording.window_missing_reason == "the program has not used CUDA"
    assert len(recording.step_ns) == 5


KILLED_LATER = """
import os, pathlib, time
from collectors.program.progress import read_progress
g = captured()
scratch = pathlib.Path(os.environ["GRAPHVIZ_DASH_SCRATCH"])
for count in (200, 201):
    while g._graphviz_dash_counter.replays < count:
        g.replay()
    while not (files := list(scratch.glob("*/counts.bin"))):
        time.sleep(0.01)
    while not (read := read_progress(files[0].parent)) or list(read.replays) != [count]:
        time.sleep(0.01)
os.kill(os.getpid(), 9)
"""


def test_a_killed_process_keeps_everything_that_was_flushed(tmp_path: Path) -> None:
    assert run_apart(tmp_path, CAPTURE + KILLED_LATER, "--steps", "0").returncode == -9
    contents, recording = seen(tmp_path)
    count = 201
    assert recording.graphs[0].replays == count
    assert recording.steps >= count - 1
    assert len(recording.step_ns) == recording.steps - 1
    assert contents.loop is not None
    assert contents.loop.step_count == 1 + count  # and the capture
    assert recording.reached_end is False
    assert contents.manifest.status == "killed"
    absent = {fact.fact: fact.reason for fact in contents.manifest.absent}
    assert absent["complete recording"] == f"its recording has no end: {KILLED}"


def test_a_child_that_is_killed_is_labelled(tmp_path: Path) -> None:
    program = """
import multiprocessing, os, signal

def serve():
    g = captured()
    for _ in range(9):
        g.replay()
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=serve)
    child.start()
    child.join()
"""
    done = run(tmp_path, CAPTURE + program)
    assert done.returncode == 0, done.stderr
    contents, _ = seen(tmp_path)
    assert contents.manifest.status == "killed"
    (failure,) = contents.manifest.failures
    assert failure.message.startswith("the process was killed")
    assert "killed" in done.stderr


def test_a_process_that_leaves_without_exit_handlers_was_not_killed(tmp_path: Path) -> None:
    done = run(tmp_path, CAPTURE + "captured().replay()\nimport os; os._exit(4)")
    assert done.returncode == 4
    contents, recording = seen(tmp_path)
    assert (contents.manifest.status, recording.reached_end) == ("complete", False)


def test_progress_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = ProcessFolder(tmp_path)
    files = ProgressFiles(folder)
    assert read_progress(tmp_path) is None
    files.write(0, [7], None, 2, 0, [2])
    files.write(1, [5, 6], None, 4, 0, [4, 1])
    assert (files.count_times(1), files.count_times(2)) == (2, 0)
    files.write(1, [8], 9, 5, 3, [6, 2])
    progress = read_progress(tmp_path)
    assert progress is not None
    assert msgspec.to_builtins(progress) | {"written_ns": 0} == {
        "written_ns": 0,
        "series": 1,
        "step_ns": [5, 6, 8],
        "drain_ns": 9,
        "steps": 5,
        "dropped_steps": 3,
        "replays": [6, 2],
    }
    with (tmp_path / "steps.bin").open("ab") as cut:
        cut.write(b"cut")
    assert read_progress(tmp_path) == progress
    assert folder.refusals == 0
    # A kill loses at most 0.1 s, with a write and two handovers of Python's lock.
    assert FLUSH_S + 2 * sys.getswitchinterval() <= 0.095
    assert os.listdir(tmp_path / "graphs") == []


def test_a_window_that_closes_in_a_hook_leaves_torchs_hooks_alone(tmp_path: Path) -> None:
    """torch iterates over an ordered dict, which must not change meanwhile."""
    program = """
o = torch.optim.SGD()
calls = []
torch.optim.optimizer.register_optimizer_step_post_hook(lambda *_: calls.append(1))
for _ in range(40):
    o.step()
print(len(calls))
"""
    done = run(tmp_path, CAPTURE + "captured()\n" + program, *OPTIONS)
    assert (done.stdout, done.stderr.count("Error")) == ("40\n", 0), done.stderr


def test_a_recorder_that_keeps_failing_stops(tmp_path: Path) -> None:
    program = """
from collectors.program.steps import StepClock
calls = []
def fail(self, *tick):
    calls.append(tick)
    raise ValueError(tick)
StepClock.handle_tick = fail
g, o = captured(), torch.optim.SGD()
for _ in range(100):
    g.replay()
    o.step()
print(len(calls))
"""
    done = run(tmp_path, CAPTURE + program)
    assert done.stdout == "20\n", done.stderr
    contents, recording = seen(tmp_path)
    assert recording.reached_end is True
    absent = {fact.fact: fact.reason for fact in contents.manifest.absent}
    reason = absent["complete recording"]
    assert reason.startswith("the recorder failed 20 times and stopped, first: ValueError at ")


def test_a_torch_without_cuda_is_not_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUDA", "")
    program = "import torch\nfor _ in range(40):\n    torch.optim.SGD().step()\n"
    done = run(tmp_path, program + "print(len(torch._hooks))")
    assert done.stdout == "0\n"
    assert "this torch was not built for CUDA" in done.stderr
