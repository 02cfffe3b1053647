from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from graphviz_dash.bundle.baseline import read_baseline
from graphviz_dash.features.gate.markdown import format_code_span
from tests.cli.fixtures import FAILURE, Invoke
from tests.experiments import make_run

TOY = "sample_traces/mlp-train"


@pytest.fixture
def baseline(folder: Path, invoke: Invoke) -> Path:
    result = invoke("gate", TOY, "--write-baseline", "baseline.json")
    assert (result.code, result.out) == (0, "baseline.json\n")
    return folder / "baseline.json"


@pytest.fixture
def slow(folder: Path) -> Path:
    """The experiment of the baseline, its graph 20% slower."""
    make_run(folder / "slow", "eager", workload="mlp-train", traced=5)
    make_run(folder / "slow", "graph", workload="mlp-train", wall_ns=120_000, traced=5)
    return folder / "slow"


class TestExitCodes:
    def test_nothing_changed(self, baseline: Path, invoke: Invoke) -> None:
        for place in (str(baseline), TOY):
            result = invoke("gate", TOY, "--baseline", place)
            assert result.code == 0
            assert "passed" in result.out.splitlines()[0]

    def test_a_noisy_figure_has_the_word_of_the_summary(self, invoke: Invoke) -> None:
        out = invoke("gate", TOY, "--baseline", TOY).out
        head, *rows = out.splitlines()
        assert "(16 inconclusive)" in head
        assert sum(row.endswith("inconclusive") for row in rows) == 16
        document = json.loads(invoke("gate", TOY, "--baseline", TOY, "--json").out)
        assert document["version"] == 3
        verdicts = [metric["verdict"] for metric in document["metrics"]]
        assert verdicts.count("inconclusive") == 16

    def test_a_regression(self, baseline: Path, slow: Path, invoke: Invoke) -> None:
        result = invoke("gate", str(slow), "--baseline", str(baseline))
        assert result.code == 1
        assert result.err == ""
        assert result.out.startswith("slow: failed, 2 of 11 metrics regressed by more than 5%")
        allowed = invoke("gate", str(slow), "--baseline", str(baseline), "--max-regression", "30%")
        assert allowed.code == 0

    def test_a_failed_run(self, baseline: Path, folder: Path, invoke: Invoke) -> None:
        make_run(folder / "bad", "eager", workload="mlp-train", traced=5)
        make_run(folder / "bad", "graph", workload="mlp-train", failure=FAILURE)
        result = invoke("gate", "bad", "--baseline", str(baseline))
        assert result.code == 1
        assert "operation not permitted when stream is capturing" in result.out

    @pytest.mark.parametrize(
        "arguments",
        [
            (TOY,),
            (TOY, "--baseline", "x", "--write-baseline", "y"),
            (TOY, TOY, "--baseline", "x"),
            (TOY, "--write-baseline", "y", "--json"),
            (TOY, "--baseline", TOY, "--json", "--summary", "-"),
            (TOY, "--baseline", TOY, "--max-regression", "much"),
            (TOY, "--baseline", TOY, "--max-regression", "-5%"),
            (TOY, "--baseline", TOY, "--max-regression", "nan"),
            (TOY, "--baseline", "missing.json"),
            (TOY, "--write-baseline", "no/such/folder/b.json"),
            (TOY, "--write-baseline", "b.json.gz"),
            ("sample_traces/sync-in-step", "--baseline", TOY),
        ],
    )
    def test_contradictory_arguments_are_an_error(
        self, folder: Path, arguments: tuple[str, ...], invoke: Invoke
    ) -> None:
        result = invoke("gate", *arguments)
        assert result.code == 2
        assert "Traceback" not in result.err


