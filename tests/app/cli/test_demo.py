from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.app.cli import demo
from tests.cli.fixtures import Invoke

SAMPLES = Path(__file__).parents[3] / "sample_traces"


def test_the_samples_are_served(monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    served: list[tuple[tuple[Path, ...], demo.ServeOptions]] = []
    monkeypatch.setattr(demo, "serve_folders", lambda *arguments: served.append(arguments))
    assert invoke("demo", "--port", "9000").code == 0
    ((folders, reach),) = served
    assert folders == (SAMPLES,)
    assert (reach.host, reach.port) == ("127.0.0.1", 9000)


def test_without_samples_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.setattr(demo, "find_sample_experiments", lambda: None)
    result = invoke("demo")
    assert (result.code, result.out) == (1, "")
    assert "graphviz-dash serve PATH" in result.err
