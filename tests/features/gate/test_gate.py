from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.ledger.metrics import measure_startup
from graphviz_dash.errors import InputError
from graphviz_dash.features.gate.gate import (
    STARTUP_TIME_LIMIT,
    GateResult,
    build_baseline,
    check_gate,
    format_limit,
)
from graphviz_dash.features.gate.gated import MetricChange, TimeSeries, Verdict, compare_times
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.ledger import Ledger
from graphviz_dash.model.run import Experiment, Failure, MemoryUse, Pass, Run
from graphviz_dash.model.timings import CleanProcess
from tests.experiments import chain, make_experiment, make_run
from tests.ledgers import MIB, MS, make_ledger, write_server
from tests.loops import make_server, replay_ns

FAILURE = Failure(Pass.CLEAN, "RuntimeError", "capture failed", None, "")


@pytest.fixture
def toy(tmp_path: Path) -> Experiment:
    return load_experiment(make_experiment(tmp_path / "toy"))


def changed(experiment: Experiment, name: str, **parts: object) -> Experiment:
    runs = [
        replace(run, **parts) if run.name == name else run  # type: ignore[arg-type]
        for run in experiment.runs
    ]
    return replace(experiment, runs=tuple(runs))


def slower(run: Run, share: float) -> object:
    assert run.clean is not None
    steps = tuple(
        msgspec.structs.replace(step, wall_ns=round(step.wall_ns * (1 + share)))
        for step in run.clean.steps
    )
    return msgspec.structs.replace(run.clean, steps=steps)


def launched_for(run: Run, share: float, most: float) -> object:
    """The run's clean pass, steps longer by ``share`` and launches ``most`` of them."""
    assert run.clean is not None
    steps = tuple(
        msgspec.structs.replace(
            step,
            wall_ns=round(step.wall_ns * (1 + share)),
            launch_cpu_ns=round(step.wall_ns * (1 + share) * most),
        )
        for step in run.clean.steps
    )
    return msgspec.structs.replace(run.clean, steps=steps)


def found(result: GateResult, run: str, metric: str) -> MetricChange:
    (one,) = [one for one in result.changes if (one.run, one.metric.id) == (run, metric)]
    return one


def launches_held(now: int) -> object:
    before, after = (TimeSeries(([value] * 50,)) for value in (4_000, now))
    return compare_times("r", "launch_cpu_time", before, after, 0.05)


def run_of(experiment: Experiment, name: str) -> Run:
    return next(run for run in experiment.runs if run.name == name)


class TestFigures:
    def test_an_experiment_is_not_worse_than_itself(self, toy: Experiment) -> None:
        result = check_gate(toy, build_baseline([toy]), "b")
        assert result.passed
        assert len(result.changes) == 5 + 6  # an eager run has no graph nodes
        assert {one.verdict for one in result.changes} == {Verdict.WITHIN_LIMIT}

    @pytest.mark.parametrize(("share", "passed"), [(0.03, True), (0.08, False), (-0.5, True)])
    def test_a_slower_step_fails_above_the_limit(
        self, toy: Experiment, share: float, passed: bool
    ) -> None:
        now = changed(toy, "graph", clean=slower(run_of(toy, "graph"), share))
        result = check_gate(now, build_baseline([toy]), "b")
        assert result.passed is passed
        one = found(result, "graph", "step_time")
        assert one.change == pytest.approx(share, abs=1e-4)
        assert one.low is not None
        assert one.low < share + 1e-4
        assert [bad.metric.id for bad in result.regressions] == ([] if passed else ["step_time"])
        assert found(result, "graph", "step_interval").verdict is Verdict.WITHIN_LIMIT
        if share < 0:
            assert one.verdict is Verdict.BETTER

    def test_the_limit_is_the_callers(self, toy: Experiment) -> None:
        now = changed(toy, "graph", clean=slower(run_of(toy, "graph"), 0.08))
        assert check_gate(now, build_baseline([toy]), "b", 0.1).passed

    def test_less_than_a_microsecond_is_no_offence(self) -> None:
        assert isinstance(one := launches_held(4_900), MetricChange)
        assert one.verdict is Verdict.WITHIN_LIMIT
        assert isinstance(one := launches_held(5_100), MetricChange)
        assert one.verdict is Verdict.WORSE

    def test_exact_figures_need_no_spread(self, toy: Experiment) -> None:
        memory = run_of(toy, "graph").memory
        assert memory is not None
        for share, verdict in (
            (1.05, Verdict.WITHIN_LIMIT),
            (1.06, Verdict.WORSE),
            (0.9, Verdict.BETTER),
        ):
            more = round(memory.peak_reserved_bytes * share)
            now = changed(
                toy, "graph", memory=msgspec.structs.replace(memory, peak_reserved_bytes=more)
            )
            one = found(check_gate(now, build_baseline([toy]), "b"), "graph", "peak_reserved")
            assert one.verdict is verdict
            assert one.is_exact

    def test_more_launches_and_nodes(self, tmp_path: Path, toy: Experiment) -> None:
        grown = load_experiment(make_experiment(tmp_path / "grown" / "toy", work=chain(13)))
        result = check_gate(grown, build_baseline([toy]), "b")
        assert {(one.run, one.metric.id) for one in result.regressions if one.is_exact} == {
            ("eager", "launches"),
            ("graph", "graph_nodes"),
        }

    def test_nothing_before_and_something_now(self, toy: Experiment) -> None:
        none = changed(toy, "eager", memory=MemoryUse(0, 0, 0, 0, ()))
        one = found(check_gate(toy, build_baseline([none]), "b"), "eager", "peak_reserved")
        assert (one.verdict, one.change) == (Verdict.WORSE, None)


