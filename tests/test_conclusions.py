"""Conclusions from traces that once misled a command: the input, the command and its answer."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fixtures import Invoke, invoke

__all__ = ["invoke"]

CASES = Path(__file__).parent / "cases" / "conclusions"


def place(name: str, folder: Path) -> str:
    """Copy a case, decompressed, to a folder."""
    source = CASES / name
    target = folder / source.name.removesuffix(".gz")
    target.parent.mkdir(parents=True, exist_ok=True)
    data = source.read_bytes()
    target.write_bytes(gzip.decompress(data) if source.suffix == ".gz" else data)
    return str(target)


class Tool:
    def __init__(self, invoke: Invoke, folder: Path) -> None:
        self.invoke = invoke
        self.folder = folder

    def predict(self, name: str) -> dict[str, Any]:
        """The JSON of a prediction; {"error": text} if it is refused."""
        result = self.invoke("predict", place(name, self.folder), "--json")
        if result.code:
            return {"error": " ".join(result.err.split())}
        return dict(json.loads(result.out))

    def show(self, *names: str) -> dict[str, Any]:
        """The JSON of the only run that an import of files writes."""
        files = [place(name, self.folder) for name in names]
        assert self.invoke("import", *files, "-o", str(self.folder / "E")).code == 0
        (run,) = (self.folder / "E").iterdir()
        return dict(json.loads(self.invoke("show", str(run), "--json").out))

    def print(self, command: str, *arguments: str) -> str:
        result = self.invoke(command, *arguments)
        return " ".join((result.out + result.err).split())


@pytest.fixture
def tool(invoke: Invoke, tmp_path: Path) -> Tool:
    return Tool(invoke, tmp_path)


def get_value(document: dict[str, Any], metric: str) -> float | None:
    value = document["metrics"][metric]["value"]
    return None if value is None else float(value)


def get_speedup(document: dict[str, Any]) -> float:
    return float(document["speedup"]["value"])


def list_caveats(document: dict[str, Any]) -> str:
    return json.dumps(document["caveats"])


def test_an_array_of_other_objects_is_no_trace(tool: Tool) -> None:
    printed = tool.print("import", place("trt-profile.json.gz", tool.folder), "-o", "E")
    assert "a TensorRT layer profile, which has no times of starts" in printed


def test_waiting_for_data_is_no_cost_of_a_capture(tool: Tool) -> None:
    document = tool.predict("dataloader-2s.json.gz")
    (capture,) = (p for p in document["one_off"]["parts"] if p["part"] == "capture")
    assert 10_000 < capture["ns"] < 1_000_000


def test_fleet_and_predict_call_waiting_for_data_the_same(tool: Tool) -> None:
    path = place("dataloader-2s.json.gz", tool.folder)
    assert "launch-bound: <0.1% of a trace" in tool.print("fleet", path, "--workers", "1")
    idle = tool.predict("dataloader-2s.json.gz")["idle"]
    shares = {part["cause"]: part["ns"] / idle["total"] for part in idle["parts"]}
    assert shares["waiting for data"] > 0.999
    assert shares["launching"] < 0.001


def test_a_trace_without_steps_predicts_no_step_time(tool: Tool) -> None:
    folder = str(tool.folder / "E")
    for name, mode in (("lightning.json.gz", "eager"), ("lanes.json.gz", "graph")):
        tool.print("import", place(name, tool.folder), "-o", folder, "--mode", mode)
    document = json.loads(tool.invoke("compare", folder, "--json").out)
    metrics = {run["name"]: run["metrics"] for run in document["runs"]}
    assert metrics["lanes"]["predicted_step_time"]["value"] is None
    assert "marks no steps" in metrics["lanes"]["predicted_step_time"]["reason"]


def test_compile_and_show_count_the_same_graph_launches(tool: Tool) -> None:
    document = tool.show("compiled-region.json.gz")
    assert get_value(document, "graph_launches") == 2
    run = str(tool.folder / "E" / "compiled-region")
    assert tool.print("compile", run).startswith("2 graph launches per step.")


def test_collectives_without_an_id_are_complete(tool: Tool) -> None:
    document = tool.show("corr0.json.gz")
    caveats = list_caveats(document)
    assert get_value(document, "kernels") == 10
    assert "counts are complete, but the launches of these kernels are unknown" in caveats
    assert "too low" not in caveats
    assert "GPU itself" not in caveats


def test_a_graph_file_is_not_called_a_trace(tool: Tool) -> None:
    tool.show("small.dot")
    printed = tool.print("show", str(tool.folder / "E" / "small"), "--all")
    assert "imported without a trace" in printed
    assert "under a profiler" not in printed


def test_doubled_marks_are_the_same_steps(tool: Tool) -> None:
    document = tool.show("double-step-threads.json.gz")
    assert get_value(document, "kernels") == 10
    assert "3 traced" in tool.print("show", str(tool.folder / "E" / "double-step-threads"), "--all")


def test_traces_of_other_days_are_other_jobs(tool: Tool) -> None:
    for day in "abc":
        place(f"day-{day}.json.gz", tool.folder / "days")
    printed = tool.print("fleet", str(tool.folder / "days"), "--workers", "1")
    assert printed.count("1 trace read") == 3
    assert "low" not in printed.lower().replace("below", "")


def test_without_cpu_events_no_cpu_activity_is_claimed(tool: Tool) -> None:
    document = tool.predict("gpu-only.json.gz")
    assert [part["cause"] for part in document["idle"]["parts"]] == ["unknown"]
    assert "no CPU events" in document["verdict"]
    assert all(part["part"] != "capture" for part in document["one_off"]["parts"])


def test_replays_without_an_id_are_no_eager_step(tool: Tool) -> None:
    assert "12 of its 12 kernels" in tool.predict("hipgraph-corr0.json.gz")["error"]


def test_lost_records_of_the_last_step_are_no_decision_by_data(tool: Tool) -> None:
    document = tool.predict("last-partial.json.gz")
    assert document["blockers"] == []
    assert get_speedup(document) == pytest.approx(4.65, abs=0.01)
    path = place("last-partial.json.gz", tool.folder)
    assert "Partial: 5 of 60 kernel or graph launches have no GPU work" in tool.print(
        "predict", path
    )


def test_lost_records_of_all_steps_give_no_verdict(tool: Tool) -> None:
    error = tool.predict("lost70.json.gz")["error"]
    assert "42 of 60 kernel or graph launches have no GPU work, and no step is complete" in error
    path = place("lost70.json.gz", tool.folder)
    document = json.loads(tool.invoke("fleet", path, "--json", "--workers", "1").out)
    assert "13.9" not in json.dumps(document)
    assert get_value(tool.show("lost70.json.gz"), "gpu_busy") is None


@pytest.mark.parametrize("name", ["merged-sglang", "merged-aorta"])
def test_merged_ranks_are_separated_by_the_import(tool: Tool, name: str) -> None:
    assert "it merges the traces of 2 processes" in tool.predict(f"{name}.json.gz")["error"]
    folder = tool.folder / "E"
    path = place(f"{name}.json.gz", tool.folder)
    assert tool.invoke("import", path, "-o", str(folder)).code == 0
    runs = sorted(folder.iterdir())
    assert len(runs) == 2
    for run in runs:
        document = json.loads(tool.invoke("show", str(run), "--json").out)
        assert (get_value(document, "kernels"), get_value(document, "copies")) == (10, 1)
        prediction = json.loads(tool.invoke("predict", str(run), "--json").out)
        assert get_speedup(prediction) == pytest.approx(4.65, abs=0.01)


def test_graphs_as_a_whole_are_no_kernels(tool: Tool) -> None:
    caveats = list_caveats(tool.show("nsight-whole-graphs.sqlite.gz"))
    assert "3 kernels, 0 copies, 0 sets, 2 graphs traced as a whole, 5 launches" in caveats
    (run,) = (tool.folder / "E").iterdir()
    printed = tool.print("show", str(run), "--all")
    assert "2 graph launches as single units (40 nodes each, by the capture)" in printed


def test_one_graph_launch_leaves_the_prediction_of_the_rest(tool: Tool) -> None:
    document = tool.predict("one-graph.json.gz")
    assert any("4 of 224 kernels" in text for text in document["warnings"])
    printed = tool.print("predict", place("one-graph.json.gz", tool.folder))
    assert "Partial: 4 of 224 kernels, memcpys and memsets (1.8%) come from graph" in printed


def test_files_of_one_name_are_named_by_their_folders(tool: Tool) -> None:
    files = []
    for rank in ("rank0", "rank1"):
        source = Path(place(f"{rank}.json.gz", tool.folder / rank))
        files.append(str(source.rename(source.with_name("trace.json"))))
    assert tool.invoke("import", *files, "-o", str(tool.folder / "E")).code == 0
    assert sorted(run.name for run in (tool.folder / "E").iterdir()) == ["rank0", "rank1"]


def test_a_snapshot_has_its_own_moment(tool: Tool) -> None:
    document = tool.show("snapshot.pickle")
    values = [get_value(document, metric) for metric in ("allocated", "reserved", "peak_reserved")]
    assert values == [4 << 20, 20 << 20, 20 << 20]
    printed = tool.print("show", str(tool.folder / "E" / "snapshot"))
    assert "Allocated memory 4.00 MiB" in printed


def test_threads_of_two_processes_are_not_mixed(tool: Tool) -> None:
    document = tool.predict("workers.json.gz")
    assert document["blockers"] == []
    assert get_speedup(document) == pytest.approx(4.65, abs=0.01)


def test_work_without_a_time_is_lost(tool: Tool) -> None:
    document = tool.show("ts0.json.gz")
    caveats = list_caveats(document)
    text = "4 of 30 kernel and graph launches have no GPU work in the trace, so the total GPU time"
    assert text in caveats
    assert "clocks differ" not in caveats
    target = tool.folder / "perfetto.json"
    tool.print("export", "perfetto", str(tool.folder / "E"), "-o", str(target))
    events = json.loads(target.read_text())["traceEvents"]
    ends = [event["ts"] + event.get("dur", 0) for event in events if event["ph"] == "X"]
    assert max(ends) - min(event["ts"] for event in events if event["ph"] == "X") < 10_000


def test_a_launch_means_the_same_on_a_page(tool: Tool) -> None:
    document = tool.show("norecords.json.gz")
    caveats = list_caveats(document)
    assert get_value(document, "launches") == 2
    assert "4 launches (2 of kernels, 2 of copies and sets)" in caveats
    assert "2 of 2" not in caveats


def test_each_gpu_has_its_own_share(tool: Tool) -> None:
    caveats = list_caveats(tool.show("two-devices.json.gz"))
    for gpu in (0, 1):
        assert f"10 kernels on GPU {gpu} (busy 20.5%)" in caveats
    assert "its work runs on 2 GPUs" in tool.predict("two-devices.json.gz")["error"]


def test_backslashes_of_windows_paths_end_nothing(tool: Tool) -> None:
    assert get_speedup(tool.predict("backslash.json.gz")) == pytest.approx(4.65, abs=0.01)
    assert get_value(tool.show("backslash.json.gz"), "kernels") == 10
