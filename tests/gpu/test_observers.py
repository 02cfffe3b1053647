from __future__ import annotations

import importlib.util
from pathlib import Path
from statistics import median

import pytest
from click.testing import CliRunner

from graphviz_dash.bundle.read import BundleContents, read_bundle
from graphviz_dash.model.observers import Observer

CUPTI = importlib.util.find_spec("cupti") is not None


def collected(folder: Path, workload: str, modes: str, *more: str) -> dict[str, BundleContents]:
    from collectors.collection.cli import collect

    output = folder / workload
    arguments = [
        f"--workload={workload}",
        f"--modes={modes}",
        f"--output={output}",
        "--iterations=30",
        "--processes=1",
        "--traced-iterations=2",
        *more,
    ]
    result = CliRunner().invoke(collect, arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return {mode: read_bundle(output / mode) for mode in modes.split(",")}


@pytest.mark.timeout(500)
def test_each_observer_is_timed(tmp_path: Path) -> None:
    runs = collected(tmp_path, "mlp-train", "eager,graph", "--observers")
    for mode, run in runs.items():
        assert run.observers is not None
        seen = [one.observer for one in run.observers.series]
        wanted = [Observer.NONE, Observer.EVENTS, Observer.PROFILER, Observer.STOPPED]
        wanted += [Observer.GRAPH_LEVEL] if mode == "graph" else []
        wanted += [Observer.NODE_LEVEL] if CUPTI else []
        assert seen == [*wanted, Observer.NONE], run.manifest.absent
        for one in run.observers.series:
            assert len(one.steps) == 30
            assert (one.source is None) == (one.observer is Observer.NONE)
            if one.observer is Observer.NONE:
                assert (one.device_ns, one.reported_ns) == ((), ())
            else:
                assert len(one.device_ns) >= 15
    by = {one.observer: one for one in runs["graph"].observers.series}  # type: ignore[union-attr]
    nodes = sum(len(graph.nodes) for graph in runs["graph"].graphs)
    profiler = by[Observer.PROFILER]
    # Kernels, memcpys and memsets are recorded; event nodes and the like are not.
    assert profiler.records is not None
    assert nodes // 2 <= profiler.records / 30 <= nodes
    assert len(profiler.reported_ns) == 30
    if CUPTI:
        assert by[Observer.GRAPH_LEVEL].records == 30
        assert by[Observer.NODE_LEVEL].records == profiler.records
    # What a tool says of the GPU lies near what events say of work without its launch.
    for observer in (Observer.PROFILER, Observer.GRAPH_LEVEL):
        if observer in by:
            ratio = median(by[observer].reported_ns) / median(by[observer].device_ns)
            assert 0.5 < ratio < 2


@pytest.mark.timeout(500)
def test_captured_graphs_are_launched_by_themselves(tmp_path: Path) -> None:
    from collectors.passes.launches import REPEATS

    for run in collected(tmp_path, "mlp-train", "graph,callables,partial").values():
        assert run.clean is not None
        assert run.clean.graphs
        for life in run.clean.graphs:
            assert len(life.repeat_launches) == REPEATS
            assert len(life.repeat_launch_device_ns) >= REPEATS // 2
            assert life.upload_cpu_ns is not None
            assert life.upload_device_ns is not None
            walls = median(row.wall_ns for row in life.repeat_launches)
            assert median(life.repeat_launch_device_ns) < walls < life.first_launch_ns
            assert median(row.launch_cpu_ns for row in life.repeat_launches) < walls