class TestRuns:
    def test_a_missing_run_offends_and_a_new_one_does_not(self, toy: Experiment) -> None:
        eager = replace(toy, runs=toy.runs[:1])
        gone = check_gate(eager, build_baseline([toy]), "b")
        assert [one.run for one in gone.failures] == ["graph"]
        added = check_gate(toy, build_baseline([eager]), "b")
        assert added.passed
        assert added.notes == ("graph: not gated, because it is not in the baseline",)

    def test_a_failed_run_offends_unless_it_always_failed(
        self, tmp_path: Path, toy: Experiment
    ) -> None:
        make_run(tmp_path / "bad", "eager", workload="toy")
        make_run(tmp_path / "bad", "graph", workload="toy", failure=FAILURE)
        failed = load_experiment(tmp_path / "bad")
        result = check_gate(failed, build_baseline([toy]), "b")
        assert [one.run for one in result.failures] == ["graph"]
        assert "capture failed" in result.failures[0].text
        again = check_gate(failed, build_baseline([failed]), "b")
        assert again.passed
        assert "as in the baseline" in again.notes[0]
        new = check_gate(failed, build_baseline([replace(failed, runs=failed.runs[:1])]), "b")
        assert not new.passed

    def test_a_figure_that_is_gone_offends_with_its_reason(self, toy: Experiment) -> None:
        now = changed(toy, "graph", replay_trace=None)
        result = check_gate(now, build_baseline([toy]), "b")
        assert [one.text for one in result.failures] == [
            "Launches per step is missing: the bundle has no traced pass"
        ]
        back = check_gate(toy, build_baseline([now]), "b")
        assert back.notes == ("graph: Launches per step: not in the baseline",)

    def test_runs_without_times_are_named(self, toy: Experiment) -> None:
        untimed = changed(toy, "graph", clean=None)
        result = check_gate(untimed, build_baseline([untimed]), "b")
        assert result.passed
        assert result.notes == ("graph: no times: the bundle has no clean pass",)

    def test_another_gpu_or_workload_is_refused(self, tmp_path: Path, toy: Experiment) -> None:
        make_run(tmp_path / "other", "graph", workload="toy", gpu="NVIDIA A100")
        with pytest.raises(InputError, match="GPU NVIDIA A100; expected GPU NVIDIA H200"):
            check_gate(load_experiment(tmp_path / "other"), build_baseline([toy]), "b")
        other = load_experiment(make_experiment(tmp_path / "another"))
        with pytest.raises(InputError, match="workload"):
            build_baseline([toy, other])

    def test_another_torch_is_named(self, toy: Experiment) -> None:
        graph = run_of(toy, "graph")
        environment = msgspec.structs.replace(graph.manifest.environment, torch="2.12.0")
        manifest = msgspec.structs.replace(graph.manifest, environment=environment)
        result = check_gate(changed(toy, "graph", manifest=manifest), build_baseline([toy]), "b")
        assert result.passed
        assert result.differences == ("torch: 2.11.0+cu130 before, 2.12.0 now",)

    def test_of_several_recordings_the_worst_counts(self, toy: Experiment) -> None:
        slow = changed(toy, "graph", clean=slower(run_of(toy, "graph"), 0.1))
        slowest = changed(toy, "graph", clean=slower(run_of(toy, "graph"), 0.2))
        assert not check_gate(slowest, build_baseline([toy]), "b").passed
        held = build_baseline([toy, slow, toy])
        result = check_gate(slowest, held, "b", 0.1)
        assert result.passed
        assert found(result, "graph", "step_time").baseline == 110_000
        assert result.recordings == 3


def noise(seed: int) -> np.ndarray:
    """200 iterations, 5% of noise in which neighbours correlate by 0.8."""
    random = np.random.default_rng(seed)
    series, place = np.empty(200), random.normal()
    for index in range(200):
        place = 0.8 * place + 0.6 * random.normal()
        series[index] = 1 + 0.05 * place
    return 1_000_000 * series


