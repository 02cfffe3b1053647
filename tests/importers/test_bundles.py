from __future__ import annotations

import gzip
import json
import pickle
import shutil
from pathlib import Path

import pytest

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.nodes.node_table import build_table
from graphviz_dash.analysis.ranks.ranks import group_rank_families
from graphviz_dash.analysis.replays.replays import match_replays
from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.errors import InputError
from graphviz_dash.features.torch_compile.analysis.report import build_compile_report
from graphviz_dash.importers.bundles import ImportedRun, import_files
from graphviz_dash.importers.group import get_common_name, strip_extensions
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.ingest.load import load_experiment, load_run
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.compile_rules import CompileRuleId
from graphviz_dash.model.run import ExecutionMode, Experiment, Run
from graphviz_dash.narrative.low_confidence import describe_low_confidence
from tests.experiments import replay_trace
from tests.ingest.formats.test_debug_dot import VERBOSE
from tests.ingest.formats.test_graph_data import DATA
from tests.ingest.formats.test_memory_snapshot import SNAPSHOT
from tests.ingest.formats.test_nsight import graph_level
from tests.ingest.nsight_report import node_level
from tests.trace_builder import TraceBuilder


def capture(path: Path, kernels: tuple[str, ...] = ("fill", "gemm")) -> Path:
    trace = TraceBuilder()
    trace.runtime("cudaStreamBeginCapture", 1_000, 500)
    for place, name in enumerate(kernels):
        at = 2_000 + 1_000 * place
        trace.runtime("cudaLaunchKernel", at + 100, 300, external_id=trace.op(name, at, 900))
    trace.runtime("cudaStreamEndCapture", 90_000, 500)
    return trace.write(path)


