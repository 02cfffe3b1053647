from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.units import format_bytes
from tests.cli.fixtures import Invoke
from tests.experiments import make_experiment
from tests.loops import make_segmented, make_server, traffic
from tests.samples_once import SAMPLES


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("service")
    make_server(folder, requests=[*traffic(600, 32), *[40] * 10])
    return folder


def test_the_best_sizes(service: Path, invoke: Invoke) -> None:
    result = invoke("ladder", str(service), "--list", "2")
    assert result.code == 0
    assert (
        "6 graphs in 1 family, 600 steps replayed, 10 steps without a matching graph" in result.out
    )
    assert re.search(r"6 sizes → 6 sizes: .* µs \([\d.]+%\) less GPU time per request", result.out)
    assert (
        "A request of 33, one above the largest graph, takes 4.00 ms without a graph" in result.out
    )
    assert "recommended sizes were never timed" in result.out
    assert "2 of 6 by size" in result.out


def test_a_run_is_taken_too(service: Path, invoke: Invoke) -> None:
    assert invoke("ladder", str(service / "recorded")).out == invoke("ladder", str(service)).out


def test_json(service: Path, invoke: Invoke) -> None:
    document = json.loads(invoke("ladder", str(service), "--graphs", "3", "--json").out)
    advice = document["advice"]
    assert len(advice["best"]["sizes"]) == 3
    assert advice["lower_bound"] == advice["best"]["time"]
    assert advice["ceiling"]["requests_above"] == 10
    assert [count for count, _ in advice["by_count"][:3]] == [0, 1, 2]


def test_sizes_from_elsewhere(service: Path, invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "evening.txt"
    file.write_text("8 100\n16 100\n")
    result = invoke("ladder", str(service), "--traffic", str(file))
    assert "Recommended sizes: 8, 16\n" in result.out
    assert result.out.startswith("6 sizes → 2 sizes without measurable loss: ")
    document = json.loads(invoke("ladder", str(service), "--traffic", str(file), "--json").out)
    assert document["traffic"] == "evening.txt"


@pytest.mark.parametrize(
    ("sample", "option"),
    [
        (
            "recorded-vllm",
            "  --cudagraph-capture-sizes 1 2 4 8 16 24 32 40 48 56 64 304 544 784 1024",
        ),
        (
            "recorded-sglang",
            "  --cuda-graph-bs 1 2 4 8 12 16 24 32 40 48 --cuda-graph-max-bs 48",
        ),
    ],
)
def test_the_options_to_paste_follow_the_answer(invoke: Invoke, sample: str, option: str) -> None:
    lines = invoke("ladder", str(SAMPLES / sample)).out.splitlines()
    assert lines[0].startswith("Graphs for ")
    # The answer has five lines of 80 columns; the option is never folded.
    assert lines.index(option) == 5


def test_a_set_has_one_memory_with_and_without_a_budget(invoke: Invoke) -> None:
    def read(*options: str) -> dict[str, Any]:
        out = invoke("ladder", str(SAMPLES / "recorded-sglang"), "--json", *options).out
        advice: dict[str, Any] = json.loads(out)["advice"]
        return advice

    memory: dict[tuple[int, ...], int] = {}
    for limit in (None, 24 << 20, 10 << 20, 3 << 20):
        advice = read(*(() if limit is None else ("--memory", str(limit))))
        for name in ("current", "best", "smallest"):
            use = advice[name]
            assert memory.setdefault(tuple(use["sizes"]), use["memory"]) == use["memory"]
            assert name == "current" or limit is None or use["memory"] <= limit
        saved = advice["current"]["memory"] - advice["smallest"]["memory"]
        assert f": {format_bytes(saved)} and " in advice["sentence"]
        assert len(advice["smallest"]["sizes"]) <= len(advice["best"]["sizes"])
    assert len(memory) > 4


def test_missing_advice_has_a_reason(invoke: Invoke, tmp_path: Path) -> None:
    make_segmented(tmp_path)
    result = invoke("ladder", str(tmp_path))
    assert result.code == 0
    assert "No recommendation: the sizes of the family's graphs are unknown." in result.out


def test_unknown_names_and_folders_are_errors(
    service: Path, invoke: Invoke, tmp_path: Path
) -> None:
    assert "expected one of decode" in invoke("ladder", str(service), "--family", "x").err
    assert "expected one of recorded" in invoke("ladder", str(service), "--run", "x").err
    result = invoke("ladder", str(make_experiment(tmp_path / "mlp")))
    assert result.code == 2
    assert "expected a recorded program with graphs" in result.err
    assert "no such folder" in invoke("ladder", str(tmp_path / "absent")).err
    (tmp_path / "trace.json").write_text("{}")
    assert "a file; expected" in invoke("ladder", str(tmp_path / "trace.json")).err


def test_graphs_are_compared_by_their_keys(service: Path, invoke: Invoke) -> None:
    run = service / "recorded"
    named = invoke("diff", f"{run}:decode, batch 8", f"{run}:decode, batch 16")
    assert named.out == invoke("diff", f"{run}:graph-2", f"{run}:graph-1").out
    assert "tall_gemm" in named.out
