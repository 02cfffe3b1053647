"""A collection: the passes of every mode, each in a process of its own, made into run bundles."""

from __future__ import annotations

import gzip
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from collectors import machine
from collectors.doctor.ask import STEPS, examine_workload
from collectors.machine import (
    how_it_died,
    last_line,
    machine_environment,
    read_result,
    worker_environment,
)
from collectors.passes.observer_plan import ABOUT, observers_of
from collectors.passes.parameters import WorkloadFacts
from collectors.process.requests import (
    ABSENT_FILE,
    CLEAN_FILE,
    FAILURE_FILE,
    GRAPHS_FILE,
    MEMORY_FILE,
    MEMORY_PASS_FILE,
    NO_SPACE,
    NODE_IDS_FILE,
    OBSERVERS_FILE,
    REPLAY_IDS_FILE,
    TRACE_FILE,
    UPDATES_FILE,
    WORKLOAD_FILE,
    PassRequest,
)
from collectors.process.subprocesses import Limit
from collectors.ranks import Peers, Place, meeting
from collectors.workloads import factory_path
from graphviz_dash import __version__
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.staging import Staging, remove_leftovers
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.errors import GraphvizDashError, InputError, printable
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.memory import MemoryPass
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass
from graphviz_dash.model.observers import Observed, Observer, ObserverPass
from graphviz_dash.model.run import (
    FORMAT_NAME,
    FORMAT_VERSION,
    Absent,
    Environment,
    ExecutionMode,
    Failure,
    FileRole,
    GraphUpdates,
    Manifest,
    MemoryUse,
    Pass,
    WorkloadInfo,
)
from graphviz_dash.model.timings import CleanTimings
from graphviz_dash.units import format_bytes

Report = Callable[[str], None]

SUPPORTED = tuple(mode for mode in ExecutionMode if not mode.is_recorded)


_RANKS_TIMEOUT_S = 900
"""How long a pass may take with several ranks unless told: one that is stuck holds up all."""

_TAIL = 2_000
"""Characters of a crashed pass's stderr that are kept in the bundle."""


@dataclass(frozen=True)
class Collection:
    """What to collect. ``command`` is what the user typed, kept in the manifest; ``settings`` are
    ``name=value`` of the workload's parameters. ``name`` is what a single run is called instead of
    by its mode. A pass that takes longer than ``timeout_s`` is ended; None: it may take as long as
    it likes. ``node_ids``: with the node-id pass; ``observers``: with the observers pass."""

    workload: str
    modes: tuple[ExecutionMode, ...]
    output: Path
    iterations: int
    traced_iterations: int
    warmup: int
    seed: int
    command: tuple[str, ...]
    timeout_s: int | None = None
    settings: tuple[str, ...] = ()
    name: str | None = None
    node_ids: bool = False
    observers: bool = False

    def passes(self, mode: ExecutionMode) -> tuple[Pass, ...]:
        """The passes of a mode, in their order."""
        watching = (Pass.OBSERVERS,) if self.observers else ()
        if mode.is_baseline:
            return (Pass.CLEAN, Pass.TRACED, Pass.MEMORY, *watching)
        naming = (Pass.NODE_IDS,) if self.node_ids else ()
        return (Pass.CLEAN, Pass.CAPTURE, Pass.TRACED, Pass.MEMORY, *naming, *watching)


@dataclass(frozen=True)
class CollectedRun:
    """A bundle that was written, and how the run failed, if it did."""

    path: Path
    failures: tuple[Failure, ...]


