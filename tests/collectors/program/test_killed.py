from __future__ import annotations

import signal
import sys
import textwrap
from pathlib import Path

import pytest

from graphviz_dash.bundle.read import read_bundle
from tests.collectors.program.recorded import CAPTURE, run, run_apart, run_forked, seen

REPLAYS = 40
KILLED_AT = """
    import os, sys, time

    scratch, kept = os.environ["GRAPHVIZ_DASH_SCRATCH"], []
    log = open("log", "a", buffering=1)

    def watch(event, arguments):
        if event not in ("open", "os.rename") or not str(arguments[0]).startswith(scratch):
            return
        name = str(arguments[1] if event == "os.rename" else arguments[0]).rpartition("/")[2]
        name = name.rstrip("0123456789").rstrip(".")  # without the thread that writes it
        kept.append(name)
        if kept.count(name) == TIMES and name == "NAME":
            os.kill(os.getpid(), 9)

    g = captured()
    sys.addaudithook(watch)
    for i in range(REPLAYS):
        log.write(f"{i}\\n")
        g.replay()
        time.sleep(0.002)
    time.sleep(0.2)
""".replace("REPLAYS", str(REPLAYS))


@pytest.mark.parametrize(
    ("name", "times", "has_trace"),
    [
        (".recording.json", 1, False),  # the first flush is not complete
        ("recording.json", 2, None),
        ("loop.bin", 1, None),
        ("part-trace.json", 1, False),  # between the end of the window and its saving
        ("trace.json", 1, False),  # the trace is written, and not in place
        ("counts.bin", 1, None),
    ],
)
def test_a_program_killed_at_any_write_leaves_what_was_flushed(
    tmp_path: Path, name: str, times: int, has_trace: bool | None
) -> None:
    program = textwrap.dedent(KILLED_AT.replace("NAME", name).replace("TIMES", str(times)))
    ended = run_apart(tmp_path, CAPTURE + program, "--skip", "5", "--steps", "4")
    assert ended.returncode == -signal.SIGKILL, f"{name} was never written: {ended.stderr}"
    begun = len((tmp_path / "log").read_text().split())
    contents, recording = seen(tmp_path)
    assert contents.manifest.status == "killed"
    assert "the process was killed; missing are" in ended.stderr
    # The flush of a busy machine may be earlier or later than the window.
    assert has_trace is None or (contents.replay_trace is not None) == has_trace
    (graph,) = recording.graphs
    assert graph.replays <= begun <= REPLAYS
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["recorded"]


TWO_RUNS = """
    import os
    g = captured()
    g.replay()
    if not os.fork():
        h = captured()
        h.replay()
        raise SystemExit
    os.wait()
"""
KILL_WHILE_SAVING = """
import os, signal, sys
from collectors.program import bundle
from graphviz_dash.app.cli.main import main

write, done = bundle.write_run, []

def write_and_die(*arguments):
    if len(done) == WRITTEN:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(1)
    return write(*arguments)

bundle.write_run = write_and_die
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("written", [0, 1])
def test_a_command_killed_while_it_saves_loses_and_repeats_nothing(
    tmp_path: Path, written: int
) -> None:
    (tmp_path / "train.py").write_text(CAPTURE + textwrap.dedent(TWO_RUNS))
    code = KILL_WHILE_SAVING.replace("WRITTEN", str(written))
    command = ["collect", "-o", "out", "--", sys.executable, "train.py"]
    killed = run_forked(tmp_path, code, *command)
    assert killed.returncode == -signal.SIGKILL
    output = tmp_path / "out"
    assert len([path for path in output.iterdir() if path.name[0] != "."]) == written
    last = run(tmp_path, CAPTURE + "captured()\n", "--name", "last")
    assert last.stderr.count("Recorded, although its command was killed") == 2 - written
    assert sorted(path.name for path in output.iterdir()) == ["last", "recorded", "recorded-2"]
    for name in ("recorded", "recorded-2"):
        assert read_bundle(output / name).recording is not None
