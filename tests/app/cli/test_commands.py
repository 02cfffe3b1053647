from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.recorded_figures import RELATIVE_RECORDED_METRICS
from graphviz_dash.analysis.comparison.relative_metrics import (
    COMPILE_METRICS,
    PREDICTED_METRICS,
    RELATIVE_METRICS,
    WATERFALL_METRICS,
)
from graphviz_dash.app.cli.serve import build_server_command, check_port_free
from graphviz_dash.app.hosting import launch
from graphviz_dash.errors import InputError, MissingRequirementError
from graphviz_dash.ingest.cache import TraceCache
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.narrative import experiment
from graphviz_dash.narrative.headline import build_headline
from tests.builders import TraceBuilder
from tests.cli.fixtures import Invoke
from tests.samples import SAMPLES


class TestLs:
    def test_a_damaged_bundle_is_listed_and_told(self, folder: Path, invoke: Invoke) -> None:
        (folder / "sample_traces/mlp-train/graph/clean.json").write_text("{}")
        result = invoke("ls", "sample_traces")
        assert result.code == 2
        assert "unreadable" in result.out
        assert "sample_traces/sync-in-step" in result.out
        (line,) = result.err.splitlines()
        assert "/sample_traces/mlp-train/graph/clean.json: 2 bytes; " in line
        document = json.loads(invoke("ls", "sample_traces", "--json").out)
        (damaged,) = document["experiments"][0]["unreadable"]
        assert damaged["path"] == "sample_traces/mlp-train/graph"

    def test_no_experiments(self, tmp_path: Path, invoke: Invoke) -> None:
        result = invoke("ls", str(tmp_path))
        assert (result.code, result.out) == (0, "")
        assert result.err == f"No experiments under {tmp_path}\n"
        assert json.loads(invoke("ls", str(tmp_path), "--json").out)["experiments"] == []

    def test_a_program_that_its_launcher_began_alone_is_no_rank(self, invoke: Invoke) -> None:
        # Rank 0 of 1, as their manifests say.
        alone, several = SAMPLES / "recorded-megatron", SAMPLES / "tp-transformer"
        assert " rank " not in invoke("ls", str(alone)).out
        shown = invoke("show", str(alone / "local")).out
        assert "ranks " not in shown
        assert "rank 0" not in shown
        assert "eager rank 1" in invoke("ls", str(several)).out
        about = replace(load_experiment(several, traces=False), description=None)
        assert experiment.describe_experiment(about).startswith(
            "The workload tp-transformer on 2 ranks: "
        )

    @pytest.mark.usefixtures("folder")
    def test_its_numbers_are_those_of_compare(self, invoke: Invoke) -> None:
        listed = json.loads(invoke("ls", "sample_traces", "--json").out)["experiments"][0]
        compared = json.loads(invoke("compare", "sample_traces/mlp-train", "--json").out)
        for run, other in zip(listed["runs"], compared["runs"], strict=True):
            for metric, figure in run["metrics"].items():
                assert figure == other["metrics"][metric]


class TestCompare:
    def test_its_numbers_are_those_of_the_analysis(self, folder: Path, invoke: Invoke) -> None:
        path = folder / "sample_traces" / "mlp-train"
        document = json.loads(invoke("compare", str(path), "--json").out)
        result = compare_runs(load_experiment(path))
        assert document["headline"] == build_headline(result)
        for run in result.runs:
            (found,) = [one for one in document["runs"] if one["name"] == run.name]
            assert {name: one["value"] for name, one in found["metrics"].items()} == {
                figure.metric.id: figure.value for figure in run.metrics
            }

    @pytest.mark.usefixtures("folder")
    def test_show_has_the_figures_that_need_no_baseline(self, invoke: Invoke) -> None:
        compared = json.loads(invoke("compare", "sample_traces/mlp-train", "--json").out)
        shown = json.loads(invoke("show", "sample_traces/mlp-train/graph", "--json").out)
        expected = compared["runs"][1]["metrics"]
        assert shown["metrics"] == {
            name: figure
            for name, figure in expected.items()
            if name
            not in (
                *RELATIVE_METRICS,
                *COMPILE_METRICS,
                *WATERFALL_METRICS,
                *PREDICTED_METRICS,
                *RELATIVE_RECORDED_METRICS,
            )
        }