def collect(
    what: Collection, report: Report, place: Place | None = None
) -> tuple[CollectedRun, ...]:
    """Collects each mode into ``output/<mode>`` and returns what was written.

    As one of several ranks (``place``) it collects into ``output/<mode>-rank<N>``, pass by pass
    together with the others. A mode that fails does not stop the others: its failure is in its
    bundle. ``report`` gets a line for each pass as it begins and ends.

    Raises:
        InputError: the workload is unknown, or a run is already at its place.
        MissingRequirementError: torch sees no CUDA device, or none for this rank.
        GraphvizDashError: the environment could not be read, the other ranks not be reached, or the
            disk is full; the message says what was kept.
    """
    factory = factory_path(what.workload)
    for mode in what.modes:
        target = what.output / _run_name(what, mode, place)
        if target.exists():
            raise InputError(
                target,
                "a run is already there",
                "a new place",
                "Choose another -o, or remove it.",
            )
    runs: list[CollectedRun] = []
    try:
        what.output.mkdir(parents=True, exist_ok=True)
        with meeting(place) as peers:
            if peers is None:
                _tidy(what.output, report)
            else:
                # A rank's new folder could be taken for a leftover before it is locked.
                peers.after_first(lambda: _tidy(what.output, report))
            with Staging(what.output, "collect") as staging:
                environment = machine_environment(staging.path, place)
                report(
                    f"{environment.gpu_name}, driver {environment.driver or 'unknown'}, "
                    f"CUDA {environment.cuda_runtime}, torch {environment.torch}"
                )
                progress = _Progress(report, sum(len(what.passes(mode)) for mode in what.modes))
                for mode in what.modes:
                    runs.append(
                        _collect_mode(
                            what, factory, mode, environment, staging.path, progress, peers
                        )
                    )
    except KeyboardInterrupt:
        report(_kept(what, runs))
        raise
    except OSError as error:
        text = f"{error.filename or what.output}: {error.strerror or error}. {_kept(what, runs)}"
        raise GraphvizDashError(printable(text)) from error
    return tuple(runs)


def _tidy(output: Path, report: Report) -> None:
    for leftover in remove_leftovers(output):
        size = format_bytes(leftover.bytes)
        report(f"Removed {leftover.path.name} ({size}), left by a collector that was killed")


def _kept(what: Collection, runs: list[CollectedRun]) -> str:
    """What of an ended collection is in the output folder."""
    lost = what.modes[len(runs)].value if len(runs) < len(what.modes) else None
    kept = ", ".join(run.path.name for run in runs)
    text = f"Kept in {what.output}: {kept}" if kept else f"Nothing was kept in {what.output}"
    return f"{text}; nothing of {lost} was written." if kept and lost else f"{text}."


def _run_name(what: Collection, mode: ExecutionMode, place: Place | None) -> str:
    name = what.name or mode.value
    return name if place is None else f"{name}-rank{place.rank}"


class _Progress:
    def __init__(self, report: Report, total: int) -> None:
        self._report = report
        self._total = total
        self._number = 0

    def begin(self, text: str) -> None:
        self._number += 1
        self._report(f"[{self._number}/{self._total}] {text} …")

    def end(self, text: str) -> None:
        self._report(f"[{self._number}/{self._total}] {text}")

    def note(self, text: str) -> None:
        self._report(text)

    def skip(self, count: int) -> None:
        self._number += count


