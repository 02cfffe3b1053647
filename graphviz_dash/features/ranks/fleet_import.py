"""The tables of a fleet: a summary of every rank's trace, made in parallel, kept as Parquet."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import polars as pl
from msgspec import Struct

from graphviz_dash.bundle.document import write_beside
from graphviz_dash.bundle.read import checked_file, read_manifest
from graphviz_dash.errors import InputError
from graphviz_dash.features.ranks.fleet import (
    TABLES,
    FleetAnswer,
    RankSummary,
    fleet_answers,
    summarise,
)
from graphviz_dash.importers.environment import job_name, recorded_at, work_device
from graphviz_dash.importers.group import run_name, stem
from graphviz_dash.importers.locations import Location, local_copy
from graphviz_dash.importers.tasks import run_all
from graphviz_dash.ingest.formats.registry import SourceKind, recognised_format
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.kineto.trace_head import read_head
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits
from graphviz_dash.ingest.parquet import UNREADABLE
from graphviz_dash.model.run import FileRole, Manifest

CHECKSUMS: Final = "SHA256SUMS"
"""The file beside the tables by which damage is seen, as sha256sum writes and checks it: at some
damaged files Polars ends the process."""
FAILED: Final = pl.Schema({"source": pl.String, "reason": pl.String})


class Unread(Struct, frozen=True):
    """A file or bundle of which there is no summary, and why."""

    source: str
    reason: str
    no_trace: bool = False
    """Whether it is no trace of replays, and need not be one."""


class Fleet(Struct, frozen=True):
    """The tables, and what could not be read."""

    tables: dict[str, pl.DataFrame]
    failed: tuple[Unread, ...]


class _Task(Struct, frozen=True):
    location: Location
    name: str
    limits: Limits


def collect_fleet(
    locations: Sequence[Location],
    make: Callable[[], Any],
    limits: Limits = DEFAULT_LIMITS,
    announce: Callable[[int, int], None] = lambda done, of: None,
) -> Fleet:
    """The tables of the traces and bundles at ``locations``, summarised on the executors that
    ``make`` gives. ``announce`` is called with how many are done, and of how many.

    Raises:
        InputError: no trace among them.
    """
    readable = [location for location in locations if not location.unreadable]
    tasks = [
        _Task(location, name, limits)
        for location, name in zip(readable, _names(readable), strict=True)
    ]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    failed = [
        Unread(location.address, location.unreadable)
        for location in locations
        if location.unreadable
    ]
    for done, result in enumerate(run_all(_summary, tasks, make, _failed), 1):
        announce(done, len(tasks))
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


def _names(locations: Sequence[Location]) -> list[str]:
    """A name for each location: the last part of its address, with as much of what is before it as
    makes it unlike the others."""
    parts = [_parts(location) for location in locations]
    names: list[str] = []
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(own[-depth:]) for own in parts]
        if len(set(names)) == len(names):
            break
    return names


def _parts(location: Location) -> list[str]:
    *above, last = location.address.rpartition("://")[2].strip("/").split("/")
    return [*above, last if location.bundle else run_name(stem(Path(last)))]


def _summary(task: _Task) -> RankSummary | Unread:
    """The summary of one location; runs on a worker."""
    location = task.location
    with (
        tempfile.TemporaryDirectory(prefix="graphviz-dash-fleet-") as scratch,
        local_copy(location, Path(scratch)) as here,
    ):
        if not location.bundle:
            return _of_trace(here, task)
        manifest = read_manifest(here)
        entry = next((e for e in manifest.files if e.role is FileRole.REPLAY_TRACE), None)
        if entry is None:
            return Unread(location.address, "a bundle without a trace of replays", no_trace=True)
        world = manifest.group.world_size if manifest.group else None
        trace = read_trace(checked_file(here, entry), task.limits)
        gpu = manifest.environment.gpu.name if manifest.environment.gpu else None
        job = _job(manifest, task.name, job_name(world, gpu, None))
        return summarise(
            trace, task.name, location.address, manifest.rank, world, manifest.mode.value, job
        )


def _job(manifest: Manifest, name: str, machine: str | None) -> str | None:
    """What a bundle called ``name`` has in common with the other ranks of its job: of a recorded
    program its run's name too, for two programs on one ``machine`` are no ranks of each other."""
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


def _of_trace(file: Path, task: _Task) -> RankSummary | Unread:
    address = task.location.address
    row = recognised_format(file, task.limits)
    if row is None:
        return Unread(address, "a file of no kind that is known", no_trace=True)
    if row.kind is not SourceKind.KINETO:
        return Unread(address, f"a {row.kind.value}", no_trace=True)
    trace = read_trace(file, task.limits)
    head = read_head(file, task.limits)
    number, world = (head.rank.rank, head.rank.world_size) if head.rank else (None, None)
    device = work_device(trace)
    gpu = head.devices[device].name if device < len(head.devices) else None
    job = job_name(world, gpu, recorded_at(trace))
    return summarise(trace, task.name, address, number, world, job=job)


def _failed(task: _Task, reason: str) -> Unread:
    return Unread(task.location.address, reason)


def write_fleet(fleet: Fleet, folder: Path) -> None:
    """Keeps the tables in ``folder``; each file is written whole or not at all.

    Raises:
        OSError: the disk refuses, and the error names the file.
    """
    failed = [{"source": unread.source, "reason": unread.reason} for unread in fleet.failed]
    tables = {**fleet.tables, "failed": pl.DataFrame(failed, schema=FAILED, orient="row")}
    folder.mkdir(parents=True, exist_ok=True)
    checksums = []
    for name, table in tables.items():
        # Into memory first: the engine's own error for a full disk is no OSError.
        written = io.BytesIO()
        table.write_parquet(written)
        content = written.getvalue()
        write_beside(folder / f"{name}.parquet", content)
        checksums.append(f"{sha256(content).hexdigest()}  {name}.parquet\n")
    write_beside(folder / CHECKSUMS, "".join(checksums).encode())


def is_fleet(folder: Path) -> bool:
    """Whether tables of a fleet lie in ``folder``."""
    return all((folder / f"{name}.parquet").is_file() for name in TABLES)


def read_fleet(folder: Path) -> Fleet:
    """The tables in ``folder``.

    Raises:
        InputError: a table is missing, damaged or of another shape.
    """
    tables = {}
    expected = "a table that graphviz-dash fleet wrote"
    try:
        checksums = (folder / CHECKSUMS).read_bytes().split(b"\n")
    except OSError as error:
        expected = "what this version's fleet wrote"
        advice = "ask the traces again"
        raise InputError(folder / CHECKSUMS, str(error), expected, advice) from error
    for name, schema in {**TABLES, "failed": FAILED}.items():
        file = folder / f"{name}.parquet"
        try:
            content = file.read_bytes()
            if f"{sha256(content).hexdigest()}  {name}.parquet".encode() not in checksums:
                raise InputError(file, f"it is not as {CHECKSUMS} beside it says", expected)
            tables[name] = pl.read_parquet(content)
        except UNREADABLE as error:
            raise InputError(file, str(error), expected) from error
        if tables[name].schema != schema:
            raise InputError(file, "a table of other columns", "one of this version's")
    failed = tables.pop("failed")
    return Fleet(tables, tuple(Unread(*row) for row in failed.iter_rows()))


def answers(fleet: Fleet) -> tuple[FleetAnswer, ...]:
    """What the tables say, of each mode by itself."""
    tables = fleet.tables
    return fleet_answers(tables["ranks"].lazy(), tables["graphs"].lazy(), tables["kernels"].lazy())
