from __future__ import annotations

import gzip
import io
import itertools
import json
import pickle
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from graphviz_dash.analysis.nodes.whole_graph import expand_graph
from graphviz_dash.bundle.baseline import read_baseline
from graphviz_dash.bundle.calibration import read_calibration, write_calibration
from graphviz_dash.bundle.ceilings import read_ceilings, write_ceilings
from graphviz_dash.bundle.launch import read_launch, write_launch
from graphviz_dash.bundle.read import read_node_names
from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.exports.tables import write_table
from graphviz_dash.features.gate.gate import build_baseline
from graphviz_dash.features.gate.markdown import write_baseline
from graphviz_dash.features.graph.dot_export import export_dot
from graphviz_dash.features.perfetto.trace.chrome import export_chrome
from graphviz_dash.features.perfetto.trace.perfetto import export_perfetto
from graphviz_dash.features.ranks.fleet_import import read_fleet, write_fleet
from graphviz_dash.importers.archives import unpack_experiment
from graphviz_dash.importers.bundles import import_files
from graphviz_dash.ingest import cache
from graphviz_dash.ingest.cache import TraceCache, open_trace
from graphviz_dash.ingest.formats import debug_dot, graph_data
from graphviz_dash.ingest.formats.registry import read_foreign
from graphviz_dash.ingest.kineto.merged import separate_processes
from graphviz_dash.ingest.kineto.trace_head import read_head
from graphviz_dash.ingest.limits import DEFAULT_LIMITS
from graphviz_dash.ingest.load import (
    load_experiment,
    load_outlines,
    load_run,
    load_without_graphs,
)
from graphviz_dash.ingest.traffic import read_traffic
from graphviz_dash.model.trace import Trace
from tests.analysis.launches import lines, recording
from tests.analysis.predictions import CALIBRATION
from tests.analysis.trace.integrity_traces import make_events, write_events
from tests.builders import TraceBuilder, make_experiment
from tests.faults import (
    Countdown,
    each_in_turn,
    failing_allocation,
    failing_change,
    failing_read,
    files_of_at_most,
)
from tests.features.efficiency.steps import make_ceilings
from tests.fuzz.readers import DOT, GRAPH, LOGS, SNAPSHOT, database
from tests.importers.fleets import fleet_of, rank
from tests.ingest.kineto.test_merged import relabel
from tests.ledgers import write_server
from tests.ui.state.test_uploads import packed

STRIDE = 5
"""Every fifth place of the larger loaders fails, which takes seconds; 1 tries all."""


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (debug_dot, graph_data):
        monkeypatch.setattr(module, "demangle_names", lambda names: {name: name for name in names})


def small_trace() -> bytes:
    trace = TraceBuilder()
    for step in range(2):
        trace.annotation(f"ProfilerStep#{step}", step * 100_000, 90_000)
        trace.op("aten::mul", step * 100_000, 9_000, dims=[[4, 4]], types=["float"])
        launch = trace.runtime("cudaLaunchKernel", step * 100_000 + 1_000, 3_000)
        trace.kernel("mul", step * 100_000 + 8_000, 5_000, correlation=launch)
    return trace.text().encode()


FOREIGN = {
    "trace.json": small_trace,
    "trace.json.gz": lambda: gzip.compress(small_trace()),
    "graph.dot": DOT.encode,
    "graph.json": lambda: json.dumps(GRAPH).encode(),
    "snapshot.json": lambda: json.dumps(SNAPSHOT).encode(),
    "torch-trace.log": (LOGS / "torch-2.11.log").read_bytes,
    "graph.pickle": lambda: pickle.dumps(GRAPH, 4),
    "report.sqlite": database,
}


def contents(path: Path, scratch: Path) -> str:
    """Read a foreign file as text that is equal for equal content."""
    return "\n".join(map(_words, read_foreign(path, scratch)))


def _words(content: object) -> str:
    trace = getattr(content, "trace", None)
    if isinstance(trace, Trace):
        return f"{trace.info} {trace.gpu.rows()} {trace.runtime.rows()} {trace.ops.rows()}"
    return repr(content)