def _collect_mode(
    what: Collection,
    factory: str,
    mode: ExecutionMode,
    environment: Environment,
    scratch: Path,
    progress: _Progress,
    peers: Peers | None,
) -> CollectedRun:
    failures: list[Failure] = []
    absent: list[Absent] = []
    folders: dict[Pass, Path] = {}
    passes = what.passes(mode)
    for place, kind in enumerate(passes):
        folder = scratch / f"{mode.value}-{kind.value}"
        folder.mkdir()
        progress.begin(f"{mode.value}: {kind.value} pass")
        begin = time.monotonic()
        if kind is Pass.OBSERVERS:
            failure = _observe(what, factory, mode, folder, progress)
        else:
            failure = _run_pass(what, factory, mode, kind, folder, peers)
        took = time.monotonic() - begin
        if failure is None:
            folders[kind] = folder
            progress.end(f"{mode.value}: {kind.value} pass done in {took:.1f} s")
            continue
        failures.append(failure)
        where = f" at {failure.location}" if failure.location else ""
        first = failure.message.splitlines()[0] if failure.message else ""
        progress.end(f"{mode.value}: {kind.value} pass failed{where}: {printable(first)}")
        if kind is Pass.CLEAN:
            # What cannot run clean cannot run under the profiler either.
            left = passes[place + 1 :]
            progress.skip(len(left))
            absent += [Absent(f"{later.value} pass", "the clean pass failed") for later in left]
            break
    absent = [
        *(
            Absent(f"{failure.during.value} pass", "it failed, see failures")
            for failure in failures
        ),
        *absent,
    ]
    absent += _absent_facts(mode)
    for folder in folders.values():
        if (folder / ABSENT_FILE).exists():
            absent += read_result(folder / ABSENT_FILE, tuple[Absent, ...])
    facts = _workload_facts(scratch / f"{mode.value}-{passes[0].value}")
    doctor: DoctorReport | None = None
    if mode.captures_whole_step and failures and peers is None:
        doctor = _examined(what, factory, scratch, progress)
    target = what.output / _run_name(what, mode, peers.place if peers else None)
    manifest = Manifest(
        format=FORMAT_NAME,
        version=FORMAT_VERSION,
        tool_version=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=what.command,
        workload=WorkloadInfo(
            name=what.workload,
            factory=factory,
            seed=what.seed,
            warmup=what.warmup,
            iterations=what.iterations,
            traced_iterations=what.traced_iterations,
            parameters=facts.parameters,
            work=facts.work,
        ),
        mode=mode,
        rank=peers.place.rank if peers else None,
        group=peers.facts(worker_environment(peers.place)) if peers else None,
        status="failed" if failures else "complete",
        failures=tuple(failures),
        absent=tuple(absent),
        environment=environment,
        files=(),
    )
    _write(target, folders, manifest, doctor)
    return CollectedRun(target, tuple(failures))


def _examined(
    what: Collection, factory: str, scratch: Path, progress: _Progress
) -> DoctorReport | None:
    """Why the step cannot be captured; None when the doctor found nothing to say."""
    folder = scratch / "doctor"
    folder.mkdir()
    found = examine_workload(factory, what.seed, what.warmup, STEPS, folder, what.settings)
    if isinstance(found, Failure) or not found.findings:
        return None
    places = [finding.place.text for finding in found.findings if finding.place]
    progress.note(f"doctor: {len(found.findings)} findings, first at {', '.join(places[:1])}")
    return found


def _write(
    target: Path, folders: dict[Pass, Path], manifest: Manifest, doctor: DoctorReport | None
) -> None:
    with BundleWriter(target) as writer:
        _add_parts(writer, folders)
        if doctor is not None:
            writer.add(parts.DOCTOR, doctor)
        writer.commit(manifest)


def _absent_facts(mode: ExecutionMode) -> tuple[Absent, ...]:
    if mode.is_baseline:
        return (Absent("graphs", "mode eager captures none"),)
    return ()


def _workload_facts(folder: Path) -> WorkloadFacts:
    """What the first pass wrote, before it ran anything; empty where it died before that."""
    file = folder / WORKLOAD_FILE
    return read_result(file, WorkloadFacts) if file.exists() else WorkloadFacts({}, None)


def _run_pass(
    what: Collection,
    factory: str,
    mode: ExecutionMode,
    kind: Pass,
    folder: Path,
    peers: Peers | None,
    observer: Observer | None = None,
) -> Failure | None:
    """The failure of the pass, which with several ranks is that of any of them."""
    name = f"{mode.value}-{kind.value}"
    timeout_s = what.timeout_s or (_RANKS_TIMEOUT_S if peers else None)
    request = PassRequest(
        kind=kind,
        mode=mode,
        factory=factory,
        seed=what.seed,
        warmup=what.warmup,
        iterations=what.iterations,
        traced_iterations=what.traced_iterations,
        out=str(folder),
        group=peers.group(name, timeout_s or _RANKS_TIMEOUT_S) if peers else None,
        settings=what.settings,
        observer=observer,
    )
    request_file = folder / "request.json"
    request_file.write_bytes(msgspec.json.encode(request))
    limit = Limit(timeout_s, (lambda: peers.failed(name)) if peers else None)
    process = machine.run_pass_worker(
        str(request_file), place=peers.place if peers else None, limit=limit
    )
    failure = _failure_of(process, folder, kind, limit)
    return peers.settle(name, failure, kind) if peers else failure


