"""Run the passes of every mode in separate processes and write run bundles.

Clean passes run first, before any profiler, interleaved so that changes of the machine affect all
modes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from collectors.ceilings.store import keep, load, measure_in_process
from collectors.collection.collection import CollectedRun, Collection
from collectors.collection.machine import read_machine_environment, start_fork_server
from collectors.collection.pass_runs import PassRunner
from collectors.collection.progress import Report, format_kept_runs, get_first_line
from collectors.collection.ranks import RankContext, join_ranks
from collectors.collection.run_bundle import (
    build_manifest,
    join_processes,
    list_absent_facts,
    write_run,
)
from collectors.doctor.ask import STEPS, examine_workload
from collectors.workloads import get_factory_path
from graphviz_dash.bundle.staging import Staging, remove_abandoned_folders
from graphviz_dash.errors import GraphvizDashError, InputError, escape_control_characters
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.ceilings import Ceilings
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.run import Absent, Environment, ExecutionMode, Failure, Pass
from graphviz_dash.units import format_bytes


def collect(
    request: Collection, report: Report, context: RankContext | None = None
) -> tuple[CollectedRun, ...]:
    """Collect each mode into ``output/<mode>`` and return the written runs.

    With a ``context``, the folder is ``output/<mode>-rank<N>`` and all ranks run each pass
    together. A failure is stored in the mode's bundle; the other modes continue.

    Raises:
        InputError: The workload is unknown, or the target already holds a run.
        MissingRequirementError: There is no CUDA device for this process.
        GraphvizDashError: The environment cannot be read, other ranks are unreachable, or the disk
            is full. The message lists the runs that were kept.
    """
    factory = get_factory_path(request.workload)
    _check_targets_free(request, context)
    runs: list[CollectedRun] = []
    try:
        request.output.mkdir(parents=True, exist_ok=True)
        with join_ranks(context) as peers:
            if peers is None:
                _remove_leftovers(request.output, report)
            else:
                # Another rank could mistake this rank's new folder for a leftover before it is
                # locked.
                peers.run_on_first(lambda: _remove_leftovers(request.output, report))
            with (
                Staging(request.output, "collect") as staging,
                start_fork_server(context, staging.path, factory, request.seed) as server,
            ):
                environment = read_machine_environment(staging.path, context, server)
                report(
                    f"{environment.gpu_name}, driver {environment.driver or 'unknown'}, "
                    f"CUDA {environment.cuda_runtime}, torch {environment.torch}"
                )
                if server.refusal is not None:
                    report(
                        "Each pass imports the workload's module, because its import "
                        f"{escape_control_characters(server.refusal)}: collecting takes longer"
                    )
                runner = PassRunner(request, factory, peers, report, server)
                run = _CollectionRun(request, factory, environment, staging.path, runner, report)
                run.plan_modes()
                run.time_modes()
                run.find_ceilings()
                runs.extend(map(run.collect, request.modes))
    except KeyboardInterrupt:
        report(format_kept_runs(request.output, *_split_kept(request, runs)))
        raise
    except OSError as error:
        saved_runs = format_kept_runs(request.output, *_split_kept(request, runs))
        text = f"{error.filename or request.output}: {error.strerror or error}. {saved_runs}"
        raise GraphvizDashError(escape_control_characters(text)) from error
    return tuple(runs)


def _check_targets_free(request: Collection, context: RankContext | None) -> None:
    for mode in request.modes:
        target = request.get_target(mode, context.rank if context else None)
        if target.exists():
            raise InputError(
                target,
                "the folder already holds a run",
                "a new folder",
                "Choose another -o, or delete that run.",
            )


def _remove_leftovers(output: Path, report: Report) -> None:
    for leftover in remove_abandoned_folders(output):
        size = format_bytes(leftover.bytes)
        report(f"Removed {leftover.path.name} ({size}), left by a killed collector")


def _split_kept(
    request: Collection, runs: list[CollectedRun]
) -> tuple[tuple[Path, ...], ExecutionMode | None]:
    lost = request.modes[len(runs)] if len(runs) < len(request.modes) else None
    return tuple(run.path for run in runs), lost


@dataclass
class _CollectionRun:
    request: Collection
    factory: str
    environment: Environment
    scratch: Path
    runner: PassRunner
    report: Report
    timed: dict[ExecutionMode, list[Path]] = field(default_factory=dict)
    clean_failures: dict[ExecutionMode, Failure] = field(default_factory=dict)
    """First failure of a mode's clean or plan pass, which ends its clean pass."""
    started: int = 0
    """Passes started or skipped, counting each clean process."""
    ceilings: Ceilings | None = None
    no_ceilings: str = "--no-limits was given"

    def plan_modes(self) -> None:
        for mode in self.request.modes:
            if mode.is_planned:
                failure = self._run_pass(mode, Pass.PLAN, self._pass_folder(mode, Pass.PLAN))
                if failure is not None:
                    self.clean_failures[mode] = failure

    def time_modes(self) -> None:
        """Run the clean passes, interleaved across the modes."""
        for turn in range(self.request.processes):
            for mode in self.request.modes:
                if mode in self.clean_failures:
                    self.started += 1
                    continue
                folder = self._pass_folder(mode, Pass.CLEAN, turn)
                failure = self._run_pass(mode, Pass.CLEAN, folder, turn)
                if failure is None:
                    self.timed.setdefault(mode, []).append(folder)
                else:
                    self.clean_failures[mode] = failure
        for folders in self.timed.values():
            join_processes(folders)

    def find_ceilings(self) -> None:
        """Load or measure the limits of the GPU, after all clean passes.

        Ranks only load them, as others use the GPUs meanwhile.
        """
        if not self.request.measures_limits:
            return
        self.ceilings = load(self.environment)
        if self.ceilings is not None:
            return
        if self.runner.peers is not None:
            self.no_ceilings = "they are measured by graphviz-dash bench limits, not with ranks"
            return
        try:
            self.ceilings = measure_in_process()
            keep(self.ceilings, self.environment.torch)
        except GraphvizDashError as error:
            self.no_ceilings = str(error)
            self.report(f"The limits of the GPU were not measured: {error}")

    def collect(self, mode: ExecutionMode) -> CollectedRun:
        folders, failures, skipped = self._run_passes(mode)
        doctor: DoctorReport | None = None
        can_examine = mode.captures_entire_step and not (mode.is_compiled or mode.is_planned)
        if can_examine and failures and self.runner.peers is None:
            doctor = self._examine()
        first_folder = self._pass_folder(mode, self.request.get_passes(mode)[0])
        manifest = build_manifest(
            self.request,
            self.factory,
            mode,
            self.environment,
            first_folder,
            self.runner.peers,
            failures,
            list_absent_facts(mode, folders, failures, skipped),
        )
        target = self.request.get_target(mode, manifest.rank)
        if self.ceilings is None:
            absent = (*manifest.absent, Absent(Fact.CEILINGS, self.no_ceilings))
            manifest = msgspec.structs.replace(manifest, absent=absent)
        compiled = self._pass_folder(mode, Pass.TRACED) if mode.is_compiled else None
        write_run(target, folders, manifest, doctor, compiled, self.ceilings)
        return CollectedRun(target, failures)

    def _run_passes(
        self, mode: ExecutionMode
    ) -> tuple[dict[Pass, Path], tuple[Failure, ...], tuple[Pass, ...]]:
        passes = tuple(
            kind for kind in self.request.get_passes(mode) if kind not in (Pass.PLAN, Pass.CLEAN)
        )
        failures = [self.clean_failures[mode]] if mode in self.clean_failures else []
        if mode not in self.timed:
            # A step that fails clean fails under the profiler too.
            self.started += len(passes) - mode.is_compiled
            if mode.is_compiled:
                # The traced pass still shows the compilations before the failure; no clean pass
                # does.
                self._run_pass(mode, Pass.TRACED, self._pass_folder(mode, Pass.TRACED))
            unplanned = failures and failures[0].stage is Pass.PLAN
            return {}, tuple(failures), (Pass.CLEAN, *passes) if unplanned else passes
        folders = {Pass.CLEAN: self.timed[mode][0]}
        if mode.is_planned:
            folders[Pass.PLAN] = self._pass_folder(mode, Pass.PLAN)
        for kind in passes:
            folder = self._pass_folder(mode, kind)
            failure = self._run_pass(mode, kind, folder)
            if failure is None:
                folders[kind] = folder
            else:
                failures.append(failure)
        return folders, tuple(failures), ()

    def _run_pass(
        self, mode: ExecutionMode, kind: Pass, folder: Path, turn: int = 0
    ) -> Failure | None:
        title = self._format_pass(mode, kind, turn)
        folder.mkdir()
        self.report(f"{title} …")
        begin = time.monotonic()
        planned = mode.is_planned and kind is not Pass.PLAN
        plan = self._pass_folder(mode, Pass.PLAN) if planned else None
        failure = self.runner.run(mode, kind, folder, turn, plan)
        if failure is None:
            self.report(f"{title} done in {time.monotonic() - begin:.1f} s")
        else:
            location = f" at {failure.location}" if failure.location else ""
            self.report(f"{title} failed{location}: {get_first_line(failure)}", is_failure=True)
        return failure

    def _format_pass(self, mode: ExecutionMode, kind: Pass, turn: int) -> str:
        self.started += 1
        modes, processes = self.request.modes, self.request.processes
        total = sum(len(self.request.get_passes(other)) + processes - 1 for other in modes)
        has_turns = kind is Pass.CLEAN and processes > 1
        process = f", process {turn + 1} of {processes}" if has_turns else ""
        return f"[{self.started}/{total}] {mode.value}: {kind.value} pass{process}"

    def _pass_folder(self, mode: ExecutionMode, kind: Pass, turn: int = 0) -> Path:
        return self.scratch / f"{mode.value}-{kind.value}-{turn}"

    def _examine(self) -> DoctorReport | None:
        folder = self.scratch / "doctor"
        folder.mkdir()
        request = self.request
        report = examine_workload(
            self.factory, request.seed, request.warmup, STEPS, folder, request.settings
        )
        if isinstance(report, Failure) or not report.findings:
            return None
        lines = [finding.location.text for finding in report.findings if finding.location]
        first = ", ".join(lines[:1])
        self.report(f"doctor: {len(report.findings)} findings, first at {first}")
        return report
