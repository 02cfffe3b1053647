from __future__ import annotations

from pathlib import Path

import pytest

from collectors.collection.cli import ProgressPrinter
from collectors.collection.progress import (
    Event,
    ImportRepeated,
    Interrupted,
    LeftoverRemoved,
    NumberedPass,
    ObserverFailed,
    PassDone,
    PassFailed,
    PassStarted,
    format_event,
    is_failure,
)
from collectors.collection.ranks import RankContext
from graphviz_dash.bundle.staging import AbandonedFolder
from graphviz_dash.model.observers import Observer
from graphviz_dash.model.run import ExecutionMode, Failure, Pass

NUMBERED = NumberedPass(2, 7, ExecutionMode.GRAPH, Pass.CAPTURE)
FAILURE = Failure(Pass.CAPTURE, "ValueError", "had \x1b[31menough\nof it", "model.py:3", "tb")
SECOND = RankContext(1, 2, 1, 2, "localhost", 29500, True, 0)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (PassStarted(NUMBERED), "[2/7] graph: capture pass …"),
        (
            PassStarted(NumberedPass(2, 9, ExecutionMode.EAGER, Pass.CLEAN, (2, 5))),
            "[2/9] eager: clean pass, process 2 of 5 …",
        ),
        (PassDone(NUMBERED, 1.26), "[2/7] graph: capture pass done in 1.3 s"),
        (
            PassFailed(NUMBERED, FAILURE),
            "[2/7] graph: capture pass failed at model.py:3: had \\x1b[31menough",
        ),
        (
            ObserverFailed(ExecutionMode.GRAPH, Observer.EVENTS, FAILURE),
            "graph: CUDA events failed: had \\x1b[31menough",
        ),
        (
            LeftoverRemoved(AbandonedFolder(Path("x/.old.staging"), 2048)),
            "Removed .old.staging (2.00 KiB), left by a killed collector",
        ),
        (
            ImportRepeated("initialises CUDA"),
            "Each pass imports the workload's module, because its import initialises CUDA: "
            "collecting takes longer",
        ),
        (
            Interrupted(Path("x"), (Path("x/eager"),), ExecutionMode.GRAPH),
            "Kept in x: eager; nothing of graph was written.",
        ),
        (Interrupted(Path("x"), (), ExecutionMode.EAGER), "Nothing was kept in x."),
    ],
)
def test_the_line_of_an_event(event: Event, line: str) -> None:
    assert format_event(event) == line


def test_only_what_failed_is_told_by_every_rank(capsys: pytest.CaptureFixture[str]) -> None:
    speaker = ProgressPrinter(SECOND)
    # A folder of that name was once taken for a failure.
    removed = LeftoverRemoved(AbandonedFolder(Path("what failed before.staging"), 0))
    for event in (PassStarted(NUMBERED), removed, PassFailed(NUMBERED, FAILURE)):
        speaker.print_event(event)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rank 1: [2/7] graph: capture pass failed")
    assert not is_failure(removed)
