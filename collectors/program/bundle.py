"""Build a run bundle from the files of a recorder, also for a killed program."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from collectors.ceilings.store import load
from collectors.collection.machine import WORKER
from collectors.collection.source_code import read_source_code
from collectors.cupti.code_files import CodeFiles, find_unread_kernels
from collectors.cupti.code_reader import read_launch_control
from collectors.cupti.cubin import add_launch_control
from collectors.passes.capture_events import reduce_capture_trace
from collectors.passes.trace_file import Reduction, compress_trace
from collectors.program.files import (
    CAPTURE_TRACE_FILE,
    CODE_FILE,
    COMPILATION_FILE,
    ENVIRONMENT_FILE,
    FAILURE_FILE,
    GRAPHS_FOLDER,
    IDENTITY_FILE,
    LEDGER_FILE,
    MEMORY_FILE,
    PROBLEMS_FILE,
    STATE_FILE,
    TRACE_FILE,
    WRITTEN_FILE,
    Identity,
    Problems,
    ProcessFolder,
)
from collectors.program.launcher import format_signal
from collectors.program.loop.reading import read_loop
from collectors.program.progress import add_progress, read_progress
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.write import BundleWriter, create_manifest
from graphviz_dash.errors import GraphvizDashError, InputError, escape_control_characters
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.ceilings import Ceilings
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.ledger import Ledger, SampleKind
from graphviz_dash.model.recording import ProcessOrigin, Recording, StartMethod, WindowEnd
from graphviz_dash.model.run import (
    PROCESS_DIED,
    Absent,
    Environment,
    ExecutionMode,
    Failure,
    FileRole,
    MemoryUse,
    Pass,
    WorkloadInfo,
)
from graphviz_dash.model.source_code import SourceCode
from graphviz_dash.units import pluralize

T = TypeVar("T")

KILLED: Final = (
    "missing are the last 100 ms of replays and steps, GPU times of the last replays and the "
    "allocator's statistics"
)
"""Missing part of a recording without an end."""

ONCE: Final = "the program ran once, as it is, and not in passes"


@dataclass(frozen=True)
class Program:
    """The recorded program."""

    command: tuple[str, ...]
    name: str
    returncode: int | None
    """Exit code, negative for a signal. None if the program continues."""
    unhooked: str | None = None
    """Description of unrecorded processes, or None."""
    pythons: frozenset[int] = frozenset()
    pid: int | None = None
    """Process id of the command. None if the program continues."""


def resolve_target(output: Path, name: str) -> Path:
    """Return the folder for the run ``name`` of the experiment ``output``.

    Raises:
        InputError: The name is not a valid folder name, or the folder exists.
    """
    if name != Path(name).name or name.startswith("."):
        raise InputError(f"--name {name}", "no plain name", "the name of a folder, such as graphed")
    target = output / name
    if target.exists() or target.is_symlink():
        raise InputError(
            target, "a run is already there", "a new place", "Choose another --name, or remove it."
        )
    return target


def write_runs(
    scratch: Path,
    output: Path,
    name: str,
    program: Program,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[Path, ...]:
    """Write a bundle for each process with recorded events.

    A single process becomes ``output/name``, a rank of torchrun ``output/name-rank<k>``. Further
    processes get a number: ``output/name-2``. ``report`` receives one line per message for the
    user.

    Raises:
        GraphvizDashError: Writing fails, or the environment cannot be read.
    """
    folders = [folder for folder in ProcessFolder.list_all(scratch) if has_events(folder)]
    identities = [_read(folder / IDENTITY_FILE, Identity) for folder in folders]
    names: Counter[str] = Counter()
    targets = []
    for folder, identity in zip(folders, identities, strict=True):
        rank = identity.rank if len(folders) > 1 else None
        own = name if rank is None else f"{name}-rank{rank}"
        run_name = _find_written(folder)
        targets.append(output / run_name if run_name else _free_target(output, own, names))
    # A process that executes itself again keeps its id: the last one has the children.
    runs = {identity.pid: path.name for identity, path in zip(identities, targets, strict=True)}
    new_targets = []
    for folder, identity, target in zip(folders, identities, targets, strict=True):
        if _find_written(folder) is not None:
            continue
        for line in write_run(folder, target, program, _find_origin(identity, runs, program)):
            report(f"{target.name}: {line}")
        new_targets.append(target)
        with suppress(OSError):  # a full disk
            (folder / WRITTEN_FILE).write_text(target.name, encoding="utf-8")
    return tuple(new_targets)


def _find_written(folder: Path) -> str | None:
    """Return the run that a killed command wrote for a process, or None."""
    try:
        return (folder / WRITTEN_FILE).read_text(encoding="utf-8") or None
    except FileNotFoundError:
        return None


def _free_target(output: Path, name: str, names: Counter[str]) -> Path:
    """Return ``output/name``, or the next free number."""
    while True:
        names[name] += 1
        target = output / (name if names[name] == 1 else f"{name}-{names[name]}")
        if not target.exists() and not target.is_symlink():
            return target


def _find_origin(identity: Identity, runs: dict[int, str], program: Program) -> ProcessOrigin:
    start_method = identity.start_method
    if start_method is None:
        inner = identity.parent_pid in program.pythons
        start_method = StartMethod.SUBPROCESS if inner else StartMethod.PROGRAM
    return ProcessOrigin(
        role=identity.role,
        start_method=start_method,
        pid=identity.pid,
        parent_pid=identity.parent_pid,
        parent=runs.get(identity.parent_pid) if identity.parent_pid != identity.pid else None,
    )


def has_events(folder: Path) -> bool:
    """Check if the process of ``folder`` captured, replayed or finished a step."""
    if not (folder / STATE_FILE).exists():
        return False
    state = _read(folder / STATE_FILE, Recording)
    return bool(state.graphs or state.earlier_replays or state.steps)


def write_run(
    folder: Path, target: Path, program: Program, origin: ProcessOrigin | None = None
) -> tuple[str, ...]:
    """Write one run bundle from a recorder's ``folder`` and return messages for the user.

    Raises:
        GraphvizDashError: Writing fails, or the environment cannot be read.
    """
    identity = _read(folder / IDENTITY_FILE, Identity)
    returncode = None if identity.forked else program.returncode
    graphs = _read_graphs(folder)
    state = msgspec.structs.replace(_read_state(folder, graphs, returncode), process=origin)
    loop = read_loop(folder, state, graphs)
    is_killed = _is_killed(state, identity, program)
    environment = _read_environment(folder, identity)
    graphs = _read_launch_control(folder, graphs, environment)
    ceilings = _find_ceilings(environment)
    failures = _list_failures(folder, returncode, is_killed)
    trace = folder / TRACE_FILE
    try:
        with BundleWriter(target) as writer:
            writer.add(parts.RECORDING, state)
            if loop is not None:
                writer.add(parts.LOOP, loop)
            if (folder / MEMORY_FILE).exists():
                writer.add(parts.MEMORY, _read(folder / MEMORY_FILE, MemoryUse))
            if isinstance(ceilings, Ceilings):
                writer.add(parts.CEILINGS, ceilings)
            if (folder / COMPILATION_FILE).exists():
                compilation = _read(folder / COMPILATION_FILE, Compilation)
                writer.add(parts.COMPILATION, _drop_unread_graphs(compilation, graphs))
            if (folder / LEDGER_FILE).exists():
                writer.add(parts.LEDGER, end_startup(_read(folder / LEDGER_FILE, Ledger)))
            for graph in graphs:
                writer.add_graph(graph)
            if (code := _read_source_code(folder, state, program)) is not None:
                writer.add(parts.SOURCE_CODE, code)
            if (folder / CAPTURE_TRACE_FILE).exists():
                writer.add_trace(
                    FileRole.CAPTURE_TRACE,
                    _compress(folder / CAPTURE_TRACE_FILE, reduce_capture_trace),
                )
            has_trace = trace.exists()
            if has_trace:
                writer.add_trace(FileRole.REPLAY_TRACE, _compress(trace))
            writer.commit(
                create_manifest(
                    command=program.command,
                    workload=WorkloadInfo(
                        name=program.name,
                        factory=program.name,
                        seed=None,
                        warmup=state.skip_steps,
                        iterations=len(state.step_ns),
                        traced_iterations=state.window_steps,
                    ),
                    mode=ExecutionMode.RECORDED,
                    rank=identity.rank,
                    group=identity.group,
                    status="killed" if is_killed else None,
                    failures=failures,
                    absent=(
                        *_list_absent(state, folder, has_trace, program.unhooked),
                        *(() if isinstance(ceilings, Ceilings) else (ceilings,)),
                    ),
                    environment=environment,
                )
            )
    except OSError as error:
        raise GraphvizDashError(
            f"{target}: could not be written ({error.strerror or error}); nothing of it was kept."
        ) from error
    return _list_warnings(state, is_killed)


def _read_source_code(folder: Path, state: Recording, program: Program) -> SourceCode | None:
    """Read the code of the lines that captured graphs, or None without a capture trace."""
    trace = folder / CAPTURE_TRACE_FILE
    if not trace.exists():
        trace = folder / TRACE_FILE
        if not any(graph.profiled for graph in state.graphs):
            return None
    scripts = [Path(argument).parent for argument in program.command if argument.endswith(".py")]
    return read_source_code(trace, scripts)


def _read_launch_control(
    folder: Path, graphs: tuple[CapturedGraph, ...], environment: Environment
) -> tuple[CapturedGraph, ...]:
    """Read the code of kernels with programmatic edges from the files of the program."""
    names = find_unread_kernels(graphs)
    if not names or environment.gpu is None or not (folder / CODE_FILE).exists():
        return graphs
    files = _read(folder / CODE_FILE, CodeFiles)
    controls = read_launch_control(files, names, environment.gpu.compute_capability)
    return tuple(add_launch_control(graph, controls) for graph in graphs)


def _find_ceilings(environment: Environment) -> Ceilings | Absent:
    """Load the limits of the GPU. Measuring could disturb other programs."""
    reason = "they were not measured: graphviz-dash bench limits"
    try:
        ceilings = load(environment)
        if ceilings is not None:
            return ceilings
    except GraphvizDashError as error:
        reason = f"they could not be read: {error}"
    return Absent(Fact.CEILINGS, reason)


def _list_warnings(state: Recording, is_killed: bool) -> tuple[str, ...]:
    warnings = []
    if is_killed:
        warnings.append(f"the process was killed; {KILLED}")
    if (
        state.window_ended_by is not None
        and not state.window_steps
        and state.window_missing_reason is None
    ):
        warnings.append("the traced window closed before a step was complete")
    if (
        state.window_ended_by is WindowEnd.EVENTS
        and state.window_steps < state.requested_window_steps
    ):
        warnings.append(
            f"the traced window holds {state.window_steps} of {state.requested_window_steps} "
            "steps, because more would have paused the program for longer: see --window-pause"
        )
    if state.cupti_attached is not None:
        warnings.append(
            f"CUPTI is still attached ({state.cupti_attached}): graph launches after the traced "
            "window cost 1.7 to 35 times more (0.2 to 0.6 µs per node)"
        )
    return tuple(warnings)


def _read_graphs(folder: Path) -> tuple[CapturedGraph, ...]:
    """Read the graphs in capture order, each followed by its bodies, except incomplete files."""
    files = (folder / GRAPHS_FOLDER).glob("graph-*.json")

    def order(file: Path) -> list[int]:
        return [int(part) for part in file.stem.removeprefix("graph-").split(".")]

    return tuple(_read(file, CapturedGraph) for file in sorted(files, key=order))


def end_startup(ledger: Ledger) -> Ledger:
    """End the start-up of a killed process at the first replay since the last capture, if any, as
    at the end of other processes."""
    begins = [
        sample.time_ns for sample in ledger.samples if sample.kind is SampleKind.CAPTURE_BEGIN
    ]
    ends = [
        graph.first_replay_ns
        for graph in ledger.graphs
        if graph.first_replay_ns is not None and graph.first_replay_ns > max(begins, default=0)
    ]
    if ledger.startup_end_ns is not None or not ends:
        return ledger
    return msgspec.structs.replace(ledger, startup_end_ns=min(ends))


def _drop_unread_graphs(compilation: Compilation, graphs: tuple[CapturedGraph, ...]) -> Compilation:
    graph_ids = {graph.id for graph in graphs}
    return msgspec.structs.replace(
        compilation,
        nodes=tuple(
            node if node.graph in graph_ids else msgspec.structs.replace(node, graph=None)
            for node in compilation.nodes
        ),
    )


def _read_state(
    folder: Path, graphs: tuple[CapturedGraph, ...], returncode: int | None
) -> Recording:
    """Read the recording; graphs without files count as unread."""
    state = _read(folder / STATE_FILE, Recording)
    if state.reached_end is False:
        state = add_progress(state, read_progress(folder))
    graph_ids = {graph.id for graph in graphs}
    return msgspec.structs.replace(
        state,
        exit_code=returncode,
        graphs=tuple(
            graph
            if not graph.nodes or graph.graph in graph_ids
            else msgspec.structs.replace(graph, nodes=None, problem="it could not be written")
            for graph in state.graphs
        ),
    )


def _compress(trace: Path, reduce: Reduction | None = None) -> Path:
    """Compress a trace, which is too slow to do inside the program."""
    archive = trace.with_name(f"{trace.name}.gz")
    compress_trace(trace, archive, reduce)
    trace.unlink()
    return archive


def _is_killed(state: Recording, identity: Identity, program: Program) -> bool:
    if state.reached_end is not False:
        return False
    return not (identity.pid == program.pid and program.returncode is not None) or (
        program.returncode < 0
    )


def _list_failures(folder: Path, returncode: int | None, is_killed: bool) -> tuple[Failure, ...]:
    if (folder / FAILURE_FILE).exists():
        return (_read(folder / FAILURE_FILE, Failure),)
    if returncode is not None and returncode < 0:
        died = f"the program was ended by {format_signal(-returncode)}"
    elif is_killed:
        died = f"the process was killed, or ended without exit handlers; {KILLED}"
    else:
        return ()
    return (Failure(Pass.RECORDED, PROCESS_DIED, died, None, ""),)


def _list_absent(
    state: Recording, folder: Path, has_trace: bool, unhooked: str | None
) -> tuple[Absent, ...]:
    facts = [Absent(fact, ONCE) for fact in (Fact.CLEAN_PASS, Fact.MEMORY_PASS)]
    if not state.graphs:
        facts.append(Absent(Fact.CAPTURE_PASS, "the program captured no graph"))
    elif not any(graph.profiled for graph in state.graphs):
        reason = "the program captured its graphs while no profiler of ours ran (--attribute)"
        facts.append(Absent(Fact.CAPTURE_PASS, reason))
    if not has_trace:
        facts.append(Absent(Fact.TRACED_PASS, _explain_missing_trace(state)))
    if not (folder / MEMORY_FILE).exists():
        reason = "its recording has no end: the process was ended, or nothing more could be written"
        facts.append(Absent(Fact.MEMORY, reason))
    reasons = []
    if state.reached_end is False:
        reasons.append(f"its recording has no end: {KILLED}")
    if (folder / PROBLEMS_FILE).exists():
        problems = _read(folder / PROBLEMS_FILE, Problems)
        suffix = " and stopped" if problems.stopped else ""
        reasons.append(
            f"the recorder failed {problems.errors} times{suffix}, first: {problems.first}"
        )
    if unhooked is not None:
        reasons.append(f"of the program's Pythons that imported torch, {unhooked}")
    if reasons:
        facts.append(Absent(Fact.COMPLETE_RECORDING, "; ".join(reasons)))
    return tuple(facts)


def _explain_missing_trace(state: Recording) -> str:
    if state.window_missing_reason is not None:
        return state.window_missing_reason
    if state.window_open_ns is not None and state.reached_end is False:
        return "the process ended before the trace of its window was written"
    if state.boundary_kind is None:
        return "nothing in the program looked like a step; call collectors.step() at its end"
    return (
        f"the program ended before its traced window: {pluralize(state.steps, 'step')} in all, "
        f"and the window comes after {state.skip_steps} without a capture (--skip)"
    )


def _read_environment(folder: Path, identity: Identity) -> Environment:
    file = folder / ENVIRONMENT_FILE
    if not file.exists():
        # The program was killed early or has no GPU; the machine is still the same.
        command = [*WORKER, "--environment", str(file)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            line = (result.stderr.strip() or "no answer").splitlines()[-1]
            raise GraphvizDashError(
                escape_control_characters(f"The program ran, and nothing was recorded: {line}")
            )
    environment = _read(file, Environment)
    return msgspec.structs.replace(environment, torch=identity.torch, python=identity.python)


def _read(file: Path, kind: type[T]) -> T:
    return msgspec.json.decode(file.read_bytes(), type=kind)
