from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.errors import InputError
from graphviz_dash.features.perfetto.trace.excerpt import FULL_EXPERIMENT, TracePart, extract_part
from graphviz_dash.features.perfetto.trace.perfetto import export_perfetto
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import Experiment
from graphviz_dash.model.trace import Trace
from graphviz_dash.progress import CancelledError, watch
from tests.builders import make_experiment
from tests.exports.reading import ReadTrace, read_perfetto

ROOT = Path(__file__).parents[4]
GPU = ("kernel", "memcpy", "memset")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return load_experiment(make_experiment(tmp_path_factory.mktemp("part") / "toy"))


def _read(experiment: Experiment, part: TracePart, folder: Path) -> ReadTrace:
    return read_perfetto(export_perfetto(extract_part(experiment, part), folder / "t.pftrace").path)


def _trace(experiment: Experiment, name: str) -> Trace:
    found = next(run.replay_trace for run in experiment.runs if run.name == name)
    assert found is not None
    return found


def test_the_whole_is_the_experiment_itself(toy: Experiment) -> None:
    assert extract_part(toy, FULL_EXPERIMENT) is toy


def test_one_run(toy: Experiment, tmp_path: Path) -> None:
    read = _read(toy, TracePart((("graph", None),)), tmp_path)
    assert read.processes == ["graph"]
    assert len(read.of("graph", *GPU)) == _trace(toy, "graph").gpu.height


def test_a_step_of_each_run_holds_its_work_its_calls_and_their_links(
    toy: Experiment, tmp_path: Path
) -> None:
    read = _read(toy, TracePart((("eager", 1), ("graph", 2))), tmp_path)
    for name, number in (("eager", 1), ("graph", 2)):
        trace = _trace(toy, name)
        step = next(one for one in find_steps(trace) if one.index == number)
        kernels = read.of(name, *GPU)
        assert len(kernels) == len(step.gpu_rows)
        assert [one.name for one in read.of(name, "step")] == [f"graphviz_dash.step#{number}"]
        (mark,) = read.of(name, "step")
        gpu = trace.gpu[step.gpu_rows.tolist()]
        assert [one.start - mark.start for one in kernels] == sorted(
            (gpu["ts"] - step.start).to_list()
        )
        assert all(len(read.linked(one)) >= 1 for one in kernels)
    assert {one.args["node"] for one in read.of("graph", *GPU)} == set(
        range(len(toy.runs[1].graphs[0].nodes))
    ) - {
        node.index
        for node in toy.runs[1].graphs[0].nodes
        if node.kind.value not in ("Kernel", "Memcpy", "Memset")
    }


def test_a_graph_among_others_that_look_alike_keeps_its_own_launches(tmp_path: Path) -> None:
    sample = load_experiment(ROOT / "sample_traces" / "mlp-train")
    partial = next(run for run in sample.runs if run.name == "partial")
    assert len(partial.graphs) > 2
    wanted = partial.graphs[1].id
    whole = _read(sample, TracePart((("partial", None),)), tmp_path)
    part = _read(sample, TracePart((("partial", None),), wanted), tmp_path)
    expected = [
        (one.name, one.end - one.start)
        for one in whole.of("partial", *GPU)
        if one.args.get("graph") == wanted
    ]
    kernels = part.of("partial", *GPU)
    assert [(one.name, one.end - one.start) for one in kernels] == expected
    assert {one.args["graph"] for one in kernels} == {wanted}
    assert part.of("partial", "runtime")


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (TracePart((("nobody", None),)), "no run 'nobody'"),
        (TracePart((("eager", 99),)), "no step 99"),
        (TracePart((("graph", None),), "graph-7"), "no graph 'graph-7'"),
        (TracePart((("eager", None),), "graph-0"), "no graph 'graph-0'"),
    ],
)
def test_unknown_parts_are_named_in_the_error(toy: Experiment, part: TracePart, told: str) -> None:
    with pytest.raises(InputError, match=told):
        extract_part(toy, part)


def test_a_cancelled_export_leaves_no_file(toy: Experiment, tmp_path: Path) -> None:
    def stop(share: float) -> None:
        if share > 0:
            raise CancelledError

    with watch(stop), pytest.raises(CancelledError):
        export_perfetto(toy, tmp_path / "t.pftrace")
    assert list(tmp_path.iterdir()) == []
