"""The report on capture schemes holds the figures of the shipped experiments, as output."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.capture_schemes import main

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "evaluation" / "reports" / "2026-11-23-capture-schemes.md"


def test_the_page_has_what_the_benchmark_prints(capsys: pytest.CaptureFixture[str]) -> None:
    samples = ROOT / "sample_traces"
    main([str(samples / "capture-schemes"), str(samples / "mlp-train")])
    output = [line for line in capsys.readouterr().out.splitlines() if line]
    assert len(output) > 20
    page = PAGE.read_text(encoding="utf-8").splitlines()
    assert [line for line in output if line not in page] == []
