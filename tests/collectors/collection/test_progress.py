from __future__ import annotations

from pathlib import Path

import pytest

from collectors.collection.cli import ProgressPrinter
from collectors.collection.progress import format_kept_runs, get_first_line
from collectors.collection.ranks import RankContext
from graphviz_dash.model.run import ExecutionMode, Failure, Pass

SECOND = RankContext(1, 2, 1, 2, "localhost", 29500, True, 0)


def test_the_runs_of_an_interrupted_collection() -> None:
    kept = format_kept_runs(Path("x"), (Path("x/eager"),), ExecutionMode.GRAPH)
    assert kept == "Kept in x: eager; nothing of graph was written."
    assert format_kept_runs(Path("x"), (), ExecutionMode.EAGER) == "Nothing was kept in x."


def test_the_first_line_of_a_failure() -> None:
    failure = Failure(Pass.CAPTURE, "ValueError", "had \x1b[31menough\nof it", "model.py:3", "tb")
    assert get_first_line(failure) == "had \\x1b[31menough"


def test_only_what_failed_is_told_by_every_rank(capsys: pytest.CaptureFixture[str]) -> None:
    report = ProgressPrinter(SECOND)
    # A folder of that name was once taken for a failure.
    report("Removed what failed before.staging")
    report("[2/7] graph: capture pass failed at model.py:3", is_failure=True)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "rank 1: [2/7] graph: capture pass failed at model.py:3"
