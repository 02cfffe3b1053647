from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.agreement import HEAD, main

CASES = Path(__file__).parents[1] / "tests" / "cases" / "node-ids"


def test_the_table_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(CASES)]) == 0
    output = capsys.readouterr().out
    assert output.startswith(HEAD)
    assert output.count("100.00%") >= len([*CASES.iterdir()])
    assert len(output.splitlines()) == len(HEAD.splitlines()) + len([*CASES.iterdir()])
