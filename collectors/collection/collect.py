"""A collection: the passes of every mode, each in a process of its own, made into run bundles.

The clean passes come first, before anything attaches a profiler, in several processes each: those
of all modes in turns, so that what changes on the machine meanwhile meets them all.
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
    """Collects each mode into ``output/<mode>`` and returns what was written.

    As one of several ranks (``context``) it collects into ``output/<mode>-rank<N>``, pass by pass
    together with the others. A mode that fails does not stop the others: its failure is in its
    bundle. ``report`` is told of each pass as it begins and ends.

    Raises:
        InputError: the workload is unknown, or a run is already at its target.
        MissingRequirementError: torch sees no CUDA device, or none for this rank.
        GraphvizDashError: the environment could not be read, the other ranks not be reached, or the
            disk is full; the message says what was kept.
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
                # A rank's new folder could be taken for a leftover before it is locked.
                peers.after_first(lambda: _tidy(asked.output, report))
            with (
                Staging(asked.output, "collect") as staging,
                fork_server(context, staging.path) as server,
            ):
                environment = machine_environment(staging.path, context, server)
                report(MachineRead(environment))
                runner = PassRunner(asked, factory, peers, report, server)
                course = _Course(asked, factory, environment, staging.path, runner, report)
                course.plan_modes()
                course.time_modes()
                for mode in asked.modes:
                    runs.append(course.collect(mode))
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
                "a run is already there",
                "a new place",
                "Choose another -o, or remove it.",
            )


def _tidy(output: Path, report: Report) -> None:
    for leftover in remove_leftovers(output):
        report(LeftoverRemoved(leftover))


def _kept(
    asked: Collection, runs: list[CollectedRun]
) -> tuple[tuple[Path, ...], ExecutionMode | None]:
    """The bundles of an ended collection, and the mode of which there is none."""
    lost = asked.modes[len(runs)] if len(runs) < len(asked.modes) else None
    return tuple(run.path for run in runs), lost


@dataclass
class _Course:
    """A collection under way."""

    asked: Collection
    """What is collected."""
    factory: str
    """``module:function`` of the workload's factory."""
    environment: Environment
    """The machine, for the manifests."""
    scratch: Path
    """Holds a folder for each pass, which goes away at the end."""
    runner: PassRunner
    """Runs the passes."""
    report: Report
    """Is told what happens."""
    timed: dict[ExecutionMode, list[Path]] = field(default_factory=dict)
    """The folders of the processes of each mode's clean pass that ended well."""
    untimed: dict[ExecutionMode, Failure] = field(default_factory=dict)
    """How a process of a mode's clean pass failed, after which there were no more of them, or the
    pass that was to plan it."""
    begun: int = 0
    """Passes that were begun or skipped, each process of a clean pass for one."""

    def plan_modes(self) -> None:
        """Runs the plan passes: what the others of a mode that is planned follow."""
        for mode in self.asked.modes:
            if mode.is_planned:
                failure = self._run(mode, Pass.PLAN, self._folder(mode, Pass.PLAN))
                if failure is not None:
                    self.untimed[mode] = failure

    def time_modes(self) -> None:
        """Runs the clean passes: the first process of each mode, then the second, and so on."""
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
        """Runs the other passes of one mode and writes its bundle."""
        folders, failures, skipped = self._run_passes(mode)
        doctor: DoctorReport | None = None
        examined = mode.captures_whole_step and not (mode.is_compiled or mode.is_planned)
        if examined and failures and self.runner.peers is None:
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
        """What the passes that ended well left, how others failed, and those that were not run."""
        passes = tuple(
            kind for kind in self.asked.passes(mode) if kind not in (Pass.PLAN, Pass.CLEAN)
        )
        failures = [self.untimed[mode]] if mode in self.untimed else []
        if mode not in self.timed:
            # What cannot run clean cannot run under the profiler either.
            self.begun += len(passes) - mode.is_compiled
            if mode.is_compiled:
                # But there it is heard what was compiled until then, as in no clean pass.
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
        """Runs a pass, or one process of a clean one, and tells of it; how it failed, if it did."""
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
        total = sum(len(self.asked.passes(each)) + processes - 1 for each in modes)
        several = (turn + 1, processes) if kind is Pass.CLEAN and processes > 1 else None
        return NumberedPass(self.begun, total, mode, kind, several)

    def _folder(self, mode: ExecutionMode, kind: Pass, turn: int = 0) -> Path:
        return self.scratch / f"{mode.value}-{kind.value}-{turn}"

    def _examine(self) -> DoctorReport | None:
        """Why the step cannot be captured; None when the doctor has no finding."""
        folder = self.scratch / "doctor"
        folder.mkdir()
        asked = self.asked
        report = examine_workload(
            self.factory, asked.seed, asked.warmup, STEPS, folder, asked.settings
        )
        if isinstance(report, Failure) or not report.findings:
            return None
        self.report(StepExamined(report))
        return report