class TestValidate:
    def test_the_others_are_still_checked(self, folder: Path, invoke: Invoke) -> None:
        trace = folder / "sample_traces/mlp-train/eager/traces/replay.json.gz"
        trace.write_bytes(trace.read_bytes()[:-1] + b"x")
        result = invoke("validate", "sample_traces")
        assert result.code == 2
        assert "FAILED  sample_traces/mlp-train/eager\n" in result.out
        assert "ok      sample_traces/mlp-train/graph: " in result.out
        assert "3 of 4 bundles are complete and readable\n" in result.out
        assert "1 of 1 recordings of launch costs are complete and readable\n" in result.out
        (line,) = result.err.splitlines()
        assert "/sample_traces/mlp-train/eager/traces/replay.json.gz: sha256" in line

    def test_a_whole_bundle_with_an_unreadable_trace(self, folder: Path, invoke: Invoke) -> None:
        # Its hash is right: it was written like that.
        from tests.bundle.examples import write_bundle

        bundle = write_bundle(folder / "odd" / "graph")
        result = invoke("validate", str(bundle))
        assert result.code in (0, 2)
        assert ("FAILED" in result.out) == (result.code == 2)

    @pytest.mark.parametrize("path", ["sample_traces/launch-h200", "{}/launch.json"])
    def test_a_recording_of_launch_costs(self, folder: Path, invoke: Invoke, path: str) -> None:
        given = path.format("sample_traces/launch-h200")
        result = invoke("validate", given)
        assert (result.code, result.err) == (0, "")
        first, last = result.out.splitlines()
        assert first.startswith(f"ok      {given}: launch costs, format version 1, complete, ")
        assert last == "1 of 1 recordings of launch costs are complete and readable"
        recording = folder / "sample_traces/launch-h200/launch.json"
        recording.write_bytes(recording.read_bytes().replace(b'"trials"', b'"trails"'))
        result = invoke("validate", given)
        assert result.code == 2
        assert result.out.splitlines()[0] == f"FAILED  {given}"
        assert "trails" in result.err


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


class TestServe:
    @pytest.mark.usefixtures("folder")
    def test_a_taken_port_is_one_line_with_another(self, taken_port: int, invoke: Invoke) -> None:
        result = invoke("serve", "sample_traces", "--port", str(taken_port))
        assert (result.code, result.out) == (1, "")
        assert result.err == (
            f"Error: Cannot serve on 127.0.0.1:{taken_port}: Address already in use. Choose "
            f"another port: graphviz-dash serve --port {taken_port % 65535 + 1}\n"
        )

    def test_an_address_that_is_none(self) -> None:
        with pytest.raises(InputError, match=r"--host no\.such\.host\.invalid"):
            check_port_free("no.such.host.invalid", 8501)
        with pytest.raises(MissingRequirementError, match="Cannot serve on 192"):
            check_port_free("192.0.2.1", 8501)

    def test_the_command(self, tmp_path: Path) -> None:
        command = build_server_command("0.0.0.0", 9000, (tmp_path,))
        assert command[:5] == [sys.executable, "-P", "-m", launch.__name__, "run"]
        assert Path(command[5]).parts[-3:] == ("graphviz_dash", "app", "main.py")
        assert command[-2:] == ["--", str(tmp_path)]
        assert "9000" in command


class TestCache:
    def test_it_shows_and_clears(
        self, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "kept"
        monkeypatch.setenv("GRAPHVIZ_DASH_CACHE", str(folder))
        assert f"0 B of at most 4.00 GiB in {folder}" in invoke("cache").out
        trace = TraceBuilder()
        trace.op("aten::add", 0, 10)
        path = trace.write(tmp_path / "mine.json")
        TraceCache(folder).store("a" * 40, read_trace(path))
        assert "mine.json" in invoke("cache").out
        assert f"removed from {folder}" in invoke("cache", "--clear").out
        assert "mine.json" not in invoke("cache").out

    def test_off(self, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GRAPHVIZ_DASH_CACHE", "off")
        assert invoke("cache").out == "The cache is off\n"