def held(before: np.ndarray, now: np.ndarray) -> Verdict:
    series = [TimeSeries((values.astype(int).tolist(),)) for values in (before, now)]
    one = compare_times("r", "step_time", series[0], series[1], 0.05)
    assert isinstance(one, MetricChange)
    return one.verdict


class TestErrors:
    """The whole table is that of benchmarks/gate.py, in its report."""

    def test_two_recordings_of_the_same_thing_raise_no_alarm(self) -> None:
        verdicts = [held(noise(seed), noise(1000 + seed)) for seed in range(60)]
        assert Verdict.WORSE not in verdicts

    def test_a_regression_is_found_in_the_same_noise(self) -> None:
        verdicts = [held(noise(seed), 1.15 * noise(1000 + seed)) for seed in range(30)]
        assert verdicts.count(Verdict.WORSE) >= 27

    def test_noisy_samples_are_inconclusive(self) -> None:
        random = np.random.default_rng(1)
        before, now = (1_000_000 * random.lognormal(0, 0.5, 30) for _ in range(2))
        assert held(before, now) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("limit", "text"), [(0.05, "5%"), (0.025, "2.5%"), (0, "0%"), (1, "100%")])
def test_limits_as_text(limit: float, text: str) -> None:
    assert format_limit(limit) == text


@pytest.mark.parametrize(
    ("most", "graph", "said"), [(0.95, 0.0, True), (0.5, 0.0, False), (0.95, 0.3, False)]
)
def test_times_that_the_cpu_decides_come_with_a_word_of_caution(
    toy: Experiment, most: float, graph: float, said: bool
) -> None:
    eager = launched_for(run_of(toy, "eager"), 0.3, most)
    now = changed(toy, "eager", clean=eager)
    now = changed(now, "graph", clean=launched_for(run_of(toy, "graph"), graph, 0.05))
    baseline = changed(toy, "eager", clean=launched_for(run_of(toy, "eager"), 0.0, most))
    baseline = changed(baseline, "graph", clean=launched_for(run_of(toy, "graph"), 0.0, 0.05))
    result = check_gate(now, build_baseline([baseline]), "there")
    assert result.regressions
    assert (result.host_warning is not None) is said


def test_nothing_that_offends_needs_no_caution(toy: Experiment) -> None:
    assert check_gate(toy, build_baseline([toy]), "there").host_warning is None


class TestKeys:
    """A recorded server compared with a copy that has one slower size."""

    SIZES = (4, 8, 16)
    REQUESTS = tuple(size for size in SIZES for _ in range(300))

    def server(self, folder: Path, **changed: object) -> Experiment:
        arguments: dict[str, Any] = {"sizes": self.SIZES, "requests": self.REQUESTS, **changed}
        make_server(folder / "server", **arguments)
        return load_experiment(folder / "server")

    def test_one_size_is_told_where_the_mean_is_the_same(self, tmp_path: Path) -> None:
        base = build_baseline([self.server(tmp_path / "a")])
        same = check_gate(self.server(tmp_path / "b"), base, "base")
        assert same.passed
        assert [figure.key for figure in same.changes if figure.key] == [
            "decode, batch 4",
            "decode, batch 8",
            "decode, batch 16",
        ]
        # One size takes 60 us more, another as much less.
        moved = {4: 60_000, 16: -60_000}
        other = self.server(
            tmp_path / "c", gpu_ns=lambda size: replay_ns(size) + moved.get(size, 0)
        )
        result = check_gate(other, base, "base")
        (worse,) = result.regressions
        assert (worse.key, worse.title) == ("decode, batch 4", "Replay of decode, batch 4")
        assert worse.change == pytest.approx(60 / 340, rel=0.02)
        assert worse.low is not None
        assert worse.high is not None
        assert 0.15 < worse.low <= worse.change <= worse.high < 0.2
        (better,) = [f for f in result.changes if f.verdict is Verdict.BETTER and f.key]
        assert better.key == "decode, batch 16"

    def test_another_ladder_is_compared_where_both_have_a_key(self, tmp_path: Path) -> None:
        base = build_baseline([self.server(tmp_path / "a")])
        asked = (4,) * 300 + (12,) * 20 + (16,) * 300
        result = check_gate(
            self.server(tmp_path / "b", sizes=(4, 12, 16), requests=asked), base, "base"
        )
        assert result.passed
        keys = [figure.key for figure in result.changes if figure.key]
        assert keys == ["decode, batch 4", "decode, batch 16"]
        assert "recorded: 1 key only in the baseline: decode, batch 8" in result.notes
        assert "recorded: 1 key missing from the baseline: decode, batch 12" in result.notes

    def test_few_replays_are_not_held(self, tmp_path: Path) -> None:
        few = self.server(tmp_path / "a", requests=(4,) * 300 + (8,) * 60)
        notes = check_gate(few, build_baseline([few]), "base").notes
        assert any("2 keys with fewer than 8 timed replays" in note for note in notes)

    def test_a_family_is_called_after_another_line(self, tmp_path: Path) -> None:
        server = self.server(tmp_path / "a")
        base = build_baseline([server])
        loop = run_of(server, "recorded").loop
        assert loop is not None
        family = msgspec.structs.replace(loop.families[0], name="capture, server.py:44")
        moved = msgspec.structs.replace(loop, families=(family,))
        result = check_gate(changed(server, "recorded", loop=moved), base, "base")
        assert len([figure for figure in result.changes if figure.key]) == 3


