"""Write the bundle of a collected run from the results of its passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from collectors.collection.collection import Collection
from collectors.collection.machine import build_worker_environment
from collectors.collection.ranks import Peers
from collectors.collection.source_code import read_source_code
from collectors.passes.parameters import WorkloadFacts
from collectors.process.requests import ABSENT_FILE, GRAPHS_FILE, TRACE_FILE, WORKLOAD_FILE
from collectors.process.results import read_json, read_result, write_result
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.parts import JsonPart
from graphviz_dash.bundle.write import BundleWriter, create_manifest
from graphviz_dash.model.absence import Fact
from graphviz_dash.model.ceilings import Ceilings
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import (
    Absent,
    Environment,
    ExecutionMode,
    Failure,
    FileRole,
    Manifest,
    Pass,
    WorkloadInfo,
)

_PARTS_BY_PASS: Final[tuple[tuple[Pass, tuple[JsonPart[Any], ...]], ...]] = (
    (Pass.PLAN, (parts.PARALLEL,)),
    (Pass.MEMORY, (parts.MEMORY_PASS, parts.LEDGER)),
    (Pass.TRACED, (parts.REPLAY_IDS,)),
    (Pass.NODE_IDS, (parts.NODE_IDS,)),
    (Pass.OBSERVERS, (parts.OBSERVERS,)),
)
"""Parts of each pass besides graphs and traces, in manifest order."""

_PARTS_WITH_GRAPH_IDS: Final = (parts.REPLAY_IDS, parts.NODE_IDS)
"""Parts that refer to graphs of the capture pass; omitted without it."""


def list_absent_facts(
    mode: ExecutionMode,
    folders: Mapping[Pass, Path],
    failures: Sequence[Failure],
    skipped: Sequence[Pass],
) -> tuple[Absent, ...]:
    """List the missing facts of a run with their reasons.

    ``skipped`` passes lack a required pass.
    """
    lost = [failure.stage for failure in failures if failure.stage not in folders]
    absent = [Absent(kind.fact, "the pass failed, see failures") for kind in lost]
    absent += [Absent(kind.fact, f"the {lost[0].fact.value} failed") for kind in skipped]
    if not mode.captures_graphs:
        absent.append(Absent(Fact.GRAPHS, f"mode {mode.value} captures no graphs"))
    for folder in folders.values():
        if (folder / ABSENT_FILE).exists():
            absent += read_json(folder / ABSENT_FILE, tuple[Absent, ...])
    return tuple(absent)


def build_manifest(
    request: Collection,
    factory: str,
    mode: ExecutionMode,
    environment: Environment,
    first_folder: Path,
    peers: Peers | None,
    failures: tuple[Failure, ...],
    absent: tuple[Absent, ...],
) -> Manifest:
    """Build the manifest of a run, without files."""
    facts = _read_workload_facts(first_folder)
    return create_manifest(
        command=request.command,
        workload=WorkloadInfo(
            name=request.workload,
            factory=factory,
            seed=request.seed,
            warmup=request.warmup,
            iterations=request.iterations,
            traced_iterations=request.traced_iterations,
            parameters=facts.parameters,
            work=facts.work,
        ),
        mode=mode,
        rank=peers.context.rank if peers else None,
        group=peers.build_rank_group(build_worker_environment(peers.context)) if peers else None,
        failures=failures,
        absent=absent,
        environment=environment,
    )


def join_processes(folders: Sequence[Path]) -> None:
    """Merge the timings of a clean pass's processes into the first one's folder."""
    read = [read_result(parts.CLEAN, folder) for folder in folders]
    first, *others = [timings for timings in read if timings is not None]
    for timings in others:
        first = replace(
            first,
            steps=first.steps + timings.steps,
            back_to_back_ns=first.back_to_back_ns + timings.back_to_back_ns,
            processes=first.processes + timings.processes,
        )
    write_result(parts.CLEAN, first, folders[0])


def write_run(
    target: Path,
    folders: Mapping[Pass, Path],
    manifest: Manifest,
    doctor: DoctorReport | None,
    compiled: Path | None,
    ceilings: Ceilings | None = None,
) -> None:
    """Write the bundle ``target`` from the pass results in ``folders``.

    ``compiled`` is the folder with the compilation record, whose pass may have failed.

    Raises:
        InputError: ``target`` already exists.
        OSError: The disk is full.
    """
    with BundleWriter(target) as writer:
        if folder := folders.get(Pass.CLEAN):
            _add_parts(writer, (parts.CLEAN, parts.MEMORY, parts.UPDATES), folder)
        if folder := folders.get(Pass.CAPTURE):
            for graph in read_json(folder / GRAPHS_FILE, tuple[CapturedGraph, ...]):
                writer.add_graph(graph)
            if code := read_source_code(folder / TRACE_FILE):
                writer.add(parts.SOURCE_CODE, code)
            writer.add_trace(FileRole.CAPTURE_TRACE, folder / TRACE_FILE)
        if folder := folders.get(Pass.TRACED):
            writer.add_trace(FileRole.REPLAY_TRACE, folder / TRACE_FILE)
        captured = Pass.CAPTURE in folders
        for kind, pass_parts in _PARTS_BY_PASS:
            if folder := folders.get(kind):
                selected = [
                    part for part in pass_parts if captured or part not in _PARTS_WITH_GRAPH_IDS
                ]
                _add_parts(writer, selected, folder)
        account = None if compiled is None else read_result(parts.COMPILATION, compiled)
        if account is not None:
            writer.add(parts.COMPILATION, account if captured else _remove_graph_ids(account))
        if ceilings is not None:
            writer.add(parts.CEILINGS, ceilings)
        if doctor is not None:
            writer.add(parts.DOCTOR, doctor)
        writer.commit(manifest)


def _remove_graph_ids(account: Compilation) -> Compilation:
    return replace(account, nodes=tuple(replace(node, graph=None) for node in account.nodes))


def _add_parts(writer: BundleWriter, parts: Sequence[JsonPart[Any]], folder: Path) -> None:
    for part in parts:
        content = read_result(part, folder)
        if content is not None:
            writer.add(part, content)


def _read_workload_facts(folder: Path) -> WorkloadFacts:
    file = folder / WORKLOAD_FILE
    return read_json(file, WorkloadFacts) if file.exists() else WorkloadFacts({}, None)
