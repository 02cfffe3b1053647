from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.guidance.gaps import (
    Part,
    build_compilation_command,
    find_baseline_remedy,
    find_gaps,
)
from graphviz_dash.guidance.remedies import MissingInput, find_remedies, has_trace
from graphviz_dash.ingest.load import load_experiment, load_outlines
from graphviz_dash.model.run import Experiment

SAMPLES = Path(__file__).parents[2] / "sample_traces"
NAMES = sorted({manifest.parents[1].name for manifest in SAMPLES.glob("*/*/manifest.json")})
BY_NATURE = {Part.FAMILIES, Part.RANKS}
"""Parts that depend on the program, so that nothing is missing."""


@pytest.mark.parametrize("name", NAMES)
def test_each_run_of_each_sample_has_an_answer_or_the_command_that_gets_it(name: str) -> None:
    experiment = load_experiment(SAMPLES / name, traces=False)
    for part, gap in find_gaps(experiment.runs).items():
        assert (gap.command is None) == (part in BY_NATURE), part
        assert gap.missing.reason
    to_compare = find_baseline_remedy(experiment.runs)
    comparison = compare_runs(experiment)
    for run in comparison.runs:
        predicted = run.is_baseline and has_trace(run.run)
        measured = run.speedup.value is not None or run.step.value is not None
        attributed = run.run.recording is not None and has_trace(run.run)
        assert measured or run.failures or predicted or attributed, run.name
        if comparison.baseline is None:
            assert to_compare is not None
            assert to_compare[1].command


def commands(name: str) -> dict[Part, str]:
    runs = _experiment(name).runs
    return {part: shlex.join(gap.command) for part, gap in find_gaps(runs).items() if gap.command}


def _experiment(name: str) -> Experiment:
    return load_experiment(SAMPLES / name, traces=False)


def test_a_workloads_own_parameters_are_in_its_commands() -> None:
    wide = commands("gpt-wide")
    sets = (
        "--workload gpt-train --set layers=4 --set hidden=2048 --set heads=16 --set sequence=2048 "
        "--set microbatch=4 --set vocabulary=8192"
    )
    assert wide == {
        Part.COMPILATION: f"graphviz-dash collect {sets} --modes compile -o sample_traces/gpt-wide",
        Part.DOCTOR: f"graphviz-dash doctor {sets} -o sample_traces/gpt-wide",
    }


def test_the_ranks_of_a_workload_are_launched_as_they_were() -> None:
    split = commands("tp-transformer")
    launched = "torchrun --nproc-per-node 2 -m collectors --workload tp-transformer"
    assert split[Part.COMPILATION].startswith(f"{launched} --modes compile -o ")
    condition = find_gaps(_experiment("tp-transformer").runs)[Part.DOCTOR].precondition
    assert condition == "run the step in one process, because the doctor does not examine ranks"


def test_the_compilation_command_records_next_to_the_experiment() -> None:
    runs = _experiment("mlp-train").runs
    (compiled,) = (run for run in runs if run.name == "compile")
    assert shlex.join(build_compilation_command(compiled, runs)) == (
        "graphviz-dash collect --workload mlp-train --modes compile -o "
        "sample_traces/mlp-train-again"
    )


def test_a_program_is_run_again_as_it_was() -> None:
    assert commands("recorded-lightning") == {
        Part.GRAPH: "graphviz-dash collect -o sample_traces/recorded-lightning --skip 100 "
        "--steps 8 --name graphed -- python3 tests/gpu/programs/lightning_train.py",
        Part.COMPILATION: "graphviz-dash collect -o sample_traces/recorded-lightning --skip 100 "
        "--steps 8 --name compiled -- python3 tests/gpu/programs/lightning_train.py",
    }
    served = commands("recorded-server")
    assert served[Part.DOCTOR].endswith("-- python -m collectors.examples.server --steps 700")


@pytest.mark.parametrize("name", NAMES)
def test_graphs_need_not_be_read(name: str) -> None:
    assert find_gaps(load_outlines(SAMPLES / name)) == find_gaps(_experiment(name).runs)


@pytest.mark.parametrize("name", NAMES)
def test_no_command_writes_over_a_run(name: str) -> None:
    """Collector and recorder refuse a name that is taken."""
    runs = _experiment(name).runs
    taken = {run.name for run in runs} | {run.mode.value for run in runs}
    advised = [gap.command for gap in find_gaps(runs).values()]
    advised += [remedy.command for run in runs for remedy in find_remedies(run, runs)]
    for command in advised:
        if command is None or "doctor" in command:
            continue
        options = dict(pairwise(command))
        made = {options["--name"]} if "--name" in options else set(options["--modes"].split(","))
        assert not made & taken or options["-o"].endswith("-again"), command


@pytest.mark.parametrize("name", NAMES)
def test_no_command_names_a_folder_of_the_machine_that_recorded(name: str) -> None:
    for command in commands(name).values():
        assert not [word for word in shlex.split(command) if word.startswith("/")]


def test_a_lone_run_with_graphs_is_told_how_to_get_its_baseline() -> None:
    found = find_baseline_remedy(_experiment("graph-update").runs)
    assert found is not None
    run, remedy = found
    assert (run.name, remedy.missing_input) == ("graph", MissingInput.EAGER_RUN)
    assert remedy.command is not None
    assert "--modes eager" in shlex.join(remedy.command)
    found = find_baseline_remedy(_experiment("recorded-server").runs)
    assert found is not None
    assert found[1].missing_input is MissingInput.EAGER_RECORDING
    assert find_baseline_remedy(_experiment("mlp-train").runs) is None
    assert find_baseline_remedy(_experiment("recorded-lightning").runs) is None


def test_a_program_that_replays_no_graph_needs_no_run_without_graphs() -> None:
    """A compiled program whose sizes always change captures only the empty graph of its pool."""
    (run,) = [run for run in _experiment("recorded-server").runs if run.recording is not None]
    assert run.recording is not None
    empty = replace(run.recording.graphs[0], nodes=0, replays=0, window_replays=0)
    recording = replace(run.recording, graphs=(empty,), earlier_replays=0)
    idle = replace(run, recording=recording, graphs=(), loop=None)
    assert find_baseline_remedy((idle,)) is None
    inputs = [remedy.missing_input for remedy in find_remedies(idle)]
    assert MissingInput.ATTRIBUTION not in inputs