def replay(
    path: Path, kernels: tuple[str, ...] = ("fill", "gemm"), rank: int | None = None
) -> Path:
    trace = TraceBuilder()
    if rank is not None:
        trace.fields["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    for step in range(3):
        at = step * 100_000
        trace.annotation(f"ProfilerStep#{step}", at, 90_000)
        correlation = trace.runtime("cudaGraphLaunch", at + 1_000, 500)
        for place, name in enumerate(kernels):
            trace.kernel(name, at + 5_000 + 1_000 * place, 500, correlation=correlation)
    return trace.write(path)


def reasons(imported: ImportedRun) -> dict[str, str]:
    return {fact.fact: fact.reason for fact in imported.absent}


class TestOneTrace:
    def test_a_bundle_that_loads(self, tmp_path: Path) -> None:
        file = replay(tmp_path / "step.pt.trace.json.gz")
        (found,) = import_files([file], tmp_path / "out", command=["graphviz-dash", "import"])
        run = load_run(found.path)
        assert run.name == "step"
        assert run.manifest.mode is ExecutionMode.RECORDED
        assert run.manifest.workload.traced_iterations == 3
        assert run.manifest.environment.gpu_name == "an unknown GPU"  # no compute capability
        assert run.manifest.environment.cuda_runtime == "13.0"
        assert run.manifest.sources == found.sources
        assert run.replay_trace is not None
        assert run.replay_trace.gpu.height == 6
        assert "profiler overhead" in reasons(found)["clean pass"]

    def test_its_bytes_are_untouched(self, tmp_path: Path) -> None:
        file = replay(tmp_path / "step.json.gz")
        (found,) = import_files([file], tmp_path / "out")
        assert (found.path / "traces/replay.json.gz").read_bytes() == file.read_bytes()

    def test_plain_json_is_compressed(self, tmp_path: Path) -> None:
        file = tmp_path / "step.json"
        file.write_bytes(gzip.decompress(replay(tmp_path / "step.json.gz").read_bytes()))
        (found,) = import_files([file], tmp_path / "out")
        kept = (found.path / "traces/replay.json.gz").read_bytes()
        assert gzip.decompress(kept) == file.read_bytes()

    def test_mode_as_told(self, tmp_path: Path) -> None:
        file = replay(tmp_path / "step.json.gz")
        (found,) = import_files([file], tmp_path / "out", mode=ExecutionMode.EAGER)
        assert load_run(found.path).mode is ExecutionMode.EAGER

    def test_a_truncated_one_says_so(self, tmp_path: Path) -> None:
        file = replay(tmp_path / "step.json.gz")
        whole = gzip.decompress(file.read_bytes())
        (tmp_path / "cut.json").write_bytes(whole[: len(whole) * 2 // 3])
        (found,) = import_files([tmp_path / "cut.json"], tmp_path / "out")
        assert [problem.code for problem in load_run(found.path).completeness_problems] == [
            "cut-off"
        ]


class TestJoined:
    def test_capture_and_replay(self, tmp_path: Path) -> None:
        files = [capture(tmp_path / "m-capture.json.gz"), replay(tmp_path / "m-replay.json.gz")]
        (found,) = import_files(files, tmp_path / "out")
        assert "no debug DOT was imported" in reasons(found)["dependencies between nodes"]
        run = load_run(found.path)
        table = build_table(run, "graph-0")
        assert [row.origin.op for row in table.rows] == ["fill", "gemm"]
        assert [row.times.samples for row in table.rows] == [3, 3]

    def test_with_the_debug_dot_its_topology_counts(self, tmp_path: Path) -> None:
        (tmp_path / "m.dot").write_text(VERBOSE)
        files = [
            capture(tmp_path / "m-capture.json.gz"),
            replay(tmp_path / "m-replay.json.gz"),
            tmp_path / "m.dot",
        ]
        (found,) = import_files(files, tmp_path / "out")
        run = load_run(found.path)
        assert [len(graph.nodes) for graph in run.graphs] == [4]
        assert "dependencies between nodes" not in reasons(found)
        assert "programmatic" in reasons(found)["types of edges"]

    def test_other_names_are_other_runs(self, tmp_path: Path) -> None:
        files = [replay(tmp_path / "a.json.gz"), replay(tmp_path / "b.json.gz", ("other",))]
        assert [one.path.name for one in import_files(files, tmp_path / "out")] == ["a", "b"]
        assert len(load_experiment(tmp_path / "out").runs) == 2

    def test_two_replays_of_one_name_are_apart(self, tmp_path: Path) -> None:
        files = [replay(tmp_path / "m-replay.json.gz"), replay(tmp_path / "m-trace.json.gz")]
        found = import_files(files, tmp_path / "out")
        assert [one.path.name for one in found] == ["m-replay", "m-trace"]

    def test_whatever_they_are_called(self, tmp_path: Path) -> None:
        files = [capture(tmp_path / "one.json.gz"), replay(tmp_path / "two.json.gz")]
        (found,) = import_files(files, tmp_path / "out", join=True)
        assert len(load_run(found.path).graphs) == 1

    def test_files_of_no_other_name_are_called_after_their_folder(self, tmp_path: Path) -> None:
        folder = tmp_path / "mlp" / "traces"
        folder.mkdir(parents=True)
        files = [capture(folder / "capture.json.gz"), replay(folder / "replay.json.gz")]
        (found,) = import_files(files, tmp_path / "out")
        assert found.path.name == "mlp"

    def test_of_several_captures_the_one_that_is_replayed(self, tmp_path: Path) -> None:
        folder = tmp_path / "capture_traces"
        folder.mkdir()
        files = [
            replay(tmp_path / "decode.json.gz", ("fill", "gemm")),
            capture(folder / "bs_16.json.gz", ("fill", "gemm", "more")),
            capture(folder / "bs_32.json.gz", ("fill", "gemm")),
        ]
        (found,) = import_files(files, tmp_path / "out")
        assert [source.name for source in found.sources] == ["decode.json.gz", "bs_32.json.gz"]
        assert reasons(found)["other captures"].endswith(": bs_16.json.gz")
        assert "capture pass" not in reasons(found)
        table = build_table(load_run(found.path), "graph-0")
        assert [row.origin.op for row in table.rows] == ["fill", "gemm"]

    def test_all_captures_that_are_replayed_are_kept(self, tmp_path: Path) -> None:
        folder = tmp_path / "capture_traces"
        folder.mkdir()
        decode = TraceBuilder()
        sizes = (("fill", "gemm"), ("fill", "wide", "gemm"))
        for step, kernels in enumerate(sizes * 2):
            at = step * 100_000
            correlation = decode.runtime("cudaGraphLaunch", at + 1_000, 500)
            for place, name in enumerate(kernels):
                decode.kernel(name, at + 5_000 + 1_000 * place, 500, correlation=correlation)
        files = [
            decode.write(tmp_path / "decode.json.gz"),
            capture(folder / "bs_16.json.gz", sizes[0]),
            capture(folder / "bs_32.json.gz", sizes[1]),
            capture(folder / "bs_64.json.gz", ("fill", "gemm", "other", "more")),
        ]
        (found,) = import_files(files, tmp_path / "out")
        assert reasons(found)["other captures"].endswith(": bs_64.json.gz")
        run = load_run(found.path)
        assert [(graph.id, graph.capture_trace_index) for graph in run.graphs] == [
            ("graph-0", 0),
            ("graph-1", 1),
        ]
        assert [trace.runtime.height for trace in run.capture_traces] == [4, 5]
        assert run.replay_trace is not None
        matched = match_replays(run.graphs, run.replay_trace)
        assert matched.graph.tolist() == [0, 0, 1, 1, 1] * 2
        for graph, kernels in zip(run.graphs, sizes, strict=True):
            table = build_table(run, graph.id)
            assert [row.origin.op for row in table.rows] == list(kernels)

    def test_two_of_the_same_cannot_be_joined(self, tmp_path: Path) -> None:
        files = [replay(tmp_path / "a.json.gz"), replay(tmp_path / "b.json.gz")]
        with pytest.raises(InputError, match="two traces of replays"):
            import_files(files, tmp_path / "out", join=True)

    def test_ranks_are_a_group_whatever_their_files_are_called(self, tmp_path: Path) -> None:
        names = ("worker0_step_12.1694128201545.pt.trace", "dlrm_rank1")
        files = [
            replay(tmp_path / f"{name}.json.gz", rank=number) for number, name in enumerate(names)
        ]
        import_files(files, tmp_path / "out")
        (group,) = group_rank_families(load_experiment(tmp_path / "out")).values()
        assert [run.manifest.rank for run in group] == [0, 1]

    def test_jobs_that_say_the_same_are_told_by_their_names(self, tmp_path: Path) -> None:
        files = [replay(tmp_path / f"{job}.json.gz", rank=0) for job in "ab"]
        import_files(files, tmp_path / "out")
        found = group_rank_families(load_experiment(tmp_path / "out"))
        assert [name.rpartition(": ")[2] for name in found] == ["a", "b"]

    def test_an_import_keeps_the_time_of_the_recording(self, tmp_path: Path) -> None:
        (found,) = import_files([replay(tmp_path / "step.json.gz")], tmp_path / "out")
        manifest = load_run(found.path).manifest
        assert manifest.recorded_at is not None
        assert manifest.recorded_at.startswith("2026-11-21T")
        assert manifest.recorded_or_created_at == manifest.recorded_at

    def test_ranks_are_told_by_the_traces(self, tmp_path: Path) -> None:
        files = [replay(tmp_path / f"r{rank}.json.gz", rank=rank) for rank in range(2)]
        found = import_files(files, tmp_path / "out")
        assert [one.path.name for one in found] == ["r0-rank0", "r1-rank1"]
        manifest = load_run(found[1].path).manifest
        assert manifest.rank == 1
        assert manifest.group is not None
        assert manifest.group.world_size == 2

    def test_graph_data_matches_by_id(self, tmp_path: Path) -> None:
        data = tmp_path / "m-graph.json"
        data.write_text(json.dumps(DATA))
        trace = TraceBuilder()
        correlation = trace.runtime("cudaGraphLaunch", 1_000, 500)
        # Not in the order of the graph.
        for at, node, name in ((5_000, 7, "gemm"), (6_000, 4, "fill(float*)")):
            trace.kernel(
                *(name, at, 500),
                correlation=correlation,
                grid=(8, 2, 1),
                graph_id=9,
                graph_node_id=node,
            )
        files = [data, trace.write(tmp_path / "m-replay.json.gz")]
        (found,) = import_files(files, tmp_path / "out")
        table = build_table(load_run(found.path), "graph-0")
        assert [row.times.method for row in table.rows] == [
            "graph node id",
            *["none"] * 2,
            "graph node id",
            "none",
        ]


class TestOtherSources:
    def test_a_dot_alone(self, tmp_path: Path) -> None:
        (tmp_path / "graph.dot").write_text(VERBOSE)
        (found,) = import_files([tmp_path / "graph.dot"], tmp_path / "out")
        assert found.path.name == "graph"
        run = load_run(found.path)
        assert (run.replay_trace, len(run.graphs)) == (None, 1)
        assert reasons(found)["traced pass"] == "no replay trace was imported"

    def test_two_dots_of_one_run_are_two_graphs(self, tmp_path: Path) -> None:
        for name in ("m-graph.dot", "m.dot"):
            (tmp_path / name).write_text(VERBOSE)
        files = [tmp_path / "m-graph.dot", tmp_path / "m.dot"]
        (found,) = import_files(files, tmp_path / "out")
        assert [graph.id for graph in load_run(found.path).graphs] == ["graph-0", "graph-1"]

    def test_an_nsight_report(self, tmp_path: Path) -> None:
        file = node_level().write(tmp_path / "report.sqlite")
        (found,) = import_files([file], tmp_path / "out")
        run = load_run(found.path)
        assert run.manifest.environment.gpu is not None
        assert run.manifest.environment.gpu.name == "NVIDIA H200"
        assert found.sources[0].name == "report.sqlite"
        assert "to a Kineto trace" in (found.sources[0].method or "")

    def test_a_report_at_graph_level_says_what_it_does_not_show(self, tmp_path: Path) -> None:
        file = graph_level().write(tmp_path / "report.sqlite")
        (found,) = import_files([file], tmp_path / "out")
        assert reasons(found)["kernels within graphs"] == (
            "the report traced 1 graph launch as single units; record it with "
            "--cuda-graph-trace=node to see their kernels"
        )

    def test_graphs_traced_as_a_whole_are_no_kernels(self, tmp_path: Path) -> None:
        report = graph_level()
        report.call("cudaStreamBeginCapture_v10000", 100, 1, 50)
        for number in range(3):
            report.call("cudaLaunchKernel_v7000", 200 + 100 * number, 2 + number, 50)
        report.call("cudaStreamEndCapture_v10000", 600, 6, 50)
        (found,) = import_files([report.write(tmp_path / "report.sqlite")], tmp_path / "out")
        assert (
            "as single units (3 nodes each, by the capture)"
            in (reasons(found)["kernels within graphs"])
        )
        run = load_run(found.path)
        assert run.replay_trace is not None
        (step,) = find_steps(run.replay_trace)
        assert (step.kernels, step.whole_graphs, step.graph_launches) == (0, 1, 1)
        caveats = find_low_confidence(run)
        assert "0 kernels, 0 copies, 0 sets, 1 graph traced as a whole" in caveats["no-steps"]
        assert "--cuda-graph-trace=node" in caveats["unseen-graphs"]

    @pytest.mark.parametrize("pickled", [True, False])
    def test_a_memory_snapshot(self, tmp_path: Path, pickled: bool) -> None:
        file = tmp_path / "mem"
        file.write_bytes(pickle.dumps(SNAPSHOT) if pickled else json.dumps(SNAPSHOT).encode())
        (found,) = import_files([file], tmp_path / "out")
        memory = load_run(found.path).memory
        assert memory is not None
        assert memory.reserved_bytes == 170
        assert found.sources[0].kind == "torch.cuda.memory snapshot"

    def test_no_trace_means_no_times(self, tmp_path: Path) -> None:
        file = tmp_path / "graph.pickle"
        file.write_bytes(pickle.dumps(DATA))
        (found,) = import_files([file], tmp_path / "out")
        absent = {row.fact: row.reason for row in load_run(found.path).manifest.absent}
        assert absent[Fact.CLEAN_PASS] == "imported without a trace, so there are no timings"

    def test_pickled_graph_data(self, tmp_path: Path) -> None:
        file = tmp_path / "graph.pickle"
        file.write_bytes(pickle.dumps(DATA))
        (found,) = import_files([file], tmp_path / "out")
        assert len(load_run(found.path).graphs[0].nodes) == 5


class TestRefused:
    def test_nothing_is_written_if_one_file_is_bad(self, tmp_path: Path) -> None:
        (tmp_path / "bad.txt").write_text("hello")
        with pytest.raises(InputError, match="unknown kind"):
            import_files([replay(tmp_path / "a.json.gz"), tmp_path / "bad.txt"], tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_a_run_that_is_there_already(self, tmp_path: Path) -> None:
        file = replay(tmp_path / "a.json.gz")
        import_files([file], tmp_path / "out")
        with pytest.raises(InputError, match="the run already exists"):
            import_files([file], tmp_path / "out")

    def test_two_of_one_name(self, tmp_path: Path) -> None:
        for folder in ("x", "y"):
            (tmp_path / folder).mkdir()
        files = [replay(tmp_path / folder / "a.json.gz") for folder in ("x", "y")]
        names = [run.path.name for run in import_files(files, tmp_path / "out")]
        assert names == ["x", "y"]

    def test_two_of_one_name_in_folders_of_one_name(self, tmp_path: Path) -> None:
        for folder in ("1/x", "2/x"):
            (tmp_path / folder).mkdir(parents=True)
        files = [replay(tmp_path / folder / "a.json.gz") for folder in ("1/x", "2/x")]
        with pytest.raises(InputError, match="two files of this name"):
            import_files(files, tmp_path / "out")

    def test_limits_are_those_of_the_caller(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="limit events"):
            import_files([replay(tmp_path / "a.json.gz")], tmp_path / "o", limits=Limits(events=3))


@pytest.mark.parametrize(
    ("name", "shorter", "common"),
    [
        ("mi300-vllm-piecewise-capture.json.gz", "mi300-vllm-piecewise-capture",
         "mi300-vllm-piecewise"),
        ("train.pt.trace.json", "train", "train"),
        ("train_graph.dot.gz", "train_graph", "train"),
        ("capture.json", "capture", ""),
        ("recapture-5.json", "recapture-5", "recapture-5"),
    ],
)  # fmt: skip
def test_names(name: str, shorter: str, common: str) -> None:
    assert strip_extensions(Path(name)) == shorter
    assert get_common_name(Path(name)) == common


def test_the_samples_of_other_tests_import_too(tmp_path: Path) -> None:
    """A trace of our own collector keeps its marked steps."""
    file = replay_trace().write(tmp_path / "own.json.gz")
    (found,) = import_files([file], tmp_path / "out")
    assert load_run(found.path).manifest.workload.traced_iterations == 3


def find_low_confidence(run: Run) -> dict[str, str]:
    result = compare_runs(Experiment(run.path.parent, (run,)))
    notes = describe_low_confidence(result[run.name].low_confidence)
    return {note.code: f"{note.text} {note.advice}" for note in notes}


ROOT = Path(__file__).parents[2]
TRACE = ROOT / "sample_traces" / "mlp-train" / "compile" / "traces" / "replay.json.gz"
LOGS = ROOT / "tests" / "ingest" / "formats" / "compile_logs"
NAME = "dedicated_log_torch_trace_ab12.log"


def test_a_log_joins_the_trace_in_its_folder(tmp_path: Path) -> None:
    trace = Path(shutil.copy(TRACE, tmp_path / "train.json.gz"))
    log = Path(shutil.copy(LOGS / "torch-2.13.log", tmp_path / NAME))
    (imported,) = import_files([trace, log], tmp_path / "out")
    run = load_run(imported.path)
    assert run.compilation is not None
    assert run.compilation.torch == "2.13.0+cpu"
    report = build_compile_report(run)
    assert not isinstance(report, Missing)
    # The trace's region 0/0 is the log's compilation 0/0.
    (frame,) = [box for box in report.tree.walk() if box.id == "frame 0/0"]
    assert ("calls per step", "1") in frame.facts
    assert frame.line is not None
    assert frame.line.text == "steps.py:6"
    rules = {cause.rule for cause in report.causes}
    assert {CompileRuleId.VALUE_READ, CompileRuleId.RECOMPILING} <= rules


def test_a_log_of_another_name_is_a_run_of_its_own(tmp_path: Path) -> None:
    trace = Path(shutil.copy(TRACE, tmp_path / "train.json.gz"))
    log = Path(shutil.copy(LOGS / "torch-2.11.log", tmp_path / "other.log"))
    imported = import_files([trace, log], tmp_path / "out")
    assert sorted(run.path.name for run in imported) == ["other.log", "train"]


def test_two_logs_and_one_trace_are_not_guessed_at(tmp_path: Path) -> None:
    trace = Path(shutil.copy(TRACE, tmp_path / "train.json.gz"))
    logs = [
        Path(
            shutil.copy(LOGS / f"torch-{version}.log", tmp_path / f"dedicated_log_torch_trace_{n}")
        )
        for n, version in enumerate(("2.11", "2.13"))
    ]
    runs = [load_run(run.path) for run in import_files([trace, *logs], tmp_path / "out")]
    assert len(runs) == 3
    assert not any(run.replay_trace is not None and run.compilation is not None for run in runs)
