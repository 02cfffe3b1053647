"""Tables of a fleet: summaries of all ranks' traces, computed in parallel and stored as Parquet."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import polars as pl
from msgspec import Struct

from graphviz_dash.bundle.document import write_atomically
from graphviz_dash.bundle.parts import RECORDING
from graphviz_dash.bundle.read import check_file, read_parts
from graphviz_dash.bundle.staging import create_scratch_folder
from graphviz_dash.errors import InputError
from graphviz_dash.features.ranks.fleet import (
    TABLES,
    FleetFindings,
    RankSummary,
    analyse_fleet,
    summarise_rank,
)
from graphviz_dash.importers.environment import (
    find_main_device,
    format_job_name,
    get_recording_time,
)
from graphviz_dash.importers.group import build_run_name, strip_extensions
from graphviz_dash.importers.locations import Location, provide_local_copy
from graphviz_dash.importers.tasks import run_all
from graphviz_dash.ingest.cache_entry import PARQUET_ERRORS
from graphviz_dash.ingest.formats.registry import SourceKind, detect_format
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.kineto.trace_head import read_head
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.ingest.unfinished_step import name_unfinished_step
from graphviz_dash.model.run import FileRole, Manifest

CHECKSUM_FILE: Final = "SHA256SUMS"
"""In the format of sha256sum. Detects damage before Polars reads the files, because some damaged
files crash it."""
FAILED_SCHEMA: Final = pl.Schema({"source": pl.String, "reason": pl.String})


class UnreadableSource(Struct, frozen=True):
    """A file or bundle without a summary."""

    source: str
    """Address of the file or bundle."""
    reason: str
    no_trace: bool = False
    """It is not expected to be a replay trace."""


class Fleet(Struct, frozen=True):
    """Tables of a fleet and unreadable files."""

    tables: dict[str, pl.DataFrame]
    failed: tuple[UnreadableSource, ...]


class _Task(Struct, frozen=True):
    location: Location
    name: str
    limits: Limits


def collect_fleet(
    locations: Sequence[Location],
    make: Callable[[], Any],
    limits: Limits = DEFAULT_LIMITS,
    announce: Callable[[int, int], None] = lambda completed, of: None,
) -> Fleet:
    """Summarise traces and bundles on the executors created by ``make``.

    ``announce`` receives the number of completed tasks and their total.

    Raises:
        InputError: No trace among them.
    """
    readable = [location for location in locations if not location.problem]
    tasks = [
        _Task(location, name, limits)
        for location, name in zip(readable, _build_names(readable), strict=True)
    ]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    failed = [
        UnreadableSource(location.address, location.problem)
        for location in locations
        if location.problem
    ]
    for completed, result in enumerate(
        run_all(_summarise_location, tasks, make, _build_failure), 1
    ):
        announce(completed, len(tasks))
        if isinstance(result, RankSummary):
            for name in TABLES:
                rows[name] += getattr(result, name)
        elif not result.no_trace:
            failed.append(result)
    if not rows["ranks"] and not failed:
        raise InputError(locations[0].address, "no trace", "traces, or bundles with traces")
    tables = {
        name: pl.DataFrame(rows[name], schema=schema, orient="row").sort(
            "name", maintain_order=True
        )
        for name, schema in TABLES.items()
    }
    return Fleet(tables, tuple(sorted(failed, key=lambda unread: unread.source)))


def _build_names(locations: Sequence[Location]) -> list[str]:
    """Use the shortest suffix of each address that distinguishes all."""
    parts = [_split_address(location) for location in locations]
    names: list[str] = []
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(segments[-depth:]) for segments in parts]
        if len(set(names)) == len(names):
            break
    return names


def _split_address(location: Location) -> list[str]:
    *parents, last = location.address.rpartition("://")[2].strip("/").split("/")
    return [*parents, last if location.is_bundle else build_run_name(strip_extensions(Path(last)))]


def _summarise_location(task: _Task) -> RankSummary | UnreadableSource:
    location = task.location
    with (
        create_scratch_folder() as scratch,
        provide_local_copy(location, scratch) as local_path,
    ):
        if not location.is_bundle:
            return _summarise_trace(local_path, task)
        parts = read_parts(local_path, (RECORDING,))
        manifest = parts.manifest
        entry = next((e for e in manifest.files if e.role is FileRole.REPLAY_TRACE), None)
        if entry is None:
            return UnreadableSource(
                location.address, "a bundle without a replay trace", no_trace=True
            )
        world = manifest.group.world_size if manifest.group else None
        trace = read_trace(check_file(local_path, entry), task.limits)
        trace = name_unfinished_step(trace, parts.recording)
        gpu = manifest.environment.gpu.name if manifest.environment.gpu else None
        job = _get_job_name(manifest, task.name, format_job_name(world, gpu, None))
        return summarise_rank(
            trace, task.name, location.address, manifest.rank, world, manifest.mode.value, job
        )


def _get_job_name(manifest: Manifest, name: str, machine: str | None) -> str | None:
    """Return the job name shared by the ranks of a bundle.

    For a recorded program it includes the run's name, because two programs on one ``machine`` are
    not ranks of each other.
    """
    group = manifest.group
    if group is not None and group.job is not None:
        return group.job
    if not manifest.mode.is_recorded or manifest.sources:
        return machine
    if group is None or group.world_size == 1:
        program = name
    else:
        program = name.rpartition("/")[2].removesuffix(f"-rank{manifest.rank}")
    return ", ".join(filter(None, (program, machine)))


def _summarise_trace(file: Path, task: _Task) -> RankSummary | UnreadableSource:
    address = task.location.address
    row = detect_format(file, task.limits)
    if row is None:
        return UnreadableSource(address, "a file of unknown kind", no_trace=True)
    if row.kind is not SourceKind.KINETO:
        return UnreadableSource(address, f"a {row.kind.value}", no_trace=True)
    trace = read_trace(file, task.limits)
    head = read_head(file, task.limits)
    number, world = (head.rank.rank, head.rank.world_size) if head.rank else (None, None)
    device = find_main_device(trace)
    gpu = head.devices[device].name if device < len(head.devices) else None
    recorded = get_recording_time(trace)
    job = format_job_name(world, gpu, recorded)
    if world is None:
        # Without a number of ranks, traces of one GPU and day may belong to one job.
        job = ", ".join(filter(None, (gpu, recorded and recorded[:10]))) or None
    return summarise_rank(trace, task.name, address, number, world, job=job)


def _build_failure(task: _Task, reason: str) -> UnreadableSource:
    return UnreadableSource(task.location.address, reason)


def write_fleet(fleet: Fleet, folder: Path) -> None:
    """Write the tables to ``folder``, each file atomically.

    Raises:
        OSError: Writing failed; names the file.
    """
    failed = [{"source": unread.source, "reason": unread.reason} for unread in fleet.failed]
    tables = {**fleet.tables, "failed": pl.DataFrame(failed, schema=FAILED_SCHEMA, orient="row")}
    folder.mkdir(parents=True, exist_ok=True)
    checksums = []
    for name, table in tables.items():
        # Written to memory first: the engine does not raise OSError for a full disk.
        buffer = io.BytesIO()
        table.write_parquet(buffer)
        content = buffer.getvalue()
        write_atomically(folder / f"{name}.parquet", content)
        checksums.append(f"{sha256(content).hexdigest()}  {name}.parquet\n")
    write_atomically(folder / CHECKSUM_FILE, "".join(checksums).encode())


def is_fleet(folder: Path) -> bool:
    """Return True if ``folder`` contains tables of a fleet."""
    return all((folder / f"{name}.parquet").is_file() for name in TABLES)


def read_fleet(folder: Path) -> Fleet:
    """Read the tables in ``folder``.

    Raises:
        InputError: A table is missing, damaged or has another schema.
    """
    tables = {}
    expected = "a table written by graphviz-dash fleet"
    try:
        checksums = (folder / CHECKSUM_FILE).read_bytes().split(b"\n")
    except OSError as error:
        expected = "tables written by this version of graphviz-dash fleet"
        advice = "re-run the query on the traces"
        raise InputError(folder / CHECKSUM_FILE, str(error), expected, advice) from error
    for name, schema in {**TABLES, "failed": FAILED_SCHEMA}.items():
        file = folder / f"{name}.parquet"
        try:
            content = file.read_bytes()
            if f"{sha256(content).hexdigest()}  {name}.parquet".encode() not in checksums:
                raise InputError(file, f"it does not match {CHECKSUM_FILE}", expected)
            tables[name] = pl.read_parquet(content)
        except PARQUET_ERRORS as error:
            raise InputError(file, str(error), expected) from error
        if tables[name].schema != schema:
            raise InputError(file, "unexpected columns", "a table of this version")
    failed = tables.pop("failed")
    return Fleet(tables, tuple(UnreadableSource(*row) for row in failed.iter_rows()))


def compute_answers(fleet: Fleet) -> tuple[FleetFindings, ...]:
    """Analyse the tables, separately for each mode."""
    tables = fleet.tables
    return analyse_fleet(tables["ranks"].lazy(), tables["graphs"].lazy(), tables["kernels"].lazy())