@pytest.mark.parametrize("name", FOREIGN)
def test_each_read_of_a_foreign_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FOREIGN[name]())
    read = partial(contents, path, tmp_path)
    whole = read()
    errors = [outcome for outcome in each_in_turn(failing_read, read) if outcome != whole]
    assert len(errors) > 3
    for error in errors:
        # The file of a report may be the trace into which it was converted.
        assert str(error).startswith(str(tmp_path))
        assert ": input/output error; expected" in str(error)
    assert read() == whole


@pytest.mark.parametrize("name", FOREIGN)
def test_each_allocation_for_a_foreign_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FOREIGN[name]())
    read = partial(contents, path, tmp_path)
    whole = read()
    every = STRIDE if name.startswith(("trace", "report", "torch-trace")) else 1
    outcomes = each_in_turn(failing_allocation, read, every=every)
    errors = [outcome for outcome in outcomes if outcome != whole]
    assert len(errors) > 5
    for error in errors:
        assert isinstance(error, InputError)
        assert "memory" in str(error)
        assert "\n" not in str(error)
    assert read() == whole


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_experiment(tmp_path / "toy") / "graph"


def run_words(run: Path) -> str:
    loaded = load_run(run)
    traces = [trace and trace.gpu.rows() for trace in (loaded.capture_trace, loaded.replay_trace)]
    return f"{loaded.manifest} {loaded.graphs} {loaded.clean} {traces}"


def test_each_read_of_a_bundle(run: Path) -> None:
    read = partial(run_words, run)
    whole = read()
    errors = [outcome for outcome in each_in_turn(failing_read, read) if outcome != whole]
    assert len(errors) > 10
    assert all(isinstance(error, InputError) and str(run) in str(error) for error in errors)
    assert read() == whole


def test_each_allocation_for_a_bundle(run: Path) -> None:
    read = partial(run_words, run)
    whole = read()
    outcomes = each_in_turn(failing_allocation, read, every=2 * STRIDE)
    errors = [outcome for outcome in outcomes if outcome != whole]
    assert len(errors) > 10
    assert all(isinstance(error, InputError | MemoryError) for error in errors)
    assert read() == whole


@pytest.mark.parametrize(
    ("failing", "every"),
    [(failing_read, 1), (failing_change, 1), (failing_allocation, STRIDE)],
    ids=["read", "change", "memory"],
)
def test_a_cache_that_fails_costs_time_only(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: Callable[[int], AbstractContextManager[Countdown]],
    every: int,
) -> None:
    monkeypatch.setattr(cache, "MIN_CACHED_EVENTS", 1)
    path = tmp_path / "trace.json"
    path.write_bytes(small_trace())

    def kernels() -> list[tuple[object, ...]]:
        return open_trace(path, cache=TraceCache(tmp_path / "cache")).gpu.rows()

    whole = kernels()
    for outcome in each_in_turn(failing, kernels, every=every):
        assert outcome == whole or isinstance(outcome, InputError | MemoryError)
    assert kernels() == whole


def write_merged(folder: Path) -> Path:
    events = relabel(make_events(), "TP00") + relabel(make_events(), "TP01")
    return write_events(events, folder / "merged.json")


READERS: dict[str, Callable[[Path], Callable[[], object]]] = {}


def reader(
    prepare: Callable[[Path], Callable[[], object]],
) -> Callable[[Path], Callable[[], object]]:
    READERS[prepare.__name__] = prepare
    return prepare


@reader
def launches(folder: Path) -> Callable[[], object]:
    write_launch(folder, recording(*lines(lambda nodes: 2_000 + nodes)))
    return lambda: repr(read_launch(folder))


@reader
def traffic(folder: Path) -> Callable[[], object]:
    (folder / "traffic.txt").write_text("1\n16 20\n")
    return lambda: read_traffic(folder / "traffic.txt").tolist()


@reader
def ceilings(folder: Path) -> Callable[[], object]:
    write_ceilings(folder / "limits.json", make_ceilings())
    return lambda: read_ceilings(folder / "limits.json")


@reader
def calibration(folder: Path) -> Callable[[], object]:
    write_calibration(folder / "c.json", CALIBRATION)
    return lambda: read_calibration(folder / "c.json")


@reader
def baseline(folder: Path) -> Callable[[], object]:
    write_baseline(build_baseline([load_experiment(make_experiment(folder / "toy"))]), folder / "b")
    return lambda: read_baseline(folder / "b")


