"""Foreign files made into run bundles."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from isal import igzip

from graphviz_dash import __version__
from graphviz_dash.analysis.replays.inferred_graphs import captured_launches, captured_order
from graphviz_dash.analysis.trace.steps import StepMethod, steps
from graphviz_dash.bundle.read import is_bundle, read_manifest
from graphviz_dash.bundle.write import BundleWriter, sha256_of
from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.importers.group import Group, Part, grouped, run_name, twice
from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.formats.debug_dot import read_debug_dot
from graphviz_dash.ingest.formats.graph_data import graph_data, read_graph_data
from graphviz_dash.ingest.formats.memory_snapshot import memory_use, read_memory_snapshot
from graphviz_dash.ingest.formats.nsight import convert_nsight
from graphviz_dash.ingest.formats.pickles import read_pickle
from graphviz_dash.ingest.formats.sniff import SourceKind, source_kind
from graphviz_dash.ingest.kineto.launch_arguments import launched_kernels
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.kineto.trace_head import read_head
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.node_ids import GraphIds
from graphviz_dash.model.run import (
    FORMAT_NAME,
    FORMAT_VERSION,
    Absent,
    Environment,
    ExecutionMode,
    FileRole,
    Gpu,
    Manifest,
    MemoryUse,
    RankGroup,
    Source,
    WorkloadInfo,
)
from graphviz_dash.model.trace import Trace

FACTORY: Final = "imported"

_NO_CLEAN: Final = (
    "imported from traces: all times in them are under a profiler, so there are no clean timings"
)
_GZIP: Final = b"\x1f\x8b"


@dataclass(frozen=True)
class Imported:
    """A bundle that was written: where, from which files, taken for what, and what it lacks."""

    path: Path
    sources: tuple[Source, ...]
    absent: tuple[Absent, ...]


@dataclass(frozen=True)
class Found:
    """What the parts of a group say, ready to be written."""

    graphs: tuple[CapturedGraph, ...]
    ids: tuple[GraphIds, ...]
    memory: MemoryUse | None
    absent: tuple[Absent, ...]


def import_files(
    files: Sequence[Path],
    folder: Path,
    *,
    mode: ExecutionMode = ExecutionMode.RECORDED,
    join: bool = False,
    command: Sequence[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    tell: Callable[[str], None] = lambda _: None,
    prefix: str = "",
    again: bool = False,
) -> tuple[Imported, ...]:
    """Makes run bundles of ``files`` in ``folder``, an experiment; files that belong to one run are
    joined (see :mod:`graphviz_dash.importers.group`). ``tell`` is called with a line for each step.
    ``prefix`` stands before the names of the runs. With ``again`` a run that is there already, of
    the same files, is taken for done.

    All files are read before the first bundle is written; a bundle is written whole or not at all.

    Raises:
        InputError: a file that is of no known kind or cannot be read, two of the same thing that
            are to be joined, or a run that is there already.
    """
    with tempfile.TemporaryDirectory(prefix="graphviz-dash-import-") as scratch:
        parts: list[Part] = []
        for number, file in enumerate(files):
            place = Path(scratch) / str(number)
            place.mkdir()
            tell(f"Reading {file.name}")
            parts += _parts(file, place, limits)
        groups = grouped(parts, join=join)
        if join and twice(groups[0].parts):
            raise InputError(
                groups[0].name,
                "two traces of captures, two of replays, or two memory snapshots",
                "at most one of each for one run",
                "Import them without --join.",
            )
        if prefix:
            groups = [replace(group, name=run_name(prefix + group.name)) for group in groups]
        done = {group.name: _done(group, folder) if again else None for group in groups}
        ready = [
            (group, _targeted(group, folder), _found(group, limits))
            for group in groups
            if done[group.name] is None
        ]
        names = [target for _, target, _ in ready]
        if len(set(names)) < len(names):
            several = next(target.name for target in names if names.count(target) > 1)
            raise InputError(several, "two files of this name", "a different name for each run")
        written = [one for one in done.values() if one is not None]
        for group, target, found in ready:
            tell(f"Writing {target.name}")
            written.append(_write(group, target, found, mode, tuple(command), Path(scratch)))
    return tuple(written)


def _parts(file: Path, scratch: Path, limits: Limits) -> Iterator[Part]:
    """What one file holds: one part, or one for each process of an Nsight Systems report."""
    kind = source_kind(file, limits)
    if kind is SourceKind.NSIGHT:
        traces = convert_nsight(file, scratch, limits)
        for one in traces:
            label = f"-pid{one.pid}" if len(traces) > 1 else ""
            yield _trace_part(one.path, file, kind, limits, label)
    elif kind is SourceKind.KINETO:
        yield _trace_part(file, file, kind, limits)
    elif kind is SourceKind.PICKLE:
        value = read_pickle(file, limits)
        graph = isinstance(value, dict) and "exec_graph_id" in value
        yield Part(file, file, SourceKind.GRAPH_DATA if graph else SourceKind.MEMORY_SNAPSHOT)
    else:
        yield Part(file, file, kind)


def _trace_part(
    path: Path, source: Path, kind: SourceKind, limits: Limits, label: str = ""
) -> Part:
    trace = read_trace(path, limits)
    launched = trace.runtime["name"].cast(str).str.contains("GraphLaunch").any()
    captures = captured_launches(trace)
    # What a capture's trace runs besides is warm-up; graph launches are what replays are made of.
    role = FileRole.CAPTURE_TRACE if captures and not launched else FileRole.REPLAY_TRACE
    return Part(path, source, kind, trace, role, label)


def _done(group: Group, folder: Path) -> Imported | None:
    """The run of these very files, if it is there already."""
    target = _target(group, folder)
    if not is_bundle(target):
        return None
    manifest = read_manifest(target)
    known = {source.sha256 for source in manifest.sources}
    if not known or known != {_source(part).sha256 for part in _once(group.parts)}:
        return None
    return Imported(target, manifest.sources, manifest.absent)


def _target(group: Group, folder: Path) -> Path:
    replay = group.trace(FileRole.REPLAY_TRACE) or group.trace(FileRole.CAPTURE_TRACE)
    rank = read_head(replay.file).rank if replay else None
    name = group.name
    if rank is not None and f"rank{rank.rank}" not in name:
        name += f"-rank{rank.rank}"
    return folder / name


def _targeted(group: Group, folder: Path) -> Path:
    target = _target(group, folder)
    if target.exists() or target.is_symlink():
        advice = "Choose another folder, or remove that run."
        raise InputError(target, "a run is already there", "a new place", advice)
    return target


def _found(group: Group, limits: Limits) -> Found:
    graphs: list[CapturedGraph] = []
    ids: list[GraphIds] = []
    absent = [Absent("clean pass", _NO_CLEAN)]
    for part in group.of_kind(SourceKind.DEBUG_DOT):
        graphs += _renumbered(read_debug_dot(part.file, limits), len(_roots(graphs)))
    for part in group.of_kind(SourceKind.GRAPH_DATA):
        graph, known = _graph_data(part.file, limits)
        (graph,) = _renumbered((graph,), len(_roots(graphs)))
        graphs.append(graph)
        ids.append(msgspec.structs.replace(known, graph=graph.id))
        absent.append(Absent(f"bodies and parameters of {graph.id}", f"not told by {part.kind}"))
    capture, replay = group.trace(FileRole.CAPTURE_TRACE), group.trace(FileRole.REPLAY_TRACE)
    if not graphs:
        told, reasons = _from_traces(capture, replay, limits)
        graphs += told
        absent += reasons
    else:
        reason = f"{graphs[0].read_by} does not tell which edges are programmatic"
        absent.append(Absent("types of edges", reason))
    if capture is None:
        absent.append(Absent("capture pass", "no trace of a capture was imported"))
    if replay is None:
        absent.append(Absent("traced pass", "no trace of replays was imported"))
    memory = None
    for part in group.of_kind(SourceKind.MEMORY_SNAPSHOT):
        memory = _memory(part.file, limits)
        reason = "a snapshot tells what was allocated, not by whom, and only of one moment"
        absent.append(Absent("memory pass", reason))
    if memory is None:
        absent.append(Absent("memory", "no memory snapshot was imported"))
    absent += _of_environment(replay or capture)
    return Found(tuple(graphs), tuple(ids), memory, tuple(absent))


def _from_traces(
    capture: Part | None, replay: Part | None, limits: Limits
) -> tuple[tuple[CapturedGraph, ...], list[Absent]]:
    """Graphs told by the launches of captures, where no file describes them."""
    shown = replay.trace if replay else None
    made = capture.trace if capture else shown
    if made is None or not captured_launches(made):
        advice = "no debug DOT and no trace of a capture was imported"
        return (), [Absent("graphs", advice)]
    if shown is None:
        return (), [Absent("graphs", "no trace of replays was imported beside that of the capture")]
    rows = [row for launches, _ in captured_launches(made) for row in launches.tolist()]
    found = captured_order(made, shown, launched_kernels(made, rows, limits))
    absent = [Absent("graphs", reason) for reason in found.missing]
    if found.graphs:
        reason = (
            "no debug DOT was imported: nodes are the launches of the capture in their order, and "
            "edges only say that replays ran them one after another on one stream"
        )
        absent.append(Absent("dependencies between nodes", reason))
    return found.graphs, absent


def _graph_data(file: Path, limits: Limits) -> tuple[CapturedGraph, GraphIds]:
    if source_kind(file, limits) is SourceKind.PICKLE:
        return graph_data(read_pickle(file, limits), file, limits)
    return read_graph_data(file, limits)


def _memory(file: Path, limits: Limits) -> MemoryUse:
    if source_kind(file, limits) is SourceKind.PICKLE:
        return memory_use(read_pickle(file, limits), file, limits)
    return read_memory_snapshot(file, limits)


def _roots(graphs: Sequence[CapturedGraph]) -> list[CapturedGraph]:
    return [graph for graph in graphs if graph.parent is None]


def _renumbered(graphs: Sequence[CapturedGraph], first: int) -> tuple[CapturedGraph, ...]:
    """``graphs``, whose roots are graph-0, graph-1, ..., with the numbers from ``first`` on."""

    def moved(ident: str) -> str:
        number, dot, rest = ident.removeprefix("graph-").partition(".")
        return f"graph-{int(number) + first}{dot}{rest}"

    change = msgspec.structs.replace
    return tuple(
        change(
            graph,
            id=moved(graph.id),
            parent=graph.parent and (moved(graph.parent[0]), graph.parent[1]),
            nodes=tuple(
                change(node, bodies=tuple(map(moved, node.bodies))) if node.bodies else node
                for node in graph.nodes
            ),
        )
        for graph in graphs
    )


def _of_environment(trace: Part | None) -> Iterator[Absent]:
    if trace is None:
        yield Absent("environment", "graphs and memory snapshots do not tell where they were made")
        return
    told = "the trace tells the device and CUDA's version"
    yield Absent("environment", f"of the machine {told} at most")
    whole = trace.trace is not None and trace.trace.gpu["name"].cast(str).str.contains(
        "^CUDA graph .*, as a whole$"
    )
    if whole is not None and whole is not False and whole.any():
        count = int(whole.sum())
        reason = (
            f"the report traced {count:,} graph launches as a whole; record it with "
            "--cuda-graph-trace=node to see into them"
        )
        yield Absent("kernels within graphs", reason)


def _write(
    group: Group,
    target: Path,
    found: Found,
    mode: ExecutionMode,
    command: tuple[str, ...],
    scratch: Path,
) -> Imported:
    capture, replay = group.trace(FileRole.CAPTURE_TRACE), group.trace(FileRole.REPLAY_TRACE)
    main = replay or capture
    head = read_head(main.file) if main else None
    sources = tuple(_source(part) for part in _once(group.parts))
    try:
        with BundleWriter(target) as writer:
            for role, part in ((FileRole.CAPTURE_TRACE, capture), (FileRole.REPLAY_TRACE, replay)):
                if part is not None:
                    writer.add_trace(role, _as_gzip(part.file, scratch))
            for graph in found.graphs:
                writer.add_graph(graph)
            if found.ids and replay is not None:
                writer.add_replay_ids(found.ids)
            if found.memory is not None:
                writer.add_memory(found.memory)
            rank = head.rank if head else None
            writer.commit(
                Manifest(
                    format=FORMAT_NAME,
                    version=FORMAT_VERSION,
                    tool_version=__version__,
                    created=datetime.now(UTC).isoformat(timespec="seconds"),
                    command=command,
                    workload=WorkloadInfo(
                        name=group.name,
                        factory=FACTORY,
                        seed=None,
                        warmup=0,
                        iterations=0,
                        traced_iterations=_marked(main.trace) if main and main.trace else 0,
                    ),
                    mode=mode,
                    rank=rank.rank if rank else None,
                    group=RankGroup(rank.world_size, _device(main), {}) if rank else None,
                    status="complete",
                    failures=(),
                    absent=found.absent,
                    environment=_environment(main),
                    files=(),
                    sources=sources,
                )
            )
    except OSError as error:
        raise GraphvizDashError(
            f"{target}: could not be written ({error.strerror or error}); nothing of it was kept."
        ) from error
    return Imported(target, sources, found.absent)


def _once(parts: Sequence[Part]) -> list[Part]:
    return list({part.source: part for part in parts}.values())


def _source(part: Part) -> Source:
    size = part.source.stat().st_size
    method = {
        SourceKind.NSIGHT: "written anew as a Kineto trace; what no table of it names is left out",
        SourceKind.DEBUG_DOT: "parsed",
        SourceKind.GRAPH_DATA: "parsed",
        SourceKind.MEMORY_SNAPSHOT: "read as plain data",
    }.get(part.kind)
    return Source(part.source.name, part.kind.value, size, sha256_of(part.source), method)


def _as_gzip(file: Path, scratch: Path) -> Path:
    """A copy of a trace that the writer may take, compressed with gzip if it was not."""
    target = scratch / f"{hashlib.sha256(str(file).encode()).hexdigest()[:16]}.json.gz"
    with file.open("rb") as source:
        compressed = source.read(2) == _GZIP
    if compressed:
        shutil.copyfile(file, target)
        return target
    # Without limits: the same bytes have been read within them.
    endless = replace(DEFAULT_LIMITS, decompressed_bytes=1 << 62, expansion=1 << 62)
    with ByteStream(file, endless) as stream, igzip.open(target, "wb", compresslevel=2) as out:  # type: ignore[no-untyped-call]
        while data := stream.read():
            out.write(data)
    return target


def _marked(trace: Trace) -> int:
    found = steps(trace)
    return 0 if not found or found[0].method is StepMethod.WHOLE else len(found)


def _device(part: Part | None) -> int:
    """The device that most of the trace's work ran on."""
    if part is None or part.trace is None or part.trace.gpu.is_empty():
        return 0
    return int(part.trace.gpu["device"].mode()[0] or 0)


def _environment(part: Part | None) -> Environment:
    trace = part.trace if part else None
    head = read_head(part.file) if part else None
    gpu = None
    if head and head.devices:
        place = _device(part)
        device = head.devices[place if place < len(head.devices) else 0]
        facts = (device.compute_capability, device.memory_bytes, device.multiprocessors)
        if device.name and None not in facts:
            with suppress(TypeError):
                gpu = Gpu(device.name, *facts)  # type: ignore[arg-type]
    return Environment(
        gpu=gpu,
        gpu_count=len(head.devices) if head and head.devices else None,
        driver=None,
        cuda_driver=_version(trace.info.cuda_driver_version if trace else None),
        cuda_runtime=_version(trace.info.cuda_runtime_version if trace else None),
        cupti=None if trace is None or trace.info.cupti_version is None
        else str(trace.info.cupti_version),
        torch=None,
        cuda_bindings=None,
        python=None,
        cpu=None,
        cpu_count=None,
        os=None,
        nccl=head.rank.nccl if head and head.rank else None,
    )  # fmt: skip


def _version(number: int | None) -> str | None:
    """13.0 for 13000, as cudaRuntimeGetVersion encodes it."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"
