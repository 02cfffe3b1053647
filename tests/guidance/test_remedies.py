from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from graphviz_dash.guidance.remedies import MissingInput, Remedy, find_remedies
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.run import FileRole, Run

RECORDED = Path(__file__).parents[2] / "sample_traces" / "recorded-resnet"
BEFORE = ("graphviz-dash", "collect", "-o", "mine", "--skip")
PROGRAM = ("--", "python", "train.py", "--steps", "40")


def _recorded(name: str, *, traced: bool = False, **changes: object) -> Run:
    """A recorded run whose program ended before its window, with parts of its recording changed."""
    run = load_run(RECORDED / name, traces=False, check_hashes=False)
    assert run.recording is not None
    files = tuple(
        file for file in run.manifest.files if traced or file.role is not FileRole.REPLAY_TRACE
    )
    manifest = msgspec.structs.replace(
        run.manifest, files=files, command=(*BEFORE, "30", "--steps=5", *PROGRAM)
    )
    recording = msgspec.structs.replace(run.recording, **changes)
    return Run(path=run.path, manifest=manifest, recording=recording)


def test_a_window_is_moved_to_where_the_program_still_runs() -> None:
    (remedy,) = find_remedies(_recorded("eager", steps=30, skip_steps=30, requested_window_steps=5))
    # 26 steps are left for skipping and the window after three to settle in.
    window = ("--skip", "21", "--steps", "5", "--name", "eager-again")
    command = ("graphviz-dash", "collect", "-o", "mine", *window, *PROGRAM)
    assert remedy == Remedy(MissingInput.WINDOW, command)


@pytest.mark.parametrize("output", [("-o", "/tmp/x/mine"), ("--output=/tmp/x/mine",)])
def test_the_folder_of_the_recording_machine_is_not_advised(output: tuple[str, ...]) -> None:
    run = _recorded("eager", steps=30, skip_steps=30, requested_window_steps=5)
    command = ("graphviz-dash", "collect", *output, "--skip", "30", *PROGRAM)
    manifest = msgspec.structs.replace(run.manifest, command=command)
    moved = Run(path=run.path, manifest=manifest, recording=run.recording)
    (remedy,) = find_remedies(moved)
    assert remedy.command is not None
    assert remedy.command[2:4] == (output[0].partition("=")[0], "mine")


def test_steps_count_again_after_a_capture_and_the_window_shrinks() -> None:
    run = _recorded("graphed", steps=20, skip_steps=30, requested_window_steps=5)
    assert run.recording is not None
    late = msgspec.structs.replace(run.recording.graphs[0], step=10, profiled=True)
    (remedy,) = find_remedies(
        _recorded("graphed", steps=20, skip_steps=30, requested_window_steps=5, graphs=(late,))
    )
    assert remedy.command is not None
    assert remedy.command[4:8] == ("--skip", "3", "--steps", "3")
    assert remedy.extra_steps == 0


def test_the_window_of_a_server_is_to_hold_every_size() -> None:
    run = _recorded("graphed", traced=True)
    assert run.recording is not None
    (graph,) = run.recording.graphs
    other = msgspec.structs.replace(graph, graph="graph-1", window_replays=0)
    steps = {"steps": 40 + graph.step, "skip_steps": 20}
    served = _recorded("graphed", traced=True, graphs=(graph, other), window_steps=200, **steps)
    sizes, *_ = find_remedies(served)
    assert sizes.missing_input is MissingInput.SIZES
    assert sizes.command is not None
    assert sizes.command[sizes.command.index("--window-replays") + 1] == "800"
    # A window that ended before its maximum does not become longer with a larger one.
    ended = _recorded("graphed", traced=True, graphs=(graph, other), window_steps=10, **steps)
    assert all(remedy.missing_input is not MissingInput.SIZES for remedy in find_remedies(ended))
    untraced = _recorded("graphed", graphs=(graph, other), **steps)
    window, *_ = find_remedies(untraced)
    assert window.missing_input is MissingInput.WINDOW
    assert window.command is not None
    assert "--window-replays" in window.command


def test_a_program_that_is_too_short_must_run_longer() -> None:
    (remedy,) = find_remedies(_recorded("eager", steps=2, skip_steps=30, requested_window_steps=5))
    assert remedy.command is not None
    assert remedy.command[4:8] == ("--skip", "0", "--steps", "1")
    assert remedy.extra_steps == 3


def test_steps_that_nothing_marks_must_be_marked() -> None:
    assert find_remedies(_recorded("eager", boundary_kind=None)) == (
        Remedy(MissingInput.STEPS, None),
    )


def test_captures_without_lines_are_recorded_with_them() -> None:
    run = _recorded("graphed", traced=True)
    (remedy,) = find_remedies(run)
    assert remedy.missing_input is MissingInput.ATTRIBUTION
    added = ("--name", "graphed-attributed", "--attribute")
    assert remedy.command == (*BEFORE, "30", "--steps=5", *added, *PROGRAM)
    attributed = load_run(RECORDED / "graphed-attributed", traces=False, check_hashes=False)
    assert find_remedies(run, [attributed]) == ()


@pytest.mark.parametrize("name", ["eager", "graphed-attributed"])
def test_a_complete_run_needs_no_remedies(name: str) -> None:
    assert find_remedies(load_run(RECORDED / name, traces=False, check_hashes=False)) == ()