@reader
def experiment_without_graphs(folder: Path) -> Callable[[], object]:
    path = make_experiment(folder / "toy")
    return lambda: repr(load_without_graphs(path))


@reader
def outlines(folder: Path) -> Callable[[], object]:
    path = make_experiment(folder / "toy")
    return lambda: repr(load_outlines(path))


@reader
def node_names(folder: Path) -> Callable[[], object]:
    path = make_experiment(folder / "toy") / "graph"
    return lambda: repr(read_node_names(path, ["graph-0"]))


@reader
def archive(folder: Path) -> Callable[[], object]:
    content = packed(make_experiment(folder / "toy")).read()

    def unpack() -> list[str]:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            unpack_experiment(io.BytesIO(content), Path(scratch) / "toy", "toy.zip")
            return sorted(files(Path(scratch)))

    return unpack


@reader
def ledger(folder: Path) -> Callable[[], object]:
    path = write_server(folder / "toy")
    return lambda: repr(load_run(path))


@reader
def merged_ranks(folder: Path) -> Callable[[], object]:
    path = write_merged(folder)

    def separate() -> list[tuple[str, int]]:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            parts = separate_processes(path, Path(scratch), DEFAULT_LIMITS)
            return [(part.label, part.path.stat().st_size) for part in parts]

    return separate


@reader
def trace_head(folder: Path) -> Callable[[], object]:
    (folder / "trace.json").write_bytes(small_trace())
    return lambda: read_head(folder / "trace.json")


@reader
def fleet(folder: Path) -> Callable[[], object]:
    (folder / "kept").mkdir()
    rank(folder / "traces", 0)
    write_fleet(fleet_of(folder / "traces"), folder / "kept")
    return lambda: repr(read_fleet(folder / "kept"))


@pytest.mark.parametrize(
    ("failing", "every"), [(failing_read, 1), (failing_allocation, 2)], ids=["read", "memory"]
)
@pytest.mark.parametrize("name", READERS)
def test_each_reader_is_complete_or_refuses_in_one_line(
    tmp_path: Path,
    name: str,
    failing: Callable[[int], AbstractContextManager[Countdown]],
    every: int,
) -> None:
    read = READERS[name](tmp_path)
    whole = read()
    before = files(tmp_path)
    if name == "archive" and every > 1:
        every = STRIDE * STRIDE
    outcomes = list(each_in_turn(failing, read, every=every))
    assert outcomes
    for outcome in outcomes:
        assert outcome == whole or isinstance(outcome, InputError | MemoryError)
        assert "\n" not in str(outcome) or outcome == whole
    assert read() == whole
    assert files(tmp_path) == before


WRITERS: dict[str, Callable[[Path], Callable[[Path], object]]] = {}


def writer(
    prepare: Callable[[Path], Callable[[Path], object]],
) -> Callable[[Path], Callable[[Path], object]]:
    WRITERS[prepare.__name__] = prepare
    return prepare


@writer
def importing(inputs: Path) -> Callable[[Path], object]:
    sources = [inputs / name for name in ("trace.json", "graph.dot", "report.sqlite")]
    for source in sources:
        source.write_bytes(FOREIGN[source.name]())
    return lambda folder: import_files(sources, folder)


@writer
def importing_merged_ranks(inputs: Path) -> Callable[[Path], object]:
    path = write_merged(inputs)
    return lambda folder: import_files([path], folder)


@writer
def recording_a_ledger(_: Path) -> Callable[[Path], object]:
    return write_server


@writer
def unpacking(inputs: Path) -> Callable[[Path], object]:
    archive = packed(make_experiment(inputs / "toy"))

    def unpack(folder: Path) -> None:
        with ExitStack() as failed:
            failed.callback(shutil.rmtree, folder)  # as its caller does
            unpack_experiment(archive, folder, "toy.zip")
            failed.pop_all()

    return unpack


@writer
def exporting_perfetto(inputs: Path) -> Callable[[Path], object]:
    experiment = load_experiment(make_experiment(inputs / "toy"))
    return lambda folder: export_perfetto(experiment, folder / "a.pftrace")