def test_processes_are_drawn_where_there_are_several() -> None:
    """Two processes whose medians differ by 10% say little of the next one."""
    slow, fast = [1_100_000] * 50, [1_000_000] * 50
    apart = compare_times(
        "r", "step_time", TimeSeries([slow, fast]), TimeSeries([slow, slow]), 0.02
    )
    assert isinstance(apart, MetricChange)
    assert (apart.low, apart.high) == (0.0, pytest.approx(0.1))
    assert apart.verdict is Verdict.INCONCLUSIVE


def test_a_baseline_keeps_the_processes(toy: Experiment) -> None:
    graph = run_of(toy, "graph")
    assert graph.clean is not None
    count, intervals = len(graph.clean.steps), len(graph.clean.back_to_back_ns)
    halves = tuple(
        CleanProcess(0, rows, pairs, (), None)
        for rows, pairs in ((5, 2), (count - 5, intervals - 2))
    )
    parted = msgspec.structs.replace(graph.clean, processes=halves)
    (recording,) = build_baseline([changed(toy, "graph", clean=parted)]).recordings
    (run,) = [run for run in recording.runs if run.name == "graph"]
    assert run.processes["step_time"] == (5, count - 5)
    assert run.processes["step_interval"] == (2, intervals - 2)


def gate(folder: Path, before: Ledger, now: Ledger) -> GateResult:
    write_server(folder / "before", ledger=before)
    write_server(folder / "now", ledger=now)
    baseline = build_baseline([load_experiment(folder / "before")])
    return check_gate(load_experiment(folder / "now"), baseline, "baseline")


def verdicts(result: GateResult) -> dict[str, Verdict]:
    return {change.metric.id: change.verdict for change in result.changes}


def grown(size: int) -> Ledger:
    samples = tuple(
        replace(each, device_used_bytes=each.device_used_bytes + size)
        for each in make_ledger().samples
    )
    return make_ledger(samples=samples)


def test_figures_of_a_ledger() -> None:
    assert measure_startup_of(make_ledger()) == {
        "startup_time": 3_602 * MS,
        "startup_memory": 1_090 * MIB,
    }
    assert measure_startup_of(make_ledger(startup_end_ns=None)) == {}


def measure_startup_of(ledger: Ledger) -> dict[str, int]:
    from graphviz_dash.model.run import ExecutionMode, Run, WorkloadInfo
    from tests.experiments import manifest

    workload = WorkloadInfo("server.py", "server.py", None, 0, 0, 0)
    described = manifest(ExecutionMode.RECORDED, workload)
    return measure_startup(Run(path=Path("run"), manifest=described, ledger=ledger))


@pytest.mark.parametrize(
    ("size", "verdict"),
    [(0, Verdict.WITHIN_LIMIT), (54, Verdict.WITHIN_LIMIT), (55, Verdict.WORSE)],
)
def test_bytes_are_held_within_the_limit(tmp_path: Path, size: int, verdict: Verdict) -> None:
    result = gate(tmp_path, make_ledger(), grown(size * MIB))
    assert verdicts(result)["startup_memory"] is verdict
    assert result.passed is (verdict is Verdict.WITHIN_LIMIT)


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1 + STARTUP_TIME_LIMIT, Verdict.WITHIN_LIMIT), (1.3, Verdict.WORSE), (0.9, Verdict.BETTER)],
)
def test_seconds_have_a_wider_limit(tmp_path: Path, factor: float, verdict: Verdict) -> None:
    now = make_ledger(startup_end_ns=round(3_602 * MS * factor))
    assert verdicts(gate(tmp_path, make_ledger(), now))["startup_time"] is verdict


def test_a_ledger_that_got_lost_fails(tmp_path: Path) -> None:
    result = gate(tmp_path, make_ledger(), make_ledger(startup_end_ns=None))
    assert not result.passed
    assert any("Start-up time is missing" in failure.text for failure in result.failures)