def _observe(
    what: Collection, factory: str, mode: ExecutionMode, folder: Path, progress: _Progress
) -> Failure | None:
    """Times the step under each observer, in a process each, and joins what they found; how the
    process failed to which nothing was attached. What another could not do is absent."""
    found: list[Observed] = []
    absent: list[Absent] = []
    wanted, missing = observers_of(mode)
    absent += missing
    for number, observer in enumerate(wanted):
        place = folder / str(number)
        place.mkdir()
        failure = _run_pass(what, factory, mode, Pass.OBSERVERS, place, None, observer)
        if failure is None:
            rows = read_result(place / OBSERVERS_FILE, tuple[Observed, ...])
            found += [msgspec.structs.replace(row, process=number) for row in rows]
            continue
        if observer is Observer.NONE:
            return failure
        first = failure.message.partition("\n")[0]
        reason = f"its process failed: {failure.error}: {printable(first)}"
        absent.append(Absent(f"observer {observer.value}", reason))
        progress.note(f"{mode.value}: {ABOUT[observer]} failed: {printable(first)}")
    series = [row for row in found if row.steps]
    iterations = max(len(row.steps) for row in series)
    joined = ObserverPass(iterations=iterations, observed=tuple(series))
    (folder / OBSERVERS_FILE).write_bytes(msgspec.json.encode(joined))
    (folder / ABSENT_FILE).write_bytes(msgspec.json.encode(absent))
    return None


def _failure_of(
    process: subprocess.CompletedProcess[str], folder: Path, kind: Pass, limit: Limit
) -> Failure | None:
    if process.returncode == 0:
        return None
    if process.returncode == NO_SPACE:
        code, _, where = last_line(process.stderr).partition(" ")
        raise OSError(int(code), os.strerror(int(code)), where or str(folder))
    if (folder / FAILURE_FILE).exists():
        return read_result(folder / FAILURE_FILE, Failure)
    if process.returncode == InputError.exit_code:
        raise GraphvizDashError(printable(last_line(process.stderr)))
    return Failure(
        during=kind,
        error="ProcessDied" if limit.reason is None else limit.error,
        message=limit.reason or how_it_died(process.returncode),
        location=None,
        traceback=_without_modules(process.stderr)[-_TAIL:],
    )


def _without_modules(stderr: str) -> str:
    """Without the list of all modules that Python's report of a crash ends with."""
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("Extension modules:"))


def _add_parts(writer: BundleWriter, folders: dict[Pass, Path]) -> None:
    if clean := folders.get(Pass.CLEAN):
        writer.add(parts.CLEAN, read_result(clean / CLEAN_FILE, CleanTimings))
        writer.add(parts.MEMORY, read_result(clean / MEMORY_FILE, MemoryUse))
        if (clean / UPDATES_FILE).exists():
            writer.add(parts.UPDATES, read_result(clean / UPDATES_FILE, GraphUpdates))
    if captured := folders.get(Pass.CAPTURE):
        for graph in read_result(captured / GRAPHS_FILE, tuple[CapturedGraph, ...]):
            writer.add_graph(graph)
        writer.add_trace(FileRole.CAPTURE_TRACE, captured / TRACE_FILE)
    if traced := folders.get(Pass.TRACED):
        writer.add_trace(FileRole.REPLAY_TRACE, traced / TRACE_FILE)
    if watched := folders.get(Pass.MEMORY):
        writer.add(parts.MEMORY_PASS, read_result(watched / MEMORY_PASS_FILE, MemoryPass))
    # Ids are of graphs that the capture pass has read.
    if captured and traced and (traced / REPLAY_IDS_FILE).exists():
        writer.add(parts.REPLAY_IDS, read_result(traced / REPLAY_IDS_FILE, tuple[GraphIds, ...]))
    if captured and (named := folders.get(Pass.NODE_IDS)):
        packed = gzip.decompress((named / NODE_IDS_FILE).read_bytes())
        writer.add(parts.NODE_IDS, msgspec.json.decode(packed, type=NodeIdPass))
    if observed := folders.get(Pass.OBSERVERS):
        writer.add(parts.OBSERVERS, read_result(observed / OBSERVERS_FILE, ObserverPass))
