"""Run the passes of every mode in separate processes and write run bundles.

Clean passes run first, before any profiler is attached. Their processes are interleaved across
modes so that changes of the machine affect all.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from collectors.collection.collection import CollectedRun, Collection
from collectors.collection.machine import fork_server, machine_environment
from collectors.collection.pass_runs import PassRunner
from collectors.collection.progress import (
    Interrupted,
    LeftoverRemoved,
    MachineRead,
    NumberedPass,
    PassBegan,
    PassDone,
    PassFailed,
    Report,
    StepExamined,
    kept_text,
)
from collectors.collection.ranks import RankContext, meeting
from collectors.collection.run_bundle import absent_facts, join_processes, manifest_of, write_run
from collectors.doctor.ask import STEPS, examine_workload
from collectors.workloads import factory_path
from graphviz_dash.bundle.staging import Staging, remove_leftovers
from graphviz_dash.errors import GraphvizDashError, InputError, printable
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.run import Environment, ExecutionMode, Failure, Pass


def collect(
    asked: Collection, report: Report, context: RankContext | None = None
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
    factory = factory_path(asked.workload)
    _check_free(asked, context)
    runs: list[CollectedRun] = []
    try:
        asked.output.mkdir(parents=True, exist_ok=True)
        with meeting(context) as peers:
            if peers is None:
                _tidy(asked.output, report)
            else:
                # Another rank could mistake this rank's new folder for a leftover before it is
                # locked.
                peers.after_first(lambda: _tidy(asked.output, report))
            with (
                Staging(asked.output, "collect") as staging,
                fork_server(context, staging.path) as server,
            ):
                environment = machine_environment(staging.path, context, server)
                report(MachineRead(environment))
                runner = PassRunner(asked, factory, peers, report, server)
                run = _Course(asked, factory, environment, staging.path, runner, report)
                run.plan_modes()
                run.time_modes()
                for mode in asked.modes:
                    runs.append(run.collect(mode))
    except KeyboardInterrupt:
        report(Interrupted(asked.output, *_kept(asked, runs)))
        raise
    except OSError as error:
        kept = kept_text(asked.output, *_kept(asked, runs))
        text = f"{error.filename or asked.output}: {error.strerror or error}. {kept}"
        raise GraphvizDashError(printable(text)) from error
    return tuple(runs)


def _check_free(asked: Collection, context: RankContext | None) -> None:
    for mode in asked.modes:
        target = asked.target(mode, context.rank if context else None)
        if target.exists():
            raise InputError(
                target,
                "the folder already holds a run",
                "a new folder",
                "Choose another -o, or delete that run.",
            )


def _tidy(output: Path, report: Report) -> None:
    for leftover in remove_leftovers(output):
        report(LeftoverRemoved(leftover))


def _kept(
    asked: Collection, runs: list[CollectedRun]
) -> tuple[tuple[Path, ...], ExecutionMode | None]:
    """Return the written bundles and the interrupted mode."""
    lost = asked.modes[len(runs)] if len(runs) < len(asked.modes) else None
    return tuple(run.path for run in runs), lost


@dataclass
class _Course:
    """A collection in progress."""

    asked: Collection
    factory: str
    """``module:function`` of the workload's factory."""
    environment: Environment
    """Machine description for the manifests."""
    scratch: Path
    """Temporary folder with one subfolder per pass."""
    runner: PassRunner
    report: Report
    """Receives progress events."""
    timed: dict[ExecutionMode, list[Path]] = field(default_factory=dict)
    """Folders of each mode's successful clean processes."""
    untimed: dict[ExecutionMode, Failure] = field(default_factory=dict)
    """First failure of a mode's clean or plan pass, which ends its clean pass."""
    begun: int = 0
    """Passes started or skipped, counting each clean process."""

    def plan_modes(self) -> None:
        """Run the plan pass of each planned mode; its other passes follow that plan."""
        for mode in self.asked.modes:
            if mode.is_planned:
                failure = self._run(mode, Pass.PLAN, self._folder(mode, Pass.PLAN))
                if failure is not None:
                    self.untimed[mode] = failure

    def time_modes(self) -> None:
        """Run the clean passes: the first process of each mode, then the second, and so on."""
        for turn in range(self.asked.processes):
            for mode in self.asked.modes:
                if mode in self.untimed:
                    self.begun += 1
                    continue
                folder = self._folder(mode, Pass.CLEAN, turn)
                failure = self._run(mode, Pass.CLEAN, folder, turn)
                if failure is None:
                    self.timed.setdefault(mode, []).append(folder)
                else:
                    self.untimed[mode] = failure
        for folders in self.timed.values():
            join_processes(folders)

    def collect(self, mode: ExecutionMode) -> CollectedRun:
        """Run the other passes of one mode and write its bundle."""
        folders, failures, skipped = self._run_passes(mode)
        doctor: DoctorReport | None = None
        can_examine = mode.captures_whole_step and not (mode.is_compiled or mode.is_planned)
        if can_examine and failures and self.runner.peers is None:
            doctor = self._examine()
        first_folder = self._folder(mode, self.asked.passes(mode)[0])
        manifest = manifest_of(
            self.asked,
            self.factory,
            mode,
            self.environment,
            first_folder,
            self.runner.peers,
            failures,
            absent_facts(mode, folders, failures, skipped),
        )
        target = self.asked.target(mode, manifest.rank)
        compiled = self._folder(mode, Pass.TRACED) if mode.is_compiled else None
        write_run(target, folders, manifest, doctor, compiled)
        return CollectedRun(target, failures)

    def _run_passes(
        self, mode: ExecutionMode
    ) -> tuple[dict[Pass, Path], tuple[Failure, ...], tuple[Pass, ...]]:
        """Return the folders of successful passes, the failures and the skipped passes."""
        passes = tuple(
            kind for kind in self.asked.passes(mode) if kind not in (Pass.PLAN, Pass.CLEAN)
        )
        failures = [self.untimed[mode]] if mode in self.untimed else []
        if mode not in self.timed:
            # A step that fails clean fails under the profiler too.
            self.begun += len(passes) - mode.is_compiled
            if mode.is_compiled:
                # The traced pass still shows the compilations before the failure; no clean pass
                # does.
                self._run(mode, Pass.TRACED, self._folder(mode, Pass.TRACED))
            unplanned = failures and failures[0].during is Pass.PLAN
            return {}, tuple(failures), (Pass.CLEAN, *passes) if unplanned else passes
        folders = {Pass.CLEAN: self.timed[mode][0]}
        if mode.is_planned:
            folders[Pass.PLAN] = self._folder(mode, Pass.PLAN)
        for kind in passes:
            folder = self._folder(mode, kind)
            failure = self._run(mode, kind, folder)
            if failure is None:
                folders[kind] = folder
            else:
                failures.append(failure)
        return folders, tuple(failures), ()

    def _run(self, mode: ExecutionMode, kind: Pass, folder: Path, turn: int = 0) -> Failure | None:
        """Run and report a pass or one process of a clean pass."""
        numbered = self._number(mode, kind, turn)
        folder.mkdir()
        self.report(PassBegan(numbered))
        begin = time.monotonic()
        planned = mode.is_planned and kind is not Pass.PLAN
        plan = self._folder(mode, Pass.PLAN) if planned else None
        failure = self.runner.run(mode, kind, folder, turn, plan)
        if failure is None:
            self.report(PassDone(numbered, time.monotonic() - begin))
        else:
            self.report(PassFailed(numbered, failure))
        return failure

    def _number(self, mode: ExecutionMode, kind: Pass, turn: int) -> NumberedPass:
        self.begun += 1
        modes, processes = self.asked.modes, self.asked.processes
        total = sum(len(self.asked.passes(other_mode)) + processes - 1 for other_mode in modes)
        several = (turn + 1, processes) if kind is Pass.CLEAN and processes > 1 else None
        return NumberedPass(self.begun, total, mode, kind, several)

    def _folder(self, mode: ExecutionMode, kind: Pass, turn: int = 0) -> Path:
        return self.scratch / f"{mode.value}-{kind.value}-{turn}"

    def _examine(self) -> DoctorReport | None:
        folder = self.scratch / "doctor"
        folder.mkdir()
        request = self.asked
        report = examine_workload(
            self.factory, request.seed, request.warmup, STEPS, folder, request.settings
        )
        if isinstance(report, Failure) or not report.findings:
            return None
        self.report(StepExamined(report))
        return report
