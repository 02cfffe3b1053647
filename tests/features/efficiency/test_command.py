from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from graphviz_dash.features.efficiency.analysis.ceilings_choice import (
    CeilingsChoice,
    CeilingsOrigin,
)
from graphviz_dash.features.efficiency.analysis.programmatic import ProgrammaticEdges
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    GroupKey,
    measure_items,
)
from graphviz_dash.features.efficiency.text import print_efficiency
from graphviz_dash.model.graph import GraphEdge
from tests.cli.fixtures import Invoke
from tests.features.efficiency.steps import StepBuilder, make_ceilings, tensor
from tests.samples_once import SAMPLES

CASES = Path(__file__).parents[2] / "cases"
RUN = str(SAMPLES / "gpt-train" / "graph")


@pytest.fixture
def limits(tmp_path: Path) -> str:
    file = tmp_path / "limits.json"
    file.write_bytes(msgspec.json.encode(make_ceilings("NVIDIA H200")))
    return str(file)


def test_brief(invoke: Invoke, limits: str) -> None:
    result = invoke("efficiency", RUN, "--limits", limits)
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert len(lines) <= 40
    text = " ".join(line.strip() for line in lines)
    assert text.startswith("The graph spends ")
    assert "within 20% of the hardware limit; " in text
    assert "Limits of NVIDIA H200, read from a file: device memory 1.99 TB/s" in text
    assert "Predicted savings per replay" in text


def test_a_kernel_that_does_not_wait_is_in_the_brief_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    step = StepBuilder()
    step.add("nvjet_tst", 3_000, "mm", tensor(64, 64), tensor(64, 64))
    report = measure_items(tuple(step.items), CeilingsChoice(make_ceilings(), CeilingsOrigin.FILE))
    assert isinstance(report, EfficiencyReport)
    audit = ProgrammaticEdges(1, 0, 200.0, 0, 0.0)
    for without_wait in ((), (GraphEdge(0, 1),)):
        programmatic = replace(audit, without_wait=without_wait)
        print_efficiency(
            replace(report, programmatic=programmatic), GroupKey.OPERATOR, None, everything=False
        )
        text = " ".join(capsys.readouterr().out.split())
        assert ("1 second kernel without griddepcontrol.wait" in text) is bool(without_wait)


def test_everything_lists_each_call(invoke: Invoke, limits: str) -> None:
    result = invoke("efficiency", RUN, "--limits", limits, "--all", "--by", "module")
    assert result.code == 0
    assert "Time above the limit by module" in result.out
    assert "Gpt.layers.0.attention" in result.out
    assert result.out.count("aten::") >= 80


def test_json_adds_up(invoke: Invoke, limits: str) -> None:
    document = json.loads(invoke("efficiency", RUN, "--limits", limits, "--json").out)
    assert document["schema"] == "graphviz-dash/efficiency"
    assert document["limits"]["origin"] == "read from a file"
    assert sum(call["time"] for call in document["calls"]) == pytest.approx(document["time"])
    assert sum(group["excess"] for group in document["by_line"]) == pytest.approx(
        document["above_limit"]
    )
    assert document["advice"]
    for advice in document["advice"]:
        assert advice["saving_low"] <= advice["saving"] <= advice["saving_high"]


def test_without_limits(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "graphviz_dash.features.efficiency.analysis.ceilings_choice.load_shipped_ceilings",
        lambda: (),
    )
    result = invoke("efficiency", RUN)
    assert result.code == 0
    assert "Limits are unknown" in result.out
    assert "graphviz-dash bench limits" in result.out
    assert "\nTime by operator\n" in result.out


def test_a_trace_of_an_eager_step(invoke: Invoke, limits: str) -> None:
    trace = str(SAMPLES / "recorded-resnet" / "eager" / "traces" / "replay.json.gz")
    result = invoke("efficiency", trace, "--limits", limits)
    assert result.code == 0, result.err
    # Without shapes, "within 20% of the limit" would be a statement about 20 µs.
    assert result.out.startswith("1.76 ms of 1.78 ms per step have no known limit: ")


def test_a_trace_alone_has_the_limits_of_its_gpu_model(invoke: Invoke) -> None:
    result = invoke("efficiency", str(CASES / "eager-shapes-h100.json.gz"))
    assert result.code == 0, result.err
    assert result.out.startswith("The step spends ")
    assert "measured on another GPU of the same model" in " ".join(result.out.split())


def test_a_recorded_graph_without_operators_shows_how_to_record_them(invoke: Invoke) -> None:
    result = invoke("efficiency", str(SAMPLES / "recorded-decoder" / "frugal"))
    text = " ".join(result.out.split())
    assert "For source lines and shapes of its nodes, record it again: python -m " in text
    assert "--attribute" in text


def test_several_graphs_are_weighted_by_their_replays(invoke: Invoke) -> None:
    result = invoke("efficiency", str(SAMPLES / "gpt-wide" / "partial"))
    text = " ".join(result.out.split())
    assert "Graphs, per step" in text
    single = invoke("efficiency", str(SAMPLES / "gpt-wide" / "partial"), "--graph", "graph-9")
    assert "Graphs, per step" not in single.out


def test_a_trace_without_replays_is_the_reason(invoke: Invoke) -> None:
    result = invoke("efficiency", str(SAMPLES / "recorded-sglang" / "default-sizes"))
    assert result.code == 2
    assert "the traced steps replay none of the captured graphs" in result.err
    # The gain over eager steps is another question.
    assert "--disable-cuda-graph" not in result.err


def test_an_unknown_graph(invoke: Invoke) -> None:
    result = invoke("efficiency", RUN, "--graph", "graph-9")
    assert result.code == 2
    assert "one of graph-0" in result.err


def test_a_run_without_a_trace(invoke: Invoke) -> None:
    result = invoke("efficiency", str(SAMPLES / "moved-inputs" / "doctor"))
    assert result.code == 2
