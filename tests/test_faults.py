"""Each read, each write and each allocation fails in turn: what is loaded is then whole or refused
in one line, what is written is there whole or not at all, and the next try works."""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import pytest

from graphviz_dash.bundle.launch import read_launch, write_launch
from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.features.perfetto.trace.chrome import export_chrome
from graphviz_dash.features.perfetto.trace.perfetto import export_perfetto
from graphviz_dash.features.ranks.fleet_import import write_fleet
from graphviz_dash.importers.archives import unpack_experiment
from graphviz_dash.importers.bundles import import_files
from graphviz_dash.ingest import cache
from graphviz_dash.ingest.cache import TraceCache, open_trace
from graphviz_dash.ingest.formats import debug_dot, graph_data
from graphviz_dash.ingest.formats.registry import read_foreign
from graphviz_dash.ingest.load import load_experiment, load_run
from graphviz_dash.ingest.traffic import read_traffic
from graphviz_dash.model.trace import Trace
from tests.analysis.launches import lines, recording
from tests.builders import TraceBuilder, make_experiment
from tests.faults import (
    Countdown,
    each_in_turn,
    failing_allocation,
    failing_read,
    files_of_at_most,
)
from tests.fuzz.readers import DOT, GRAPH, LOGS, SNAPSHOT, database
from tests.importers.fleets import fleet_of, rank
from tests.ui.state.test_uploads import packed

STRIDE = 5
"""Of the allocations of the larger loaders every fifth fails, which takes seconds; 1 tries all."""


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
    """What a foreign file holds, as text that is equal for equal content."""
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
        # Of a report the file may be the trace that it was written anew as.
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
    outcomes = each_in_turn(failing_allocation, read, every=4 * STRIDE)
    errors = [outcome for outcome in outcomes if outcome != whole]
    assert len(errors) > 10
    assert all(isinstance(error, InputError | MemoryError) for error in errors)
    assert read() == whole


@pytest.mark.parametrize(
    ("failing", "every"), [(failing_read, 1), (failing_allocation, STRIDE)], ids=["read", "memory"]
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


def test_each_read_of_a_recording_of_launch_costs(tmp_path: Path) -> None:
    write_launch(tmp_path, recording(*lines(lambda nodes: 2_000 + nodes)))
    (error,) = each_in_turn(failing_read, partial(read_launch, tmp_path))
    assert isinstance(error, InputError)
    assert "launch.json" in str(error)


def test_each_read_of_traffic(tmp_path: Path) -> None:
    file = tmp_path / "traffic.txt"
    file.write_text("1\n16 20\n")
    (error,) = each_in_turn(failing_read, partial(_sizes, file))
    assert isinstance(error, InputError)
    assert "traffic.txt" in str(error)


def _sizes(file: Path) -> list[int]:
    return list(read_traffic(file).tolist())


WRITERS: dict[str, Callable[[Path], Callable[[Path], object]]] = {}


def writer(
    prepare: Callable[[Path], Callable[[Path], object]],
) -> Callable[[Path], Callable[[Path], object]]:
    """A writer into an empty folder, made by what prepares its input in another one."""
    WRITERS[prepare.__name__] = prepare
    return prepare


@writer
def importing(inputs: Path) -> Callable[[Path], object]:
    sources = [inputs / name for name in ("trace.json", "graph.dot", "report.sqlite")]
    for source in sources:
        source.write_bytes(FOREIGN[source.name]())
    return lambda folder: import_files(sources, folder)


@writer
def unpacking(inputs: Path) -> Callable[[Path], object]:
    archive = packed(make_experiment(inputs / "toy"))

    def unpack(folder: Path) -> None:
        with ExitStack() as failed:
            failed.callback(shutil.rmtree, folder)  # as whoever made it does
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