@writer
def exporting_perfetto_compressed(inputs: Path) -> Callable[[Path], object]:
    experiment = load_experiment(make_experiment(inputs / "toy"))
    return lambda folder: export_perfetto(experiment, folder / "a.pftrace.gz")


@writer
def exporting_chrome(inputs: Path) -> Callable[[Path], object]:
    experiment = load_experiment(make_experiment(inputs / "toy"))
    return lambda folder: export_chrome(experiment, folder / "a.json.gz")


@writer
def keeping_a_fleet(inputs: Path) -> Callable[[Path], object]:
    rank(inputs / "traces", 0)
    fleet = fleet_of(inputs / "traces")
    return lambda folder: write_fleet(fleet, folder)


@writer
def recording_launches(inputs: Path) -> Callable[[Path], object]:
    launches = recording(*lines(lambda nodes: 2_000 + nodes))
    return lambda folder: write_launch(folder, launches)


@writer
def writing_ceilings(inputs: Path) -> Callable[[Path], object]:
    return lambda folder: write_ceilings(folder / "limits.json", make_ceilings())


@writer
def writing_a_calibration(inputs: Path) -> Callable[[Path], object]:
    return lambda folder: write_calibration(folder / "c.json", CALIBRATION)


@writer
def writing_a_baseline(inputs: Path) -> Callable[[Path], object]:
    content = build_baseline([load_experiment(make_experiment(inputs / "toy"))])
    return lambda folder: write_baseline(content, folder / "b.json")


@writer
def exporting_dot(inputs: Path) -> Callable[[Path], object]:
    run = load_run(make_experiment(inputs / "toy") / "graph")
    return lambda folder: export_dot(expand_graph(run, "graph-0"), "toy", folder / "a.dot")


@writer
def exporting_a_table(inputs: Path) -> Callable[[Path], object]:
    frame = load_run(make_experiment(inputs / "toy") / "graph").replay_trace.gpu
    return lambda folder: write_table(frame, folder / "a.csv")


@pytest.fixture(params=sorted(WRITERS))
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Path], object]:
    (tmp_path / "inputs").mkdir()
    return WRITERS[request.param](tmp_path / "inputs")


def files(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_each_write(tmp_path: Path, write: Callable[[Path], object]) -> None:
    """Each file that is written meets the end of its room once, in its beginning, in its middle and
    at its last byte."""
    (tmp_path / "whole").mkdir()
    write(tmp_path / "whole")
    whole = files(tmp_path / "whole")
    sizes = {part for size in whole.values() for part in (0, size // 2, size - 1)}
    for size in sorted(sizes):
        folder = tmp_path / str(size)
        folder.mkdir()
        with files_of_at_most(size):
            try:
                write(folder)
                text = ""
            except (GraphvizDashError, OSError) as error:
                text = f"{getattr(error, 'filename', '')} {error}".lower()
        assert "file too large" in text
        left = files(folder)
        assert {name: left[name] for name in left if name not in whole} == {}, size
        assert all(whole[name] == length for name, length in left.items()), size
    folder = tmp_path / "again"
    folder.mkdir()
    write(folder)
    assert files(folder).keys() == whole.keys()


def test_each_change_that_fails(tmp_path: Path, write: Callable[[Path], object]) -> None:
    numbers = itertools.count()

    def write_anew() -> Path:
        folder = tmp_path / f"new-{next(numbers)}"
        folder.mkdir()
        attempts.append(folder)
        write(folder)
        return folder

    attempts: list[Path] = []
    whole = files(write_anew())
    outcomes = list(each_in_turn(_failing_writer, write_anew, errors=(GraphvizDashError, OSError)))
    assert len(outcomes) > 1
    for folder, outcome in zip(attempts[1:], outcomes, strict=False):
        left = files(folder)
        if isinstance(outcome, Exception):
            assert re.search("no space left on device|input/output error", str(outcome), re.I)
            assert "\n" not in str(outcome)
            assert all(whole.get(name) == size for name, size in left.items()), (left, outcome)
        else:
            assert left.keys() == whole.keys()


@contextmanager
def _failing_writer(number: int) -> Iterator[Countdown]:
    # The first change makes the empty folder of the writer.
    with failing_change(number + 1) as fails:
        yield fails