class TestBaselineFile:
    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "expected a file of format graphviz-dash-baseline"),
            (b"\xff\xfe", "expected a file of format"),
            (b"[" * 100_000, "expected a file of format"),
            (b'{"format":"other","version":1}', "format 'other'"),
            (b'{"format":"graphviz-dash-baseline","version":3}', "Install a newer graphviz-dash"),
            (b'{"format":"graphviz-dash-baseline","version":1}', "missing required field"),
        ],
    )
    def test_an_invalid_baseline_is_one_line(
        self, folder: Path, content: bytes, said: str, invoke: Invoke
    ) -> None:
        (folder / "b.json").write_bytes(content)
        result = invoke("gate", TOY, "--baseline", "b.json")
        assert result.code == 2
        assert said in result.err
        assert len(result.err.splitlines()) == 1

    def test_no_recording(self, baseline: Path, invoke: Invoke) -> None:
        empty = msgspec.structs.replace(read_baseline(baseline), recordings=())
        baseline.write_bytes(msgspec.json.encode(empty))
        assert "no recording" in invoke("gate", TOY, "--baseline", str(baseline)).err

    def test_a_field_of_another_type(self, baseline: Path, invoke: Invoke) -> None:
        document = json.loads(baseline.read_text())
        document["recordings"][0]["runs"][0]["series"]["step_time"][0] = -1
        baseline.write_text(json.dumps(document))
        result = invoke("gate", TOY, "--baseline", str(baseline))
        assert result.code == 2
        assert "series" in result.err

    def test_it_holds_every_iteration(self, baseline: Path) -> None:
        (recording,) = read_baseline(baseline).recordings
        eager, graph = recording.runs
        assert len(eager.series["step_time"]) == 21
        assert graph.counts == {"peak_reserved": 128 << 20, "launches": 1, "graph_nodes": 11}
        assert eager.absent["graph_nodes"] == "mode eager captures no graph"
        assert "no measured limits" in eager.absent["time_above_limit"]


class TestSummary:
    def test_a_table_for_a_pull_request(
        self, baseline: Path, slow: Path, invoke: Invoke, folder: Path
    ) -> None:
        result = invoke("gate", str(slow), "--baseline", str(baseline), "--summary", "s.md")
        assert result.code == 1
        text = (folder / "s.md").read_text()
        assert text.startswith(
            "### ❌ CUDA graph gate: failed, 2 of 11 metrics regressed by more than 5%"
        )
        rows = [line for line in text.splitlines() if line.startswith("| `")]
        assert len(rows) == 11
        assert rows[0].startswith("| `graph` | Step time | 100 µs | 120 µs | +20% | ")
        assert rows[0].endswith("| ❌ worse |")
        printed = invoke("gate", str(slow), "--baseline", str(baseline), "--summary", "-")
        assert (printed.out, printed.code) == (text, 1)

    def test_json(self, baseline: Path, slow: Path, invoke: Invoke) -> None:
        result = invoke("gate", str(slow), "--baseline", str(baseline), "--json")
        document = json.loads(result.out)
        assert (result.code, document["passed"], document["limit"]) == (1, False, 0.05)
        worse = [one["metric"] for one in document["metrics"] if one["verdict"] == "worse"]
        assert worse == ["step_time", "step_interval"]

    def test_names_are_text(self, folder: Path, invoke: Invoke) -> None:
        name = "a|b` @everyone <img src=x>\x1b[31m"
        make_run(folder / "odd", "graph", name=name)
        text = invoke("gate", "odd", "--baseline", "odd", "--summary", "-").out
        row = next(line for line in text.splitlines() if "Step time" in line)
        assert row.startswith(r"| `` a\|b` @everyone <img src=x>\x1b[31m `` | Step time |")

    @pytest.mark.parametrize(
        ("text", "span"),
        [
            ("graph", "`graph`"),
            ("a`b``c", "``` a`b``c ```"),
            ("a|b", "`a|b`"),
            (" \n ", "`(empty)`".replace("(empty)", r"\n")),
            ("", "`(empty)`"),
            ("x" * 400, f"`{'x' * 299}…`"),
        ],
    )
    def test_code_spans(self, text: str, span: str) -> None:
        assert format_code_span(text) == span
